"""What the transports share: requests, streams and errors of the provider's HTTP library, which is `httpx` or
`httpx2`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Protocol

from bursar.errors import BursarError, InvalidOption


class Refusal(BaseException):
    """Carries an error through the provider's client, which retries and hides every `Exception`."""

    def __init__(self, error: BursarError) -> None:
        super().__init__(str(error))
        self.error = error


def http_module(http: Any) -> Any:
    """Returns the module of an HTTP client: `httpx` or `httpx2`."""
    for base in type(http).__mro__:
        name = base.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    raise InvalidOption("the HTTP client of the provider's client is neither of httpx nor of httpx2")


def request_with(module: Any, request: Any, body: dict[str, Any]) -> Any:
    """Returns the request with another body. Its answer must not be compressed, because it is read."""
    headers = [(name, value) for name, value in request.headers.raw if name.lower() not in SET_HEADERS]
    content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return module.Request(
        request.method,
        request.url,
        headers=[*headers, (b"accept-encoding", b"identity")],
        content=content,
        extensions=request.extensions,
    )


SET_HEADERS = {b"content-length", b"accept-encoding", b"transfer-encoding"}


def was_sent(module: Any, error: BaseException) -> bool:
    """Returns whether the provider may have executed the request."""
    return not isinstance(error, (module.ConnectError, module.ConnectTimeout, module.PoolTimeout))


async def uncancelled(settling: Any) -> None:
    """Settles even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(settling)
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    await asyncio.shield(task)


TASKS: set[asyncio.Future[Any]] = set()
"""Settlements in flight; the event loop itself keeps only weak references."""


class Tap(Protocol):
    """Reads an answer while it passes to the caller."""

    def feed(self, data: bytes) -> bytes:
        """Reads a part of the answer; returns what is passed on."""
        ...

    def end(self) -> bytes:
        """Reads the end of a complete answer; returns what is left to pass on."""
        ...


def stream_class(module: Any) -> Any:
    """Returns the stream that calls `ended` once: when its answer ends, breaks, or is closed before its end."""

    class TappedStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, tap: Tap, ended: Callable[[], None]) -> None:
            self._inner = inner
            self._tap = tap
            self._ended: Callable[[], None] | None = ended

        def __iter__(self) -> Iterator[bytes]:
            try:
                for part in self._inner:
                    if passed := self._tap.feed(part):
                        yield passed
                if rest := self._tap.end():
                    yield rest
            finally:
                self._end()

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._end()

        def _end(self) -> None:
            ended, self._ended = self._ended, None
            if ended is not None:
                ended()

    return TappedStream


def async_stream_class(module: Any) -> Any:
    """The same as `stream_class`, for asyncio."""

    class AsyncTappedStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, tap: Tap, ended: Callable[[], Awaitable[None]]) -> None:
            self._inner = inner
            self._tap = tap
            self._ended: Callable[[], Awaitable[None]] | None = ended

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for part in self._inner:
                    if passed := self._tap.feed(part):
                        yield passed
                if rest := self._tap.end():
                    yield rest
            finally:
                await self._end()

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                await self._end()

        async def _end(self) -> None:
            ended, self._ended = self._ended, None
            if ended is not None:
                await uncancelled(ended())

    return AsyncTappedStream
