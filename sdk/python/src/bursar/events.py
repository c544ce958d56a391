"""The event stream, which reconnects and continues after the last event."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias, Union
from urllib.parse import quote

import httpx

from bursar._sending import CONNECT_TIMEOUT, AsyncSender, Options, SyncSender, auth_of
from bursar._stream import Reconnecting
from bursar.errors import BursarError, Unreadable
from bursar.models import EventAnswer

SILENCE_MAX = 45.0
"""The connection is considered lost after this time without data. The server sends a comment every 15 seconds."""
EVENT_BYTES_MAX = 16 << 20


@dataclass(frozen=True)
class Ready:
    """The subscription is active: all events after this position will follow."""

    position: int


@dataclass(frozen=True)
class Resync:
    """Events were lost. Read the current state again."""


@dataclass(frozen=True)
class Happened:
    """An event of the journal."""

    event: EventAnswer

    @property
    def kind(self) -> str:
        return self.event["kind"]


@dataclass(frozen=True)
class Progressed:
    """The progress of a job: first its last report, then each further one. It has no position in the journal."""

    job: str
    fence: int
    percent: float | None = None
    message: str | None = None
    data: Any = None


Message: TypeAlias = Union[Ready, Resync, Happened, Progressed]


@dataclass
class Frame:
    """One event of the stream, before it is parsed."""

    id: str | None = None
    kind: str = ""
    data: str = ""


class Parser:
    """Splits a stream of bytes into events (server-sent events)."""

    def __init__(self) -> None:
        self._rest = b""
        self._frame = Frame()
        self._size = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Adds bytes and returns the events that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n") if b"\n" in data else (self._rest + data,)
        frames: list[Frame] = []
        for line in lines:
            self._size += len(line) + 1
            frame = self._end_line(line.decode("utf-8", "replace").rstrip("\r"))
            if frame is not None:
                frames.append(frame)
        if self._size + len(self._rest) > EVENT_BYTES_MAX:
            raise Unreadable(f"an event has more than {EVENT_BYTES_MAX} bytes", 200)
        return frames

    def _end_line(self, line: str) -> Frame | None:
        if not line:
            frame, self._frame, self._size = self._frame, Frame(), 0
            return frame if frame.data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            self._frame.id = value
        elif name == "event":
            self._frame.kind = value
        elif name == "data":
            self._frame.data = f"{self._frame.data}\n{value}" if self._frame.data else value
        return None


def parse_message(frame: Frame) -> Message | None:
    """Parses a message; returns `None` for a type that this version does not know."""
    if frame.kind == "resync":
        return Resync()
    data: Any = json.loads(frame.data)
    if frame.kind == "ready":
        return Ready(int(data["position"]))
    if frame.kind == "progress":
        return Progressed(data["job"], data["fence"], data.get("percent"), data.get("message"), data.get("data"))
    # Events of the journal have a position; anything else comes from a newer server.
    return Happened(data) if frame.id is not None else None


class EventsRules(Reconnecting):
    """The state of a stream, without I/O."""

    def __init__(self, options: Options, channels: Iterable[str], after: int | None) -> None:
        super().__init__(options)
        # Commas separate channels, so each channel is escaped on its own.
        self._channels = ",".join(channel.replace("%", "%25").replace(",", "%2C") for channel in channels)
        self._parser = Parser()
        self._ready: deque[Message] = deque()
        self.position = after
        """The position of the last event; pass it as `after` to continue later."""

    def request(self) -> dict[str, Any]:
        self._parser = Parser()
        headers = self._options.headers("text/event-stream")
        if self.position is not None:
            headers["last-event-id"] = str(self.position)
        url = f"{self._options.base}/v1/events"
        if self._channels:
            url += f"?channels={quote(self._channels, safe='')}"
        return {
            "url": url,
            "headers": headers,
            "timeout": httpx.Timeout(SILENCE_MAX, connect=CONNECT_TIMEOUT),
            "auth": auth_of(self._options),
        }

    def fed(self, data: bytes) -> None:
        for frame in self._parser.feed(data):
            # The position advances after parsing, so that an event that cannot be parsed is not skipped silently.
            try:
                message = parse_message(frame)
            except (ValueError, KeyError, TypeError) as error:
                raise Unreadable(f"the server sent an event that cannot be read: {frame.kind}: {error}", 200) from error
            if frame.id is not None and frame.id.isdigit():
                self.position = int(frame.id)
            if message is not None:
                self._ready.append(message)
        self.working()


class Events(EventsRules):
    """An endless iterator of messages. It reconnects when the connection is lost, and continues after the last event.
    After an exception, the next step reconnects and misses no event."""

    def __init__(self, sender: SyncSender, channels: Iterable[str], after: int | None) -> None:
        super().__init__(sender.options, channels, after)
        self._http = sender.http
        self._stream: AbstractContextManager[httpx.Response] | None = None
        self._bytes: Iterator[bytes] | None = None

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Message:
        while not self._ready:
            response: httpx.Response | None = None
            try:
                if self._bytes is None:
                    self._stream = self._http.stream("GET", **self.request())
                    response = self._stream.__enter__()
                    if not response.is_success:
                        raise self.refusal(response, response.read())
                    self._bytes = response.iter_bytes()
                self.fed(next(self._bytes))
            except (httpx.HTTPError, BursarError, StopIteration) as error:
                self.close()
                lost = httpx.ReadError("the connection was closed") if isinstance(error, StopIteration) else error
                time.sleep(self.failed(lost, response))
        return self._ready.popleft()

    def close(self) -> None:
        """Closes the connection."""
        stream, self._stream, self._bytes = self._stream, None, None
        if stream is not None:
            stream.__exit__(None, None, None)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEvents(EventsRules):
    """An endless asynchronous iterator of messages. It reconnects when the connection is lost, and continues after the
    last event. After an exception, the next step reconnects and misses no event."""

    def __init__(self, sender: AsyncSender, channels: Iterable[str], after: int | None) -> None:
        super().__init__(sender.options, channels, after)
        self._http = sender.http
        self._stream: AbstractAsyncContextManager[httpx.Response] | None = None
        self._bytes: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> AsyncEvents:
        return self

    async def __anext__(self) -> Message:
        while not self._ready:
            response: httpx.Response | None = None
            try:
                if self._bytes is None:
                    self._stream = self._http.stream("GET", **self.request())
                    response = await self._stream.__aenter__()
                    if not response.is_success:
                        raise self.refusal(response, await response.aread())
                    self._bytes = response.aiter_bytes()
                self.fed(await self._bytes.__anext__())
            except (httpx.HTTPError, BursarError, StopAsyncIteration) as error:
                await self.close()
                lost = httpx.ReadError("the connection was closed") if isinstance(error, StopAsyncIteration) else error
                await asyncio.sleep(self.failed(lost, response))
            except BaseException:
                # A cancelled read leaves the connection in an unknown state.
                await self.close()
                raise
        return self._ready.popleft()

    async def close(self) -> None:
        """Closes the connection."""
        stream, self._stream, self._bytes = self._stream, None, None
        if stream is not None:
            await stream.__aexit__(None, None, None)

    async def __aenter__(self) -> AsyncEvents:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
