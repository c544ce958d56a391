"""Clients of a Bursar server: `Client` blocks, `AsyncClient` is for asyncio. Both have the same calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
from typing_extensions import Self, TypedDict, Unpack

from bursar._hold import AsyncHold, Hold, hold_body
from bursar._jobs import AsyncJobs, Jobs
from bursar._resources import AsyncResources, Resources
from bursar._sending import LIMITS, AsyncSender, Options, SyncSender
from bursar.blobs import AsyncBlobs, Blobs
from bursar.events import AsyncEvents, Events
from bursar.models import LimitBody
from bursar.signing import Signer


class CallOptions(TypedDict, total=False):
    """Options for the calls of a client; see `Client.with_options`."""

    token: str | None
    tenant: str | None
    key: str | None
    if_match: str | None
    timeout: float
    attempts_max: int
    signer: Signer | None


class HoldOptions(TypedDict, total=False):
    """Options of a hold."""

    limits: Sequence[LimitBody]
    """Limits that the hold must fit, in addition to those of the budget."""
    ttl_ms: int | None
    """The time to live; default: the budget's setting."""
    on_expiry_charge: int | None
    """The units to charge if the hold expires; default: none, the hold is released."""
    reason: str | None
    """Why the hold is placed; recorded in the journal."""


class Client(Resources):
    """A client that blocks until a call is answered. It is safe to share between threads."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        http: httpx.Client | None = None,
        signer: Signer | None = None,
    ) -> None:
        """`url` is that of the server, such as `http://127.0.0.1:7440`. Calls, with all attempts, take at most
        `timeout` seconds. `http` replaces the HTTP client, for example to set proxies or certificates. `signer` signs
        every request, for a server whose meter requires signatures; an upload is read into memory to be signed."""
        options = Options(url, token, tenant, timeout=timeout, signer=signer).check()
        self._owns_http = http is None
        self._use(http or httpx.Client(limits=LIMITS, trust_env=False), options)

    def _use(self, http: httpx.Client, options: Options) -> None:
        self._sender = SyncSender(http, options)
        super().__init__(self._sender)
        self.blobs = Blobs(self._sender)
        self.jobs = Jobs(self._sender)

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Returns a client with other options, which shares the connections.

        `key` is the idempotency key of the next write, instead of a generated one: store it to repeat the write after
        a restart. `if_match` changes a definition only if it still has this ETag (`etag_of`). `attempts_max=1` makes
        one attempt and generates no keys."""
        client = self.__class__.__new__(self.__class__)
        client._owns_http = False
        client._use(self._sender.http, replace(self._sender.options, **options).check())
        return client

    def hold(self, scope: str | Mapping[str, int], estimate: int | None = None, **options: Unpack[HoldOptions]) -> Hold:
        """A hold for a `with` block: of `estimate` units on a scope, or of units by scope."""
        return Hold(self._sender, hold_body(scope, estimate, **options))

    def events(self, channels: Iterable[str] = (), *, after: int | None = None) -> Events:
        """Subscribes to channels: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. The first step connects.
        `after` continues after a position."""
        return Events(self._sender, channels, after)

    def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            self._sender.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return describe(self, self._sender.options)


class AsyncClient(AsyncResources):
    """A client for asyncio. A cancelled call may have been executed, unless it is a read."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        http: httpx.AsyncClient | None = None,
        signer: Signer | None = None,
    ) -> None:
        """`url` is that of the server, such as `http://127.0.0.1:7440`. Calls, with all attempts, take at most
        `timeout` seconds. `http` replaces the HTTP client, for example to set proxies or certificates. `signer` signs
        every request, for a server whose meter requires signatures; an upload is read into memory to be signed."""
        options = Options(url, token, tenant, timeout=timeout, signer=signer).check()
        self._owns_http = http is None
        self._use(http or httpx.AsyncClient(limits=LIMITS, trust_env=False), options)

    def _use(self, http: httpx.AsyncClient, options: Options) -> None:
        self._sender = AsyncSender(http, options)
        super().__init__(self._sender)
        self.blobs = AsyncBlobs(self._sender)
        self.jobs = AsyncJobs(self._sender)

    def with_options(self, **options: Unpack[CallOptions]) -> Self:
        """Returns a client with other options, which shares the connections; see `Client.with_options`."""
        client = self.__class__.__new__(self.__class__)
        client._owns_http = False
        client._use(self._sender.http, replace(self._sender.options, **options).check())
        return client

    def hold(
        self, scope: str | Mapping[str, int], estimate: int | None = None, **options: Unpack[HoldOptions]
    ) -> AsyncHold:
        """A hold for an `async with` block: of `estimate` units on a scope, or of units by scope."""
        return AsyncHold(self._sender, hold_body(scope, estimate, **options))

    def events(self, channels: Iterable[str] = (), *, after: int | None = None) -> AsyncEvents:
        """Subscribes to channels: `job:{id}`, `queue:{name}`, `budget:{scope}`, `journal`. The first step connects.
        `after` continues after a position."""
        return AsyncEvents(self._sender, channels, after)

    async def close(self) -> None:
        """Closes the connections."""
        if self._owns_http:
            await self._sender.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return describe(self, self._sender.options)


def describe(client: Any, options: Options) -> str:
    """Leaves out the token."""
    return f"{type(client).__name__}({options.base!r}, tenant={options.tenant!r})"
