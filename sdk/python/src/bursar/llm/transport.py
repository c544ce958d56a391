"""HTTP transports that hold the bound of each model call before they send it, and settle it after its answer.

Every attempt of the provider's client is one call of the transport, so that its retries are held too. The transports
work with `httpx` and with `httpx2`, whichever the provider's client uses.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

from bursar.client import AsyncClient, Client
from bursar.errors import BursarError, InvalidOption
from bursar.llm.batch_transport import AsyncBatchAccount, AsyncBatchTransport, BatchAccount, BatchTransport
from bursar.llm.batches import Batches, Holds
from bursar.llm.bounds import Bounds, Unmetered
from bursar.llm.calls import Dialect, Plan, Settlement
from bursar.llm.http import (
    Refusal,
    async_stream_class,
    http_module,
    request_with,
    stream_class,
    uncancelled,
    was_sent,
)
from bursar.llm.metering import (
    AsyncJobMeter,
    AsyncMeter,
    AsyncScopeMeter,
    JobMeter,
    Meter,
    ScopeMeter,
)
from bursar.llm.prices import Price, PriceList, Prices
from bursar.worker.context import AsyncJobContext, BaseContext, JobContext

C = TypeVar("C")


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
            response = self._inner.handle_request(request_with(self._planner.module, request, plan.body))
        except BaseException as error:
            if was_sent(self._planner.module, error):
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
        response.stream = stream_class(self._planner.module)(
            response.stream, settlement, lambda: reservation.commit(settlement.amount)
        )
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
            response = await self._inner.handle_async_request(request_with(self._planner.module, request, plan.body))
        except BaseException as error:
            if was_sent(self._planner.module, error):
                await uncancelled(reservation.commit(settlement.amount))
            else:
                await uncancelled(reservation.release())
            raise
        if response.status_code >= 300:
            await uncancelled(reservation.release())
            return response
        settlement.begin(response.headers)
        response.headers.pop("content-length", None)
        response.stream = async_stream_class(self._planner.module)(
            response.stream, settlement, lambda: reservation.commit(settlement.amount)
        )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> AsyncMeteredTransport:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


def wrap(
    client: C,
    dialect: Dialect,
    batches_of: type[Batches],
    *,
    bursar: Client | AsyncClient | None,
    scope: str | None,
    ctx: BaseContext | None,
    cap: int | None,
    prices: Prices,
    fallback_price: Price | None,
    bounds: Bounds | None,
    batch_holds: Holds | None,
    batch_ttl: float,
) -> C:
    """Returns a copy of a provider's client whose calls are metered."""
    original = untyped(client)
    http = original._client
    module = http_module(http)
    is_async = isinstance(http, module.AsyncClient)
    price_list, limits = PriceList(prices, fallback_price), bounds or Bounds()
    planner = Planner(module, dialect, price_list, limits)
    batches = batches_of(dialect, price_list, limits, batch_holds)
    if is_async:
        waiting = async_meter(bursar, scope, ctx, cap)
        pending = AsyncBatchAccount.of(waiting, batch_ttl, batches)

        def make(inner: Any) -> Any:
            calls = AsyncMeteredTransport(inner, planner, waiting, http)
            return AsyncBatchTransport(calls, inner, module, batches, pending)
    else:
        blocking = blocking_meter(bursar, scope, ctx, cap)
        account = BatchAccount.of(blocking, batch_ttl, batches)

        def make(inner: Any) -> Any:
            calls = MeteredTransport(inner, planner, blocking, http)
            return BatchTransport(calls, inner, module, batches, account)

    metered = copy.copy(http)
    metered._transport = make(http._transport)
    metered._mounts = {pattern: inner and make(inner) for pattern, inner in http._mounts.items()}
    wrapped = original.copy(http_client=metered)
    wrapped.__class__ = metered_class(original.__class__, is_async)
    return cast("C", wrapped)


def untyped(value: object) -> Any:
    return value


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
