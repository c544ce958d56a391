"""How many jobs to lease ahead of those that run."""

from __future__ import annotations

WINDOW = 0.1
"""The worker leases as many jobs ahead as it completes in this time, in seconds. That hides the latency of the lease
call for short jobs, and leaves long jobs to other workers."""


class CompletionRate:
    """The number of jobs that ended in the current and in the previous window."""

    def __init__(self, now: float) -> None:
        self._start = now
        self._current = 0
        self._previous = 0

    def job_ended(self, now: float) -> None:
        self._advance(now)
        self._current += 1

    def jobs_ahead(self, now: float) -> int:
        """Returns how many jobs to lease ahead of those that run."""
        self._advance(now)
        return max(self._current, self._previous)

    def _advance(self, now: float) -> None:
        elapsed = now - self._start
        if elapsed >= WINDOW:
            self._previous = self._current if elapsed < 2 * WINDOW else 0
            self._start, self._current = now, 0
