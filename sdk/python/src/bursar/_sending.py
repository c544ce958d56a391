"""Sends calls: attempts until the server answers, a retry is not safe, or the timeout is over.

`Sending` has all the rules and no I/O. `SyncSender` and `AsyncSender` only move bytes and wait.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast
from urllib.parse import urlsplit

import httpx

from bursar._call import Call
from bursar.errors import (
    BursarError,
    InvalidOption,
    OutcomeUnknown,
    ProblemError,
    UnknownOutcomeProblem,
    Unreachable,
    Unreadable,
    error_of_answer,
)

T = TypeVar("T")

ANSWER_BYTES_MAX = 64 << 20
ATTEMPT_TIMEOUT = 15.0
"""The timeout of one attempt, in seconds; the time that the server may wait for jobs is added."""
CONNECT_TIMEOUT = 5.0
STALLED_TIMEOUT = 60.0
"""How long an upload or a download may stand still, in seconds."""
BACKOFF_MIN = 0.05
BACKOFF_MAX = 5.0

# The server keeps idle connections longer, so that it does not close one while a request is sent.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=20.0)


@dataclass(frozen=True)
class Options:
    """The options of calls."""

    base: str
    token: str | None = None
    tenant: str | None = None
    key: str | None = None
    if_match: str | None = None
    timeout: float = 30.0
    attempts_max: int = 20
    signer: httpx.Auth | None = None
    """Signs every attempt."""

    def headers(self, accept: str) -> dict[str, str]:
        headers = {"accept": accept}
        if self.token is not None:
            headers["authorization"] = f"Bearer {self.token}"
        if self.tenant is not None:
            headers["bursar-tenant"] = self.tenant
        return headers

    def check(self) -> Options:
        parts = urlsplit(self.base)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise InvalidOption(f"url {self.base!r}: must be http://HOST[:PORT] or https://HOST[:PORT]")
        for name, text in (("token", self.token), ("tenant", self.tenant), ("key", self.key)):
            if text is not None and not (text.isascii() and text.isprintable()):
                raise InvalidOption(f"{name}: has characters that are not allowed in an HTTP header")
        if self.timeout <= 0 or self.attempts_max < 1:
            raise InvalidOption("timeout and attempts_max must be positive")
        return replace(self, base=self.base.rstrip("/"))


class Answer(dict[str, Any]):
    """The JSON object of an answer, with what its headers say."""

    etag: str | None = None
    replayed: bool = False


def etag_of(answer: Mapping[str, Any]) -> str | None:
    """Returns the ETag of an answer, for `client.with_options(if_match=…)`."""
    return answer.etag if isinstance(answer, Answer) else None


def was_replayed(answer: Mapping[str, Any]) -> bool:
    """Returns whether this is the stored answer of an earlier request with the same idempotency key."""
    return isinstance(answer, Answer) and answer.replayed


def backoff(attempts: int) -> float:
    """Returns how long to wait after failed attempts, in seconds. Half of the delay is random, so that clients that
    failed together do not retry together."""
    most = min(BACKOFF_MIN * 2.0 ** min(attempts, 10), BACKOFF_MAX)
    return most * (0.5 + random.random() / 2)


@dataclass(frozen=True)
class Upload:
    """A body that is streamed instead of JSON."""

    open: Callable[[], Iterator[bytes]]
    """Begins to read the body."""
    headers: Mapping[str, str]
    repeatable: bool
    """The body can be read again from its beginning."""


class Sending(Generic[T]):
    """The attempts of one call."""

    def __init__(self, options: Options, call: Call[T], upload: Upload | None = None) -> None:
        self._call = call
        self._upload = upload
        self._options = options
        self.key = self._choose_key()
        self._deadline = time.monotonic() + options.timeout + call.waits
        self._attempts = 0
        self.content = _json(call.body)

    def _choose_key(self) -> str | None:
        if not self._call.needs_key:
            return None
        if self._options.key is not None:
            return self._options.key
        return f"client-{uuid.uuid4().hex}" if self._options.attempts_max > 1 else None

    @property
    def method(self) -> str:
        return self._call.method

    @property
    def url(self) -> str:
        return self._options.base + self._call.target

    def headers(self) -> dict[str, str]:
        headers = self._options.headers("application/json")
        if self.key is not None:
            headers["idempotency-key"] = self.key
        if self._options.if_match is not None and self._call.method != "GET":
            headers["if-match"] = self._options.if_match
        if self._upload is not None:
            headers.update(self._upload.headers)
        elif self.content is not None:
            headers["content-type"] = "application/json"
        return headers

    def begin(self) -> AttemptBody:
        """Begins an attempt."""
        if self._upload is not None:
            # An upload takes as long as it makes progress.
            return AttemptBody(math.inf)
        until = min(self._deadline, time.monotonic() + ATTEMPT_TIMEOUT + self._call.waits)
        return AttemptBody(until)

    def received(self, response: httpx.Response, body: bytes) -> T:
        """Returns the answer, or raises its error."""
        if not response.is_success:
            error = error_of_answer(response.status_code, body)
            raise error or self._unreadable(response.status_code, "the answer is not a problem document")
        if response.status_code == 204 or not body:
            return cast("T", None)
        try:
            parsed: Any = json.loads(body)
        except ValueError as error:
            raise self._unreadable(response.status_code, str(error)) from error
        if isinstance(parsed, dict):
            answer = Answer(parsed)  # pyright: ignore[reportUnknownArgumentType]
            answer.etag = response.headers.get("etag")
            answer.replayed = "idempotent-replayed" in response.headers
            return cast("T", answer)
        return cast("T", parsed)

    def failed(self, error: Exception, response: httpx.Response | None) -> float:
        """Returns how long to wait before the next attempt, or raises the error if a retry is useless or not safe."""
        self._attempts += 1
        delay = self._retry_delay(error, response)
        if delay is None or self._attempts >= self._options.attempts_max or time.monotonic() + delay >= self._deadline:
            raise self._final(error) from error
        return delay

    def _retry_delay(self, error: Exception, response: httpx.Response | None) -> float | None:
        repeatable = self.key is not None or not self._call.needs_key
        if self._upload is not None and not self._upload.repeatable:
            return None
        if isinstance(error, ProblemError):
            if not error.transient or not (repeatable or not isinstance(error, UnknownOutcomeProblem)):
                return None
            return max(retry_after(response), backoff(self._attempts))
        if isinstance(error, BursarError):
            return None
        return backoff(self._attempts) if repeatable or not was_sent(error) else None

    def _final(self, error: Exception) -> BursarError:
        if isinstance(error, UnknownOutcomeProblem):
            error.key = self.key
        if isinstance(error, BursarError):
            return error
        if was_sent(error) and self._call.method != "GET":
            text = f"unknown outcome: the request may have been executed, but no answer arrived: {reason_of(error)}"
            return OutcomeUnknown(text, self.key)
        return unreachable(self._options.base, error)

    def _unreadable(self, status: int, detail: str) -> Unreadable:
        text = f"{self._options.base} does not answer like a Bursar server (status {status}: {detail}); check the URL"
        return Unreadable(text, status)


class AttemptBody:
    """Collects the body of an answer, within the time of the attempt and the maximum size."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def timeout(self) -> httpx.Timeout:
        left = STALLED_TIMEOUT if self._until == math.inf else max(self._until - time.monotonic(), 0.001)
        return httpx.Timeout(left, connect=min(left, CONNECT_TIMEOUT))

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > ANSWER_BYTES_MAX:
            raise Unreadable(f"the answer has more than {ANSWER_BYTES_MAX} bytes", 200)
        if time.monotonic() > self._until:
            raise httpx.ReadTimeout("no complete answer arrived within the timeout")

    def whole(self) -> bytes:
        return b"".join(self._parts)


class SyncSender:
    """Sends calls and blocks until they are answered."""

    def __init__(self, http: httpx.Client, options: Options) -> None:
        self.http = http
        self.options = options

    def send(self, call: Call[T], upload: Upload | None = None) -> T:
        sending = Sending(self.options, call, upload)
        while True:
            response: httpx.Response | None = None
            try:
                body = sending.begin()
                with self.http.stream(
                    sending.method,
                    sending.url,
                    content=sending.content if upload is None else upload.open(),
                    headers=sending.headers(),
                    timeout=body.timeout,
                    auth=auth_of(self.options),
                ) as response:
                    for part in response.iter_bytes():
                        body.add(part)
                return sending.received(response, body.whole())
            except (httpx.HTTPError, BursarError) as error:
                delay = sending.failed(error, response)
            time.sleep(delay)

    def pages(self, call: Call[Any]) -> Iterator[Any]:
        next_call: Call[Any] | None = call
        while next_call is not None:
            page = self.send(next_call)
            yield from page["items"]
            next_call = after(call, page)


class AsyncSender:
    """Sends calls in an asyncio event loop."""

    def __init__(self, http: httpx.AsyncClient, options: Options) -> None:
        self.http = http
        self.options = options

    async def send(self, call: Call[T], upload: Upload | None = None) -> T:
        sending = Sending(self.options, call, upload)
        while True:
            response: httpx.Response | None = None
            try:
                body = sending.begin()
                async with self.http.stream(
                    sending.method,
                    sending.url,
                    content=sending.content if upload is None else read_in_threads(upload.open()),
                    headers=sending.headers(),
                    timeout=body.timeout,
                    auth=auth_of(self.options),
                ) as response:
                    async for part in response.aiter_bytes():
                        body.add(part)
                return sending.received(response, body.whole())
            except (httpx.HTTPError, BursarError) as error:
                delay = sending.failed(error, response)
            await asyncio.sleep(delay)

    async def pages(self, call: Call[Any]) -> AsyncIterator[Any]:
        next_call: Call[Any] | None = call
        while next_call is not None:
            page = await self.send(next_call)
            for item in page["items"]:
                yield item
            next_call = after(call, page)


def auth_of(options: Options) -> Any:
    """Returns what signs a request; without a signer, what the HTTP client has."""
    return httpx.USE_CLIENT_DEFAULT if options.signer is None else options.signer


async def read_in_threads(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Reads a body without blocking the event loop."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part


def after(call: Call[Any], page: Mapping[str, Any]) -> Call[Any] | None:
    """Returns the call for the page after `page`."""
    cursor = page.get("next")
    if cursor is None:
        return None
    # The journal takes `cursor` only without `after`.
    kept = {name: value for name, value in call.query.items() if name != "after"}
    return replace(call, query={**kept, "cursor": str(cursor)})


def retry_after(response: httpx.Response | None) -> float:
    """Parses `Retry-After` in seconds. A date is ignored, because the clocks of client and server may differ."""
    text = response.headers.get("retry-after", "") if response is not None else ""
    return float(text) if text.isdigit() else 0.0


def was_sent(error: Exception) -> bool:
    """Returns whether the request may have reached the server."""
    return not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))


def reason_of(error: Exception) -> str:
    """Returns why a request got no answer; some errors of the HTTP library have no text."""
    return str(error) or type(error).__name__


def unreachable(base: str, error: Exception) -> Unreachable:
    return Unreachable(
        f"the server at {base} cannot be reached: {reason_of(error)}; "
        "nothing was changed; check the URL, and that the server is running"
    )


def _json(body: Mapping[str, object] | None) -> bytes | None:
    if body is None:
        return None
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"body: cannot be written as JSON: {error}") from error
