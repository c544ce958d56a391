"""The control loop of a worker: leases jobs, starts their handlers, sends heartbeats, progress and reports, and drains.

It runs on an event loop in a thread of its own, so that a handler that blocks its own loop or thread stops none of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bursar.client import AsyncClient, Client
from bursar.errors import BursarError, Internal
from bursar.models import LeaseBody, LeasedAnswer, ProgressItem
from bursar.worker.completion_rate import CompletionRate
from bursar.worker.context import AsyncJobContext, BaseContext, JobContext, Stop
from bursar.worker.executor import Executor, Mailbox, Running
from bursar.worker.handlers import Handlers
from bursar.worker.leases import HEARTBEAT_TIMEOUT, ITEMS_MAX, Leases, fence_of, length_of
from bursar.worker.outcome import End, Finish, failed, returned
from bursar.worker.reports import CALLS, Backoff, Reporter, WorkerReport

log = logging.getLogger("bursar.worker")

CAPACITY_MAX = 1_000
DROPPED_TIMEOUT = 1.0
"""How long to wait for the answer of a lease call when the worker stops, to return the jobs in it."""


@dataclass(frozen=True)
class Config:
    """The checked settings of a worker."""

    url: str
    token: str | None
    tenant: str | None
    queues: list[str]
    name: str | None
    concurrency: int
    lease: float | None
    grace: float
    wait: float
    ahead_max: int


class Control:
    """One run of a worker."""

    def __init__(
        self, config: Config, handlers: Handlers, handler_loop: asyncio.AbstractEventLoop, clients: Clients
    ) -> None:
        """Must be created in the control thread's event loop."""
        self._config = config
        self._handlers = handlers
        self._clients = clients
        self._client = AsyncClient(config.url, token=config.token, tenant=config.tenant)
        self._mail = Mailbox(asyncio.get_running_loop(), self._receive)
        self._executor = Executor(handler_loop, self._handler_ended)
        self._reporter = Reporter(self._client, config.grace)
        self._leases = Leases(self._client, self._reporter.put)
        self._reporter.leases = self._leases
        self._progress = ProgressSender(self._client, self._reporter.put)
        self._ready: deque[LeasedAnswer] = deque()
        self._running: set[Running] = set()
        self._stuck: set[Running] = set()
        """Blocking handlers that ignore the order to stop. Their threads are still in use."""
        self._changed = asyncio.Event()
        self._stopping = False
        self._rate = CompletionRate(time.monotonic())

    def stop(self) -> None:
        """Makes the worker drain; may be called in any thread."""
        self._mail.put(self._stop)

    def _stop(self) -> None:
        self._stopping = True
        self._changed.set()

    async def run(self) -> WorkerReport:
        """Runs jobs until the worker is stopped, then drains. Raises if the server denies the lease call."""
        reporting = [asyncio.create_task(self._reporter.run()) for _ in range(CALLS)]
        background = [
            asyncio.create_task(self._leases.send_heartbeats()),
            asyncio.create_task(self._progress.run()),
        ]
        try:
            try:
                await self._work()
            finally:
                await self._drain()
                self._reporter.close()
                await asyncio.gather(*reporting)
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)
            self._executor.close()
            await self._client.close()
        return self._reporter.counts

    async def _work(self) -> None:
        lease_call: asyncio.Task[list[LeasedAnswer]] | None = None
        try:
            while not self._stopping:
                self._start_ready_jobs()
                if lease_call is None and (capacity := self._room()) > 0:
                    lease_call = asyncio.create_task(self._lease(capacity))
                    lease_call.add_done_callback(lambda _: self._changed.set())
                self._changed.clear()
                await self._changed.wait()
                if lease_call is not None and lease_call.done():
                    finished, lease_call = lease_call, None
                    self._take(finished.result())
        finally:
            if lease_call is not None:
                await asyncio.wait([lease_call], timeout=DROPPED_TIMEOUT)
                lease_call.cancel()
                await asyncio.wait([lease_call])
                if not lease_call.cancelled() and lease_call.exception() is None:
                    self._take(lease_call.result())

    def _take(self, jobs: list[LeasedAnswer]) -> None:
        self._leases.add(jobs)
        self._ready.extend(jobs)

    def _room(self) -> int:
        """Returns how many jobs to request: 0 if there is no room, or if handlers have enough to do and the room is too
        small to be worth a call."""
        ahead = min(self._rate.jobs_ahead(time.monotonic()), self._config.ahead_max)
        have = len(self._running) + len(self._stuck) + len(self._ready)
        room = self._config.concurrency + ahead - have
        if room <= 0 or (have >= self._config.concurrency and room < -(-ahead // 4)):
            return 0
        return min(room, CAPACITY_MAX)

    async def _lease(self, capacity: int) -> list[LeasedAnswer]:
        body = LeaseBody(
            queues=self._config.queues,
            kinds=self._handlers.kinds(),
            capacity=capacity,
            wait_ms=round(self._config.wait * 1000),
        )
        if self._config.lease is not None:
            body["lease_ms"] = round(self._config.lease * 1000)
        if self._config.name is not None:
            body["worker"] = self._config.name
        once, backoff = self._client.with_options(attempts_max=1), Backoff()
        while True:
            try:
                return [job for job in (await once.work.lease(**body))["jobs"] if readable(job)]
            except BursarError as error:
                # An internal error may concern a single row, so it must not stop the worker.
                if not (error.transient or isinstance(error, Internal)):
                    raise
                log.warning("leasing jobs failed, retrying: %s", error)
            await backoff.wait()

    def _start_ready_jobs(self) -> None:
        while self._ready and len(self._running) + len(self._stuck) < self._config.concurrency:
            job = self._ready.popleft()
            handler = self._handlers.find(job["kind"])
            if handler is None:
                self._reporter.put(Finish(job["id"], fence_of(job), "return"))
                continue
            context = self._clients.context(job, self._send_progress, is_async=handler.is_async)
            running = Running(job, handler, context)
            if self._leases.start(job, context.signal, self._on_stop(running)):
                self._running.add(running)
                self._executor.start(running)

    def _on_stop(self, running: Running) -> Callable[[], None]:
        """Returns what happens when a handler must stop: it has the grace period to finish, then it is given up."""

        def begin_grace() -> None:
            loop = asyncio.get_running_loop()
            running.overdue = loop.call_later(self._config.grace, self._give_up, running)

        return begin_grace

    def _send_progress(self, item: ProgressItem) -> None:
        self._mail.put(lambda: self._progress.put(item))

    def _handler_ended(self, running: Running, end: End) -> None:
        self._mail.put(lambda: self._end(running, end))

    def _receive(self, item: Callable[[], None]) -> None:
        item()

    def _end(self, running: Running, end: End) -> None:
        self._stuck.discard(running)
        self._running.discard(running)
        self._rate.job_ended(time.monotonic())
        self._changed.set()
        if running.overdue is not None:
            running.overdue.cancel()
        if not running.ended:
            running.ended = True
            self._finish(running, end)

    def _finish(self, running: Running, end: End) -> None:
        finish = Finish(running.context.id, running.context.fence, end.route, end.fields, end.size)
        self._progress.then_report(finish)

    def _give_up(self, running: Running) -> None:
        """Ends the lease of a handler that did not stop in its grace period."""
        if running.ended:
            return
        running.ended = True
        self._running.discard(running)
        if not running.handler.is_async:
            self._stuck.add(running)
        self._executor.cancel(running)
        self._changed.set()
        end = overdue_end(running.context)
        if end is None:
            self._leases.end(running.context.id, running.context.fence)
        else:
            self._finish(running, end)

    async def _drain(self) -> None:
        """Returns the jobs that were not started, tells running handlers to stop, and waits for them."""
        self._reporter.drain()
        while self._ready:
            job = self._ready.popleft()
            self._reporter.put(Finish(job["id"], fence_of(job), "return"))
        self._leases.stop_all(Stop.draining)
        while self._running:
            self._changed.clear()
            await self._changed.wait()
        await self._progress.flush()


class ProgressSender:
    """Sends progress in batches. The end of a job is reported after its progress."""

    WAITING_MAX = 10_000
    """Older progress is dropped if more is waiting, first the one without a checkpoint."""

    def __init__(self, client: AsyncClient, report: Callable[[Finish], None]) -> None:
        self._client = client.with_options(timeout=HEARTBEAT_TIMEOUT)
        self._report = report
        self._waiting: deque[ProgressItem] = deque()
        self._unsent: Counter[str] = Counter()
        self._ends: dict[str, Finish] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def put(self, item: ProgressItem) -> None:
        if len(self._waiting) >= self.WAITING_MAX:
            oldest = next((place for place, old in enumerate(self._waiting) if "checkpoint" not in old), 0)
            dropped = self._waiting[oldest]
            del self._waiting[oldest]
            self._sent(dropped)
        self._waiting.append(item)
        self._unsent[item["id"]] += 1
        self._idle.clear()
        self._wake.set()

    def then_report(self, finish: Finish) -> None:
        """Reports the end of a job when all of its progress is sent."""
        if self._unsent[finish.job] > 0:
            self._ends[finish.job] = finish
        else:
            del self._unsent[finish.job]
            self._report(finish)

    async def flush(self) -> None:
        """Waits until all progress is sent."""
        await self._idle.wait()

    async def run(self) -> None:
        """Sends progress; never returns."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), ITEMS_MAX))]
                await self._send(batch)
            self._idle.set()

    async def _send(self, batch: list[ProgressItem]) -> None:
        try:
            answers: list[Any] = list((await self._client.work.progress_all(items=batch))["items"])
            for item, answer in zip(batch, answers, strict=False):
                if "problem" in answer:
                    log.info("progress of %s was rejected: %s", item["id"], answer["problem"]["detail"])
        except BursarError as error:
            log.warning("sending progress failed: %s", error)
        for item in batch:
            self._sent(item)

    def _sent(self, item: ProgressItem) -> None:
        self._unsent[item["id"]] -= 1
        if self._unsent[item["id"]] <= 0 and (finish := self._ends.pop(item["id"], None)) is not None:
            del self._unsent[item["id"]]
            self._report(finish)


class Clients:
    """The clients of handlers, which are created when the first handler needs one."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._client: Client | None = None
        self._async_client: AsyncClient | None = None

    def context(
        self, job: LeasedAnswer, send_progress: Callable[[ProgressItem], None], *, is_async: bool
    ) -> BaseContext:
        url, token, tenant = self._config.url, self._config.token, self._config.tenant
        if is_async:
            if self._async_client is None:
                self._async_client = AsyncClient(url, token=token, tenant=tenant)
            return AsyncJobContext(job, fence_of(job), send_progress, self._async_client)
        if self._client is None:
            self._client = Client(url, token=token, tenant=tenant)
        return JobContext(job, fence_of(job), send_progress, self._client)

    async def close(self) -> None:
        """Closes the clients; runs in the event loop of the handlers."""
        if self._async_client is not None:
            await self._async_client.close()
        if self._client is not None:
            self._client.close()


def overdue_end(context: BaseContext) -> End | None:
    """Returns how to end the lease of a handler that did not stop in its grace period."""
    usage = context.reported()
    message = "the handler did not stop within its grace period"
    reason = context.signal.reason
    if reason is Stop.lost:
        # The result is discarded, but spent units are still charged.
        return None if usage is None else failed("lease lost", message, usage)
    if reason is Stop.cancelled:
        return failed("cancelled", message, usage)
    return returned() if usage is None else failed("drained", message, usage, retry_after=0)


def readable(job: LeasedAnswer) -> bool:
    """Returns whether a leased job has its lease; the lease of any other expires."""
    try:
        return fence_of(job) >= 0 and length_of(job) > 0
    except ValueError as error:
        log.error("leased job %s cannot be read: %s", job.get("id"), error)
        return False
