"""The leases of a worker, and the heartbeats that extend them. Only the control thread uses this module."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from bursar.client import AsyncClient
from bursar.errors import BursarError, Internal, LeaseLost, NotFound, error_of
from bursar.models import BeatItem, LeasedAnswer
from bursar.worker.context import Stop, StopSignal
from bursar.worker.outcome import Finish

log = logging.getLogger("bursar.worker")

ITEMS_MAX = 1_000
HEARTBEAT_TIMEOUT = 5.0


@dataclass
class Lease:
    """A lease that heartbeats extend."""

    job: str
    fence: int
    length: float
    beat_at: float = 0.0
    expires_at: float = 0.0
    signal: StopSignal | None = None
    """The signal of the handler; `None` while the job has not started."""
    on_stop: Callable[[], None] | None = field(default=None, repr=False)

    def renew(self, now: float) -> None:
        """Plans the next heartbeat after a third of the lease, so that two heartbeats may fail."""
        self.beat_at = now + self.length / 3
        self.expires_at = now + self.length

    def stop(self, reason: Stop) -> None:
        if self.signal is not None and self.signal.set(reason) and self.on_stop is not None:
            self.on_stop()


class Leases:
    """The current leases of a worker."""

    def __init__(self, client: AsyncClient, report: Callable[[Finish], None]) -> None:
        # The loop below retries heartbeats itself.
        self._client = client.with_options(attempts_max=1, timeout=HEARTBEAT_TIMEOUT)
        self._report = report
        self._leases: dict[str, Lease] = {}
        self._planned: float | None = None
        self._earlier = asyncio.Event()

    def add(self, jobs: list[LeasedAnswer]) -> None:
        """Adds new leases, whose heartbeats are sent from now on."""
        now = time.monotonic()
        for job in jobs:
            lease = Lease(job["id"], fence_of(job), length_of(job))
            lease.renew(now)
            # A job whose lease expired unnoticed may be leased to the same worker again.
            if (expired := self._leases.get(lease.job)) is not None:
                expired.stop(Stop.lost)
            self._leases[lease.job] = lease
            if self._planned is None or lease.beat_at < self._planned:
                self._earlier.set()

    def start(self, job: LeasedAnswer, signal: StopSignal, on_stop: Callable[[], None]) -> bool:
        """Marks a job as started; returns `False` if the worker has lost the lease."""
        lease = self._find(job["id"], fence_of(job))
        if lease is None:
            return False
        lease.signal, lease.on_stop = signal, on_stop
        return True

    def end(self, job: str, fence: int) -> None:
        """Removes a lease that has ended."""
        if self._find(job, fence) is not None:
            del self._leases[job]

    def stop_all(self, reason: Stop) -> None:
        """Tells every running handler to stop."""
        for lease in list(self._leases.values()):
            lease.stop(reason)

    async def send_heartbeats(self) -> None:
        """Sends heartbeats when they are due; never returns."""
        while True:
            self._earlier.clear()
            self._planned = min((lease.beat_at for lease in self._leases.values()), default=None)
            timeout = None if self._planned is None else max(0.0, self._planned - time.monotonic())
            try:
                await asyncio.wait_for(self._earlier.wait(), timeout)
                continue
            except asyncio.TimeoutError:
                pass
            due = self._take_due(time.monotonic())
            for start in range(0, len(due), ITEMS_MAX):
                await self._send(due[start : start + ITEMS_MAX])

    def _take_due(self, now: float) -> list[Lease]:
        """Returns the leases whose heartbeats are due now or soon, so that one call carries many of them."""
        due = [lease for lease in self._leases.values() if lease.beat_at <= now + lease.length / 10]
        for lease in due:
            # This is the time of the retry if the call fails.
            lease.beat_at = now + lease.length / 6
        return due

    async def _send(self, beats: list[Lease]) -> None:
        sent_at = time.monotonic()
        try:
            items = [BeatItem(id=lease.job, fence=lease.fence) for lease in beats]
            answers: list[Any] = list((await self._client.work.heartbeat_all(items=items))["items"])
        except BursarError as error:
            log.warning("heartbeats of %d jobs failed, retrying: %s", len(beats), error)
            self._drop_expired(time.monotonic())
            return
        for lease, answer in zip(beats, answers, strict=False):
            self._apply(lease, answer, sent_at)

    def _apply(self, lease: Lease, answer: Any, sent_at: float) -> None:
        if self._leases.get(lease.job) is not lease:
            return
        if "problem" not in answer:
            lease.renew(sent_at)
            order = answer["order"]
            if order == "cancel" and lease.signal is not None:
                lease.stop(Stop.cancelled)
            elif order in ("cancel", "drain") and lease.signal is None:
                del self._leases[lease.job]
                self._report(Finish(lease.job, lease.fence, "return"))
            return
        error = error_of(answer["problem"])
        if isinstance(error, (LeaseLost, NotFound)):
            log.info("lease of %s is lost: %s", lease.job, error)
            # The end of the job is still reported, because its usage is charged.
            del self._leases[lease.job]
            lease.stop(Stop.lost)
        elif not (error.transient or isinstance(error, Internal)):
            log.warning("heartbeat of %s was refused: %s", lease.job, error)

    def _drop_expired(self, now: float) -> None:
        """Removes leases that expired because no heartbeat got through."""
        for lease in [lease for lease in self._leases.values() if lease.expires_at <= now]:
            log.warning("lease of %s expired, no heartbeat was confirmed in time", lease.job)
            del self._leases[lease.job]
            lease.stop(Stop.lost)

    def _find(self, job: str, fence: int) -> Lease | None:
        lease = self._leases.get(job)
        return lease if lease is not None and lease.fence == fence else None


def fence_of(job: LeasedAnswer) -> int:
    lease = job.get("lease")
    if lease is None:
        raise ValueError("a leased job has no lease")
    return lease["fence"]


def length_of(job: LeasedAnswer) -> float:
    """Returns how long a lease lasts, in seconds. Both times are of the server's clock, so that their difference does
    not depend on the clock of this machine."""
    lease = job.get("lease")
    since, until = (lease.get("since"), lease.get("expires_at")) if lease else (None, None)
    if not since or not until:
        raise ValueError("a leased job has no valid times of its lease")
    return max(0.001, instant(until) - instant(since))


def instant(text: str) -> float:
    """Parses a time in RFC 3339."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", text)
    if match is None:
        raise ValueError(f"{text!r} is not a time in RFC 3339")
    whole = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
    return whole.astimezone(timezone.utc).timestamp() + float(f"0{match[2] or ''}")
