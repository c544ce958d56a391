"""HTTP transports that hold the bound of each model call before they send it, and settle it after its answer.

Every attempt of the provider's client is one call of the transport, so that its retries are held too. The transports
work with `httpx` and with `httpx2`, whichever the provider's client uses.
"""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cached_property
from typing import Any, TypeVar, cast

from bursar.client import AsyncClient, Client
from bursar.errors import BursarError, InvalidOption
from bursar.llm.bounds import Bounds, Unmetered
from bursar.llm.calls import Dialect, Plan, Settlement
from bursar.llm.metering import (
    AsyncJobMeter,
    AsyncMeter,
    AsyncReservation,
    AsyncScopeMeter,
    JobMeter,
    Meter,
    Reservation,
    ScopeMeter,
)
from bursar.llm.prices import Price, PriceList, Prices
from bursar.worker.context import AsyncJobContext, BaseContext, JobContext

C = TypeVar("C")


class Refusal(BaseException):
    """Carries an error through the provider's client, which retries and hides every `Exception`."""

    def __init__(self, error: BursarError) -> None:
        super().__init__(str(error))
        self.error = error


class Planner:
    """Plans the requests of one wrapped client."""

    def __init__(self, module: Any, dialect: Dialect, prices: PriceList, bounds: Bounds) -> None:
        self.module = module
        self._dialect = dialect
        self._prices = prices
        self._bounds = bounds

    def plan(self, method: str, path: str, content: bytes) -> Plan | None:
        if method in ("GET", "HEAD", "DELETE", "OPTIONS"):
            return None
        try:
            body: Any = json.loads(content) if content else {}
        except ValueError:
            # Uploads are no JSON; `plan` knows by their path whether they cost anything.
            body = {}
        return self._dialect.plan(path, body, self._prices, self._bounds)

    def request(self, request: Any, plan: Plan) -> Any:
        """Returns the request to send. The answer must not be compressed, because its usage is read."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in SET_HEADERS]
        content = json.dumps(plan.body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
        return self.module.Request(
            request.method,
            request.url,
            headers=[*headers, (b"accept-encoding", b"identity")],
            content=content,
            extensions=request.extensions,
        )

    def was_sent(self, error: BaseException) -> bool:
        """Returns whether the provider may have executed the request."""
        unsent = (self.module.ConnectError, self.module.ConnectTimeout, self.module.PoolTimeout)
        return not isinstance(error, unsent)


SET_HEADERS = {b"content-length", b"accept-encoding", b"transfer-encoding"}


class MeteredTransport:
    """Sends requests of a blocking client."""

    def __init__(self, inner: Any, planner: Planner, meter: Meter, keep: Any) -> None:
        self._inner = inner
        self._planner = planner
        self._meter = meter
        # The original HTTP client closes its transport when it is collected.
        self._keep = keep

    def handle_request(self, request: Any) -> Any:
        try:
            plan = self._planner.plan(request.method, request.url.path, request.read())
            if plan is None:
                return self._inner.handle_request(request)
            reservation = self._meter.reserve(plan.estimate.amount)
        except BursarError as error:
            raise Refusal(error) from error
        settlement = Settlement(plan)
        try:
            response = self._inner.handle_request(self._planner.request(request, plan))
        except BaseException as error:
            if self._planner.was_sent(error):
                reservation.commit(settlement.amount)
            else:
                reservation.release()
            raise
        if response.status_code >= 300:
            # A provider does not charge for an error.
            reservation.release()
            return response
        settlement.begin(response.headers)
        response.headers.pop("content-length", None)
        response.stream = stream_class(self._planner.module)(response.stream, settlement, reservation)
        return response

    def close(self) -> None:
        self._inner.close()

    def __enter__(self) -> MeteredTransport:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)


class AsyncMeteredTransport:
    """Sends requests of an asyncio client."""

    def __init__(self, inner: Any, planner: Planner, meter: AsyncMeter, keep: Any) -> None:
        self._inner = inner
        self._planner = planner
        self._meter = meter
        self._keep = keep

    async def handle_async_request(self, request: Any) -> Any:
        try:
            plan = self._planner.plan(request.method, request.url.path, await request.aread())
            if plan is None:
                return await self._inner.handle_async_request(request)
            reservation = await self._meter.reserve(plan.estimate.amount)
        except BursarError as error:
            raise Refusal(error) from error
        settlement = Settlement(plan)
        try:
            response = await self._inner.handle_async_request(self._planner.request(request, plan))
        except BaseException as error:
            if self._planner.was_sent(error):
                await uncancelled(reservation.commit(settlement.amount))
            else:
                await uncancelled(reservation.release())
            raise
        if response.status_code >= 300:
            await uncancelled(reservation.release())
            return response
        settlement.begin(response.headers)
        response.headers.pop("content-length", None)
        response.stream = async_stream_class(self._planner.module)(response.stream, settlement, reservation)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> AsyncMeteredTransport:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


async def uncancelled(settling: Any) -> None:
    """Settles even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(settling)
    TASKS.add(task)
    task.add_done_callback(TASKS.discard)
    await asyncio.shield(task)


TASKS: set[asyncio.Future[Any]] = set()
"""Settlements in flight; the event loop itself keeps only weak references."""


def stream_class(module: Any) -> Any:
    """Returns the stream that settles a call when its answer ends, breaks, or is closed before its end."""

    class MeteredStream(module.SyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, settlement: Settlement, reservation: Reservation) -> None:
            self._inner = inner
            self._settlement = settlement
            self._reservation: Reservation | None = reservation

        def __iter__(self) -> Iterator[bytes]:
            try:
                for part in self._inner:
                    if passed := self._settlement.feed(part):
                        yield passed
                if rest := self._settlement.end():
                    yield rest
            finally:
                self._settle()

        def close(self) -> None:
            try:
                self._inner.close()
            finally:
                self._settle()

        def _settle(self) -> None:
            reservation, self._reservation = self._reservation, None
            if reservation is not None:
                reservation.commit(self._settlement.amount)

    return MeteredStream


def async_stream_class(module: Any) -> Any:
    """The same as `stream_class`, for asyncio."""

    class AsyncMeteredStream(module.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, inner: Any, settlement: Settlement, reservation: AsyncReservation) -> None:
            self._inner = inner
            self._settlement = settlement
            self._reservation: AsyncReservation | None = reservation

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for part in self._inner:
                    if passed := self._settlement.feed(part):
                        yield passed
                if rest := self._settlement.end():
                    yield rest
            finally:
                await self._settle()

        async def aclose(self) -> None:
            try:
                await self._inner.aclose()
            finally:
                await self._settle()

        async def _settle(self) -> None:
            reservation, self._reservation = self._reservation, None
            if reservation is not None:
                await uncancelled(reservation.commit(self._settlement.amount))

    return AsyncMeteredStream


def wrap(
    client: C,
    dialect: Dialect,
    *,
    bursar: Client | AsyncClient | None,
    scope: str | None,
    ctx: BaseContext | None,
    cap: int | None,
    prices: Prices,
    fallback_price: Price | None,
    bounds: Bounds | None,
) -> C:
    """Returns a copy of a provider's client whose calls are metered."""
    original = untyped(client)
    http = original._client
    module = http_module(http)
    is_async = isinstance(http, module.AsyncClient)
    planner = Planner(module, dialect, PriceList(prices, fallback_price), bounds or Bounds())
    if is_async:
        waiting = async_meter(bursar, scope, ctx, cap)
        make: Callable[[Any], Any] = lambda inner: AsyncMeteredTransport(inner, planner, waiting, http)  # noqa: E731
    else:
        blocking = blocking_meter(bursar, scope, ctx, cap)
        make = lambda inner: MeteredTransport(inner, planner, blocking, http)  # noqa: E731
    metered = copy.copy(http)
    metered._transport = make(http._transport)
    metered._mounts = {pattern: inner and make(inner) for pattern, inner in http._mounts.items()}
    wrapped = original.copy(http_client=metered)
    wrapped.__class__ = metered_class(original.__class__, is_async)
    return cast("C", wrapped)


def untyped(value: object) -> Any:
    return value


def http_module(http: Any) -> Any:
    """Returns the module of an HTTP client: `httpx` or `httpx2`."""
    for base in type(http).__mro__:
        name = base.__module__.partition(".")[0]
        if name in ("httpx", "httpx2"):
            return sys.modules[name]
    raise InvalidOption("the HTTP client of the provider's client is neither of httpx nor of httpx2")


def blocking_meter(bursar: object, scope: str | None, ctx: BaseContext | None, cap: int | None) -> Meter:
    if ctx is not None:
        if bursar is not None:
            raise InvalidOption("pass either `bursar` or `ctx`")
        if not isinstance(ctx, JobContext):
            raise InvalidOption("a blocking client needs the JobContext of a blocking handler")
        return JobMeter(ctx, ctx.client, scope, cap)
    if not isinstance(bursar, Client) or scope is None:
        raise InvalidOption("a blocking client needs `bursar`, a Client, and `scope`; or `ctx`")
    return ScopeMeter(bursar, scope)


def async_meter(bursar: object, scope: str | None, ctx: BaseContext | None, cap: int | None) -> AsyncMeter:
    if ctx is not None:
        if bursar is not None:
            raise InvalidOption("pass either `bursar` or `ctx`")
        if not isinstance(ctx, AsyncJobContext):
            raise InvalidOption("an asyncio client needs the AsyncJobContext of an async handler")
        return AsyncJobMeter(ctx, ctx.client, scope, cap)
    if not isinstance(bursar, AsyncClient) or scope is None:
        raise InvalidOption("an asyncio client needs `bursar`, an AsyncClient, and `scope`; or `ctx`")
    return AsyncScopeMeter(bursar, scope)


def metered_class(base: type[Any], is_async: bool) -> type[Any]:
    """Returns a subclass of a provider's client that raises the errors of Bursar as they are. Copies of the client keep
    the class, and with it the transport."""

    if is_async:

        async def request_async(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return await base.request(self, *args, **kwargs)
            except Refusal as refusal:
                raise refusal.error from None

        request: Any = request_async
    else:

        def request_blocking(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return base.request(self, *args, **kwargs)
            except Refusal as refusal:
                raise refusal.error from None

        request = request_blocking
    fields: dict[str, Any] = {"request": request, "__module__": base.__module__}
    for name in ("realtime", "live"):
        if hasattr(base, name):
            fields[name] = property(refuse_socket)
    for name in ("responses", "beta"):
        if isinstance(resource := base.__dict__.get(name), cached_property):
            fields[name] = guarded(resource.func)
    return type(base.__name__, (base,), fields)


def guarded(make: Callable[[Any], Any]) -> property:
    """Returns the property of a resource without websockets."""

    def get(self: Any) -> Any:
        return without_sockets(make(self))

    return property(get)


def refuse_socket(*_args: Any, **_kwargs: Any) -> Any:
    raise Unmetered("a websocket has no upper bound of its cost; use a client without Bursar for it")


def without_sockets(resource: Any) -> Any:
    """Returns a resource of a provider's client that opens no websockets, which would bypass the transport."""
    if hasattr(resource, "connect"):
        resource.connect = refuse_socket
    for name in ("realtime", "responses"):
        if hasattr(resource.__class__, name):
            without_sockets(getattr(resource, name))
    return resource
