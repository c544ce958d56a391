"""Reports of ended jobs, sent in batches: while one call is in flight, the next batch collects. Only the control thread
uses this module."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from bursar._call import Call
from bursar._sending import BACKOFF_MAX, BACKOFF_MIN
from bursar.client import AsyncClient
from bursar.errors import BursarError, Internal, LeaseLost, NotFound, ProblemError, error_of
from bursar.worker.leases import ITEMS_MAX, Leases
from bursar.worker.outcome import Finish, Route, failed

log = logging.getLogger("bursar.worker")

CALLS = 2
"""The number of report calls in flight."""
RETRY_TIME_MAX = 15 * 60.0
"""How long a report is retried, in seconds. It is long, because a report that is given up may lose spent units."""
REPORT_BYTES = 24 << 20
"""The size of results in one report, below the maximum size of a request."""


@dataclass
class WorkerReport:
    """The counts of ended jobs of a worker."""

    completed: int = 0
    failed: int = 0
    snoozed: int = 0
    returned: int = 0
    lost: int = 0
    """Jobs whose end was not accepted, because the lease was lost or the report could not be delivered."""


_COUNTS: dict[Route, str] = {"complete": "completed", "fail": "failed", "snooze": "snoozed", "return": "returned"}


class Backoff:
    """The delays between retries of a call; each is twice as long as the one before."""

    def __init__(self) -> None:
        self._delay = BACKOFF_MIN

    async def wait(self) -> None:
        delay, self._delay = self._delay, min(2 * self._delay, BACKOFF_MAX)
        await asyncio.sleep(delay)


class Reporter:
    """Sends the ends of leases."""

    def __init__(self, client: AsyncClient, grace: float) -> None:
        self._client = client
        self._grace = grace
        self._waiting: deque[Finish] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._draining = False
        self.leases: Leases | None = None
        self.counts = WorkerReport()

    def put(self, item: Finish) -> None:
        """Queues a report. Its number is bounded by the leases of the worker."""
        self._waiting.append(item)
        self._wake.set()

    def drain(self) -> None:
        """From now on reports are retried for the grace period only."""
        self._draining = True

    def close(self) -> None:
        """Lets `run` end when all reports are sent."""
        self._closed = True
        self._wake.set()

    async def run(self) -> None:
        """Sends reports until the reporter is closed."""
        while True:
            if batch := self._take():
                await self._report(batch)
            elif self._closed:
                return
            else:
                self._wake.clear()
                await self._wake.wait()

    def _take(self) -> list[Finish]:
        batch: list[Finish] = []
        size = 0
        while self._waiting and len(batch) < ITEMS_MAX and size < REPORT_BYTES:
            item = self._waiting.popleft()
            size += item.size
            batch.append(item)
        return batch

    async def _report(self, items: list[Finish]) -> None:
        routes: dict[Route, list[Finish]] = {}
        for item in items:
            routes.setdefault(item.route, []).append(item)
        await asyncio.gather(*(self._report_route(route, group) for route, group in routes.items()))

    async def _report_route(self, route: Route, items: list[Finish]) -> None:
        try:
            answers = await self._call(route, items)
        except BursarError as error:
            if len(items) > 1 and not error.transient:
                # The call may have failed because of a single item: report each one alone.
                for item in items:
                    await self._report_route(route, [item])
                return
            if isinstance(error, ProblemError) and error.status in (400, 413):
                await self._report_dead(items[0], str(error))
                return
            log.error("reporting %d ended jobs failed; their leases will expire: %s", len(items), error)
            for item in items:
                self._end(item, "lost")
            return
        for item, answer in zip(items, answers, strict=True):
            await self._apply(item, answer)

    async def _apply(self, item: Finish, answer: Any) -> None:
        if "problem" not in answer:
            self._end(item, _COUNTS[item.route])
            return
        error = error_of(answer["problem"])
        if isinstance(error, (LeaseLost, NotFound)):
            log.info("report on %s was rejected, its lease is lost: %s", item.job, error)
            self._end(item, "lost")
        else:
            await self._report_dead(item, str(error))

    async def _report_dead(self, item: Finish, why: str) -> None:
        """Reports the job as dead after a rule has refused its report, which happens for wrong usage. A retry would be
        refused again."""
        log.error("report on %s was refused, the job is reported as dead: %s", item.job, why)
        end = failed("report refused", why, None, retryable=False)
        dead = replace(item, route="fail", fields=end.fields)
        try:
            (answer,) = await self._call("fail", [dead])
            self._end(dead, "lost" if "problem" in answer else "failed")
        except BursarError as error:
            log.error("reporting %s as dead failed: %s", item.job, error)
            self._end(dead, "lost")

    def _end(self, item: Finish, count: str) -> None:
        setattr(self.counts, count, getattr(self.counts, count) + 1)
        if self.leases is not None:
            self.leases.end(item.job, item.fence)

    async def _call(self, route: Route, items: list[Finish]) -> list[Any]:
        began, backoff = time.monotonic(), Backoff()
        body = {"items": [item.item for item in items]}
        while True:
            try:
                sender = self._client._sender  # pyright: ignore[reportPrivateUsage]
                call: Call[Any] = Call("POST", f"/v1/jobs/{route}", body=body, idempotent=True)
                answers: list[Any] = (await sender.send(call))["items"]
                later = [error_of(answer["problem"]) for answer in answers if "problem" in answer]
                # All items are reported again: repeating an accepted report returns the same answer.
                unsettled = next((error for error in later if error.transient or isinstance(error, Internal)), None)
                if unsettled is None and len(answers) == len(items):
                    return answers
                error: BursarError = unsettled or BursarError("the server did not answer every report")
            except BursarError as failure:
                if not (failure.transient or isinstance(failure, Internal)):
                    raise
                error = failure
            if time.monotonic() - began >= (self._grace if self._draining else RETRY_TIME_MAX):
                raise error
            log.warning("reporting %d ended jobs failed, retrying: %s", len(items), error)
            await backoff.wait()
