"""The worker that user code creates and runs."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, TypeVar

from bursar._sending import Options
from bursar.errors import InvalidOption
from bursar.worker.control import CAPACITY_MAX, Clients, Config, Control
from bursar.worker.handlers import Handler, Handlers
from bursar.worker.reports import WorkerReport

F = TypeVar("F", bound=Callable[..., Any])

_NUMBERS = itertools.count(1)


class Worker:
    """Runs handlers of jobs.

    ```python
    worker = Worker(url="http://127.0.0.1:7440", token=token, queues=["media"], concurrency=10)

    @worker.job("video.cut")
    def cut(payload: Cut, ctx: JobContext) -> dict[str, str]:
        # Runs at least once: make it safe to repeat.
        ctx.usage(payload.seconds * 10)
        return {"file": "cut.mp4"}

    worker.run()
    ```
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        queues: Iterable[str],
        concurrency: int = 10,
        tenant: str | None = None,
        name: str | None = None,
        lease: float | None = None,
        grace: float = 30.0,
        wait: float = 20.0,
        ahead_max: int = 500,
    ) -> None:
        """`concurrency` handlers run at once. `name` is the worker's name in the journal; a worker token determines it.
        `lease` is how long a lease lasts without a heartbeat; default: the queue's setting. `grace` is how long a
        handler that must stop may go on before it is given up. `wait` is the length of a long poll. All times are
        seconds. `ahead_max` bounds how many short jobs are leased ahead of those that run."""
        options = Options(url, token, tenant).check()
        names = [queues] if isinstance(queues, str) else list(queues)
        if not names:
            raise InvalidOption("queues: must not be empty")
        if not 1 <= concurrency <= CAPACITY_MAX:
            raise InvalidOption(f"concurrency: must be from 1 to {CAPACITY_MAX}")
        if grace < 0 or not 0 <= wait <= 60 or (lease is not None and lease <= 0):
            raise InvalidOption("grace must not be negative, wait must be from 0 to 60, lease must be positive")
        named_by_token = token is not None and token.startswith("bwk_")
        self._config = Config(
            url=options.base,
            token=token,
            tenant=tenant,
            queues=names,
            name=None if named_by_token else name or f"worker-{os.getpid()}-{next(_NUMBERS)}",
            concurrency=concurrency,
            lease=lease,
            grace=grace,
            wait=wait,
            ahead_max=max(0, min(ahead_max, CAPACITY_MAX)),
        )
        self._handlers = Handlers()
        self._lock = threading.Lock()
        self._control: Control | None = None
        self._runs = False
        self._stopped = False

    def job(self, kind: str, *, payload: Any = None) -> Callable[[F], F]:
        """Makes a function the handler for jobs of a kind; `video.*` matches every kind that begins with `video.`.

        The function takes the payload and the context: a `JobContext`, or an `AsyncJobContext` if it is `async`. A
        blocking function runs in a thread. A payload annotated with a pydantic model, or given as `payload` (a model,
        a `TypeAdapter` or a function), is validated; a payload that is refused makes the job dead. The result is
        stored with the job.

        A job runs **at least once**: see `JobContext`. An exception is a failed attempt, which is retried as the queue
        says; `NonRetryableError`, `RetryAfter` and `Snooze` end it in other ways."""

        def register(function: F) -> F:
            self._handlers.add(Handler(kind, function, payload))
            return function

        return register

    def run(self) -> WorkerReport:
        """Runs until `stop` is called or, in the main thread, the process receives SIGTERM or SIGINT. Then it drains:
        jobs that were not started are returned, which uses up no attempt, and running handlers have the grace period
        to finish. Raises if the server denies the token."""
        return asyncio.run(self._run_with_signals())

    async def run_async(self) -> WorkerReport:
        """Like `run`, but runs asyncio handlers in the current event loop and leaves signals alone. Cancelling it
        drains."""
        if not self._handlers.kinds():
            raise InvalidOption("the worker has no handler: decorate a function with `@worker.job(kind)`")
        with self._lock:
            if self._runs:
                raise RuntimeError("the worker runs already, or has run")
            self._runs = True
        loop = asyncio.get_running_loop()
        done: asyncio.Future[WorkerReport] = loop.create_future()
        clients = Clients(self._config)

        def finish(report: WorkerReport | None, error: BaseException | None) -> None:
            if error is not None:
                done.set_exception(error)
            elif report is not None:
                done.set_result(report)

        def control() -> None:
            try:
                report = asyncio.run(self._run_control(loop, clients))
            except BaseException as error:
                loop.call_soon_threadsafe(finish, None, error)
            else:
                loop.call_soon_threadsafe(finish, report, None)

        threading.Thread(target=control, name="bursar-worker", daemon=True).start()
        try:
            while True:
                try:
                    report = await asyncio.shield(done)
                    break
                except asyncio.CancelledError:
                    if done.done():
                        raise
                    self.stop()
                    await asyncio.wait([done])
                    raise
        finally:
            await clients.close()
        return report

    async def _run_control(self, handler_loop: asyncio.AbstractEventLoop, clients: Clients) -> WorkerReport:
        control = Control(self._config, self._handlers, handler_loop, clients)
        with self._lock:
            self._control = control
            stopped = self._stopped
        if stopped:
            control.stop()
        return await control.run()

    def stop(self) -> None:
        """Makes the worker drain and `run` return; may be called in any thread."""
        with self._lock:
            self._stopped = True
            control = self._control
        if control is not None:
            control.stop()

    async def _run_with_signals(self) -> WorkerReport:
        if threading.current_thread() is not threading.main_thread():
            return await self.run_async()
        # A thread of its own calls `stop`, because a signal handler must not take locks.
        reader, writer = os.pipe()

        def wait_for_signal() -> None:
            if os.read(reader, 1) == b"s":
                self.stop()

        woken = threading.Thread(target=wait_for_signal, name="bursar-signals", daemon=True)
        woken.start()

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            os.write(writer, b"s")

        loop = asyncio.get_running_loop()
        numbers = [signal.SIGTERM, signal.SIGINT]
        before = {number: signal.getsignal(number) for number in numbers}
        for number in numbers:
            try:
                # This makes a signal wake the event loop. The handler below runs even while a job blocks the loop.
                loop.add_signal_handler(number, lambda: None)
            except NotImplementedError:
                pass
            signal.signal(number, on_signal)
        try:
            return await self.run_async()
        finally:
            for number in numbers:
                try:
                    loop.remove_signal_handler(number)
                except NotImplementedError:
                    pass
                signal.signal(number, before[number])
            os.write(writer, b"e")
            woken.join()
            os.close(reader)
            os.close(writer)
