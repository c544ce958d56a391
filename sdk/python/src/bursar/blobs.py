"""Blobs: files that are stored by the server and moved as streams."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, TypeAlias, Union

import httpx
from typing_extensions import TypedDict, Unpack

from bursar import _resources
from bursar._call import Call, path, query
from bursar._sending import CONNECT_TIMEOUT, STALLED_TIMEOUT, AsyncSender, Options, SyncSender, Upload, auth_of
from bursar._stream import Reconnecting
from bursar.errors import BursarError, Unreadable
from bursar.models import BlobAnswer

PART_BYTES = 1 << 18


class PutOptions(TypedDict, total=False):
    """Options of a blob."""

    namespace: str
    """Default: `default`."""
    filename: str | None
    content_type: str
    """Default: `application/octet-stream`."""
    metadata: Any


Source: TypeAlias = Union[bytes, Path, "IO[bytes]", Iterable[bytes]]
"""The bytes of a blob: in memory, a file by its path, an open file, or parts. Parts can be read once, so that an upload
of them is not retried."""


def put_call(options: PutOptions) -> Call[BlobAnswer]:
    """Builds the call of an upload. Its repetition has no further effect: equal bytes are one blob."""
    fields: dict[str, Any] = {name: options.get(name) for name in ("namespace", "filename")}
    if options.get("metadata") is not None:
        fields["metadata"] = json.dumps(options.get("metadata"), separators=(",", ":"))
    return Call("POST", path("v1", "blobs"), query=query(fields), idempotent=True)


def upload_of(source: Source, options: PutOptions) -> Upload:
    """Returns how a source is sent. The server checks the digest of a source that can be read twice."""
    headers = {"content-type": options.get("content_type", "application/octet-stream")}
    if isinstance(source, bytes):
        data = source
        return digested(lambda: file_parts(io.BytesIO(data)), headers)
    if isinstance(source, Path):
        place = source
        return digested(lambda: path_parts(place), headers)
    if not hasattr(source, "read"):
        parts = iter(source)
        return Upload(lambda: parts, headers, repeatable=False)
    file: Any = source
    if not file.seekable():
        return Upload(lambda: file_parts(file), headers, repeatable=False)
    start: int = file.tell()

    def again() -> Iterator[bytes]:
        file.seek(start)
        return file_parts(file)

    return digested(again, headers)


def digested(begin: Callable[[], Iterator[bytes]], headers: dict[str, str]) -> Upload:
    digest, size = hashlib.sha256(), 0
    for part in begin():
        digest.update(part)
        size += len(part)
    value = base64.b64encode(digest.digest()).decode()
    headers = {**headers, "content-length": str(size), "repr-digest": f"sha-256=:{value}:"}
    return Upload(begin, headers, repeatable=True)


def file_parts(file: Any) -> Iterator[bytes]:
    while part := file.read(PART_BYTES):
        yield part


def path_parts(place: Path) -> Iterator[bytes]:
    with place.open("rb") as file:
        yield from file_parts(file)


class Download(Reconnecting):
    """The state of a download, without I/O. A broken connection is reopened after the last byte."""

    def __init__(self, options: Options, id: str) -> None:
        super().__init__(options)
        self._url = options.base + path("v1", "blobs", id)
        self._etag: str | None = None
        self.position = 0
        self.size: int | None = None
        """The size of the blob in bytes, once it is known."""
        self.content_type = "application/octet-stream"

    def request(self) -> dict[str, Any]:
        headers = self._options.headers("*/*")
        # The bytes are counted and verified as they are stored.
        headers["accept-encoding"] = "identity"
        if self.position:
            headers["range"] = f"bytes={self.position}-"
            if self._etag is not None:
                headers["if-range"] = self._etag
        timeout = httpx.Timeout(STALLED_TIMEOUT, connect=CONNECT_TIMEOUT)
        return {"url": self._url, "headers": headers, "timeout": timeout, "auth": auth_of(self._options)}

    def opened(self, response: httpx.Response) -> None:
        """Reads the head of a successful answer."""
        if self.position and response.status_code != 206:
            raise Unreadable("the blob has changed during the download", response.status_code)
        self._etag = response.headers.get("etag")
        self.content_type = response.headers.get("content-type", self.content_type)
        length: str = response.headers.get("content-length", "")
        if length.isdigit():
            self.size = self.position + int(length)

    def received(self, part: bytes) -> bytes:
        self.position += len(part)
        self.working()
        return part

    def ended(self) -> None:
        """Raises if the connection was lost before the last byte."""
        if self.size is not None and self.position < self.size:
            raise httpx.ReadError("the connection was closed")


class BlobReader(Download):
    """The bytes of a blob, as an iterator of parts."""

    def __init__(self, sender: SyncSender, id: str) -> None:
        super().__init__(sender.options, id)
        self._http = sender.http

    def __iter__(self) -> Iterator[bytes]:
        while True:
            response: httpx.Response | None = None
            try:
                with self._http.stream("GET", **self.request()) as response:
                    if not response.is_success:
                        raise self.refusal(response, response.read())
                    self.opened(response)
                    for part in response.iter_bytes():
                        yield self.received(part)
                self.ended()
                return
            except (httpx.HTTPError, BursarError) as error:
                delay = self.failed(error, response)
            time.sleep(delay)

    def read(self) -> bytes:
        """Returns all bytes."""
        return b"".join(self)

    def save(self, to: Path) -> int:
        """Writes the blob to a file; returns its size."""
        with to.open("wb") as file:
            for part in self:
                file.write(part)
        return self.position


class AsyncBlobReader(Download):
    """The bytes of a blob, as an asynchronous iterator of parts."""

    def __init__(self, sender: AsyncSender, id: str) -> None:
        super().__init__(sender.options, id)
        self._http = sender.http

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            response: httpx.Response | None = None
            try:
                async with self._http.stream("GET", **self.request()) as response:
                    if not response.is_success:
                        raise self.refusal(response, await response.aread())
                    self.opened(response)
                    async for part in response.aiter_bytes():
                        yield self.received(part)
                self.ended()
                return
            except (httpx.HTTPError, BursarError) as error:
                delay = self.failed(error, response)
            await asyncio.sleep(delay)

    async def read(self) -> bytes:
        """Returns all bytes."""
        return b"".join([part async for part in self])

    async def save(self, to: Path) -> int:
        """Writes the blob to a file; returns its size."""
        file = await asyncio.to_thread(to.open, "wb")
        try:
            async for part in self:
                await asyncio.to_thread(file.write, part)
        finally:
            await asyncio.to_thread(file.close)
        return self.position


def ignore(_blob: str) -> None:
    """Records nothing: the blob belongs to no job."""


class Blobs(_resources.Blobs):
    """The calls of blobs."""

    def __init__(self, sender: SyncSender, made: Callable[[str], None] = ignore) -> None:
        super().__init__(sender)
        self._made = made

    def recorded_by(self, made: Callable[[str], None]) -> Blobs:
        """Returns the same calls, which record the blobs that they put."""
        return Blobs(self._sender, made)

    def put(self, source: Source, **options: Unpack[PutOptions]) -> BlobAnswer:
        """Stores bytes. If the namespace has the same bytes already, returns that blob."""
        blob = self._sender.send(put_call(options), upload_of(source, options))
        self._made(blob["id"])
        return blob

    def get(self, id: str, /) -> BlobReader:
        """Returns the bytes of a blob: iterate over it, or use `read` or `save`."""
        return BlobReader(self._sender, id)


class AsyncBlobs(_resources.AsyncBlobs):
    """The calls of blobs, for asyncio."""

    def __init__(self, sender: AsyncSender, made: Callable[[str], None] = ignore) -> None:
        super().__init__(sender)
        self._made = made

    def recorded_by(self, made: Callable[[str], None]) -> AsyncBlobs:
        """Returns the same calls, which record the blobs that they put."""
        return AsyncBlobs(self._sender, made)

    async def put(self, source: Source, **options: Unpack[PutOptions]) -> BlobAnswer:
        """Stores bytes. If the namespace has the same bytes already, returns that blob."""
        upload = await asyncio.to_thread(upload_of, source, options)
        blob = await self._sender.send(put_call(options), upload)
        self._made(blob["id"])
        return blob

    def get(self, id: str, /) -> AsyncBlobReader:
        """Returns the bytes of a blob: iterate over it, or use `read` or `save`."""
        return AsyncBlobReader(self._sender, id)
