"""What streams have in common: they reconnect when the connection is lost."""

from __future__ import annotations

import time

import httpx

from bursar._sending import Options, backoff, retry_after, unreachable
from bursar.errors import BursarError, ProblemError, Unreadable, error_of_answer

PROBLEM_BYTES_MAX = 1 << 20


class Reconnecting:
    """When to reconnect, without I/O."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._attempts = 0
        self._failing_since: float | None = None

    def working(self) -> None:
        """Records that data has arrived."""
        self._attempts, self._failing_since = 0, None

    def failed(self, error: Exception, response: httpx.Response | None) -> float:
        """Returns the delay before the next attempt, or raises if a retry is useless or the timeout is over."""
        self._attempts += 1
        wait = retry_after(response) if isinstance(error, ProblemError) else 0.0
        delay = max(wait, backoff(self._attempts))
        final = error if isinstance(error, BursarError) else unreachable(self._options.base, error)
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        if not final.transient or now - self._failing_since + delay >= self._options.timeout:
            self.working()
            raise final from (None if final is error else error)
        return delay

    def refusal(self, response: httpx.Response, body: bytes) -> BursarError:
        """Returns the error of an answer that is not successful."""
        error = error_of_answer(response.status_code, body[:PROBLEM_BYTES_MAX])
        return error or Unreadable("the answer is not a problem document", response.status_code)
