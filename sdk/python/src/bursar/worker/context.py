"""The context of a running handler: its job, its progress, its usage and the signal to stop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from bursar.client import AsyncClient, Client
from bursar.models import HeldUnitsAnswer, LeasedAnswer, ProgressItem, Usage

PROGRESS_BYTES_MAX = 16 << 10
CHECKPOINT_BYTES_MAX = 16 << 10
SCOPES_MAX = 1_000
UNCHANGED: Any = object()
"""Stands for a checkpoint that a report leaves as it is: `None` is a checkpoint too."""
AMOUNT_MAX = (1 << 63) - 1


class Stop(IntEnum):
    """Why a handler must stop. A higher reason replaces a lower one."""

    draining = 1
    """The worker shuts down. The handler should finish soon or raise; then the job is retried."""
    cancelled = 2
    """The job was cancelled."""
    lost = 3
    """The lease is lost: another worker may have the job, and the result of this handler is discarded."""


class StopSignal:
    """Tells a handler that it must stop. It can be watched from threads and from event loops."""

    def __init__(self) -> None:
        self._reason: Stop | None = None
        self._lock = threading.Lock()
        self._event = threading.Event()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def reason(self) -> Stop | None:
        """Why the handler must stop, or `None` if it may go on."""
        return self._reason

    def is_set(self) -> bool:
        """Returns whether the handler must stop."""
        return self._reason is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the handler must stop, or for `timeout` seconds; returns whether it must."""
        return self._event.wait(timeout)

    async def wait_async(self) -> Stop:
        """Waits until the handler must stop, and returns why."""
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiters.append(waiter)
        try:
            while self._reason is None:
                await waiter[1].wait()
            return self._reason
        finally:
            with self._lock:
                self._waiters.remove(waiter)

    def set(self, reason: Stop) -> bool:
        """Sets the reason, unless the signal has one that is at least as strong; returns whether it was the first."""
        with self._lock:
            first = self._reason is None
            if self._reason is None or self._reason < reason:
                self._reason = reason
            for loop, event in self._waiters:
                try:
                    loop.call_soon_threadsafe(event.set)
                except RuntimeError:
                    # The loop is closed, so nothing waits there.
                    continue
        self._event.set()
        return first


class BaseContext:
    """What contexts of blocking and of asyncio handlers have in common.

    A job runs **at least once**: a worker that crashes, or loses its connection or its lease, may have done the work
    already when another worker does it again. Make the effects of a handler safe to repeat: pass
    `ctx.idempotency_key` to services that accept one, and use `ctx.id` as a key elsewhere.
    """

    def __init__(self, job: LeasedAnswer, fence: int, send_progress: Callable[[ProgressItem], None]) -> None:
        self.job = job
        """The leased job."""
        self.id = job["id"]
        """The id of the job, which is the same for every attempt."""
        self.fence = fence
        """The fence of the lease."""
        self.attempt = job["attempt"]
        """The number of this attempt, counted from 1."""
        self.idempotency_key = job.get("idempotency_key")
        """The idempotency key of the job."""
        self.signal = StopSignal()
        """Tells when and why the handler must stop."""
        self._send_progress = send_progress
        self._lock = threading.Lock()
        self._usage: dict[str | None, int] = {}
        self._has_usage = False
        self._blobs: list[str] = []

    @property
    def cancelled(self) -> bool:
        """Whether the handler must stop: the job was cancelled, the lease is lost, or the worker drains. A long handler
        checks this; see `ctx.signal` for the reason."""
        return self.signal.is_set()

    @property
    def checkpoint(self) -> Any:
        """The last checkpoint of the job: the JSON that an earlier attempt reported with its progress. `None` in the
        first attempt, and if there was none. A handler that begins with it does not repeat the work up to it."""
        return self.job.get("checkpoint")

    def progress(
        self,
        percent: float | None = None,
        message: str | None = None,
        data: Any = None,
        *,
        checkpoint: Any = UNCHANGED,
    ) -> None:
        """Sends progress to listeners and extends the lease. The job keeps the last report. It does not wait: progress
        is sent in the background, before the end of the job, and a failure is logged.

        `checkpoint` is JSON that says where the work is: the next attempt gets it as `ctx.checkpoint`. `None` removes
        the last one. A checkpoint that could not be sent leaves the one before it."""
        if percent is not None and not 0 <= percent <= 100:
            raise ValueError(f"percent is {percent}; it must be from 0 to 100: how much of the job is done")
        size = len((message or "").encode()) + len(json.dumps(data).encode())
        if size > PROGRESS_BYTES_MAX:
            raise ValueError(f"data has {size} bytes with its message; at most {PROGRESS_BYTES_MAX} are allowed")
        item = ProgressItem(id=self.id, fence=self.fence, percent=percent, message=message, data=data)
        if checkpoint is not UNCHANGED:
            size = len(json.dumps(checkpoint, ensure_ascii=False, separators=(",", ":")).encode())
            if size > CHECKPOINT_BYTES_MAX:
                raise ValueError(
                    f"checkpoint has {size} bytes; at most {CHECKPOINT_BYTES_MAX} are allowed: "
                    "store larger data as a blob, and its id in the checkpoint"
                )
            # The handler may change the value before it is sent.
            item["checkpoint"] = json.loads(json.dumps(checkpoint))
        self._send_progress(item)

    def usage(self, amount: int, scope: str | None = None) -> None:
        """Adds units to what the attempt has spent; default: on the only scope of the job's hold. A handler that
        reports no usage has spent the held units if it succeeds, and nothing if it fails."""
        if type(amount) is not int:
            raise TypeError(f"usage is {amount!r}; it must be an int: units are never fractions")
        if amount < 0:
            raise ValueError("usage must not be negative")
        with self._lock:
            total = self._usage.get(scope, 0) + amount
            if total > AMOUNT_MAX:
                raise OverflowError("usage exceeds 64 bits")
            if scope not in self._usage and len(self._usage) >= SCOPES_MAX:
                raise ValueError(f"usage names more than {SCOPES_MAX} scopes")
            self._usage[scope] = total
            self._has_usage = True

    @property
    def held(self) -> list[HeldUnitsAnswer] | None:
        """The units that the job's hold sets aside, by scope: what the attempt may spend without an overrun. Empty if
        the job has no hold, and `None` if the server could not tell."""
        return self.job.get("held") if self.job.get("hold") is not None else []

    def spent(self, scope: str | None = None) -> int:
        """Returns the units that the handler has reported as spent; default: on the only scope of the job's hold."""
        with self._lock:
            return self._usage.get(scope, 0)

    def reported(self) -> list[Usage] | None:
        """Returns the usage that the handler has reported."""
        with self._lock:
            if not self._has_usage:
                return None
            return [
                Usage(amount=amount) if scope is None else Usage(scope=scope, amount=amount)
                for scope, amount in self._usage.items()
            ]

    def made_blob(self, blob: str) -> None:
        """Records a blob that the job made: the job refers to it when it succeeds."""
        with self._lock:
            if blob not in self._blobs:
                self._blobs.append(blob)

    def made_blobs(self) -> list[str]:
        with self._lock:
            return list(self._blobs)


class JobContext(BaseContext):
    """The context of a blocking handler."""

    def __init__(
        self, job: LeasedAnswer, fence: int, send_progress: Callable[[ProgressItem], None], client: Client
    ) -> None:
        super().__init__(job, fence, send_progress)
        self.client = client
        """A client with the token of the worker."""
        self.blobs = client.blobs.recorded_by(self.made_blob)
        """The blobs of the server. The job refers to those that it puts, when it succeeds."""

    def emit(self, event: str, data: Any = None) -> None:
        """Emits an event of the application about the job, such as `preview.ready`: listeners to the job and its queue
        hear it (`job.emitted`), and the journal keeps it. `data` has at most 16 KiB. The token of the worker must have
        a capability for the event. Raises `LeaseLostError` if the lease is lost."""
        self.client.work.emit(self.id, fence=self.fence, event=event, data=data)


class AsyncJobContext(BaseContext):
    """The context of an asyncio handler."""

    def __init__(
        self, job: LeasedAnswer, fence: int, send_progress: Callable[[ProgressItem], None], client: AsyncClient
    ) -> None:
        super().__init__(job, fence, send_progress)
        self.client = client
        """A client with the token of the worker."""
        self.blobs = client.blobs.recorded_by(self.made_blob)
        """The blobs of the server. The job refers to those that it puts, when it succeeds."""

    async def emit(self, event: str, data: Any = None) -> None:
        """Emits an event of the application about the job, such as `preview.ready`: listeners to the job and its queue
        hear it (`job.emitted`), and the journal keeps it. `data` has at most 16 KiB. The token of the worker must have
        a capability for the event. Raises `LeaseLostError` if the lease is lost."""
        await self.client.work.emit(self.id, fence=self.fence, event=event, data=data)
