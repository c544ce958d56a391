"""Runs handlers: asyncio handlers on an event loop, blocking handlers in threads. The control thread starts them and
gets their ends back by mail."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from bursar.models import LeasedAnswer
from bursar.worker.context import BaseContext
from bursar.worker.handlers import Handler
from bursar.worker.outcome import End


@dataclass(eq=False)
class Running:
    """A started job."""

    job: LeasedAnswer
    handler: Handler
    context: BaseContext
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    overdue: asyncio.TimerHandle | None = None
    """The end of the grace period, when the handler must stop."""
    ended: bool = False
    """The end is reported; whatever the handler does from now on is ignored."""


class Mailbox:
    """Calls a function in an event loop for each item that other threads put. Many items wake the loop once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, receive: Callable[[Callable[[], None]], None]) -> None:
        self._loop = loop
        self._receive = receive
        self._items: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._woken = False

    def put(self, item: Callable[[], None]) -> None:
        with self._lock:
            self._items.append(item)
            wake, self._woken = not self._woken, True
        if wake:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                # The loop is closed: the worker has ended without this handler.
                return

    def _drain(self) -> None:
        with self._lock:
            items, self._items = self._items, deque()
            self._woken = False
        for item in items:
            self._receive(item)


class Executor:
    """Runs handlers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ended: Callable[[Running, End], None]) -> None:
        """`loop` runs the asyncio handlers. `ended` is called in any thread."""
        self._ended = ended
        self._mail = Mailbox(loop, lambda start: start())
        self._loop = loop
        self._jobs: queue.SimpleQueue[Running | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._busy = 0

    def start(self, running: Running) -> None:
        """Starts a handler."""
        if running.handler.is_async:
            self._mail.put(lambda: self._start_task(running))
            return
        with self._lock:
            self._busy += 1
            if self._busy > self._threads:
                self._threads += 1
                # A daemon thread does not keep the process alive if its handler ignores the order to stop.
                threading.Thread(target=self._work, name=f"bursar-job-{self._threads}", daemon=True).start()
        self._jobs.put(running)

    def cancel(self, running: Running) -> None:
        """Cancels an asyncio handler. A thread cannot be cancelled; its end is ignored."""
        if running.handler.is_async:
            self._mail.put(lambda: self._cancel_task(running))

    def close(self) -> None:
        """Lets idle threads end."""
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _start_task(self, running: Running) -> None:
        running.task = self._loop.create_task(self._run_task(running))

    def _cancel_task(self, running: Running) -> None:
        if running.task is not None:
            running.task.cancel()

    async def _run_task(self, running: Running) -> None:
        self._ended(running, await running.handler.run_async(running.context))

    def _work(self) -> None:
        while (running := self._jobs.get()) is not None:
            end = running.handler.run(running.context)
            with self._lock:
                self._busy -= 1
            self._ended(running, end)
