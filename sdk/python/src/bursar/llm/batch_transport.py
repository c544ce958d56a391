"""HTTP transports that hold the bound of a batch before they create it, and settle it when an answer tells its end.
They pass every other request on to the transport for single calls."""

from __future__ import annotations

import re
from typing import Any, TypeVar
from urllib.parse import quote

from bursar.errors import BursarError
from bursar.llm.batches import Batches, Draft, Ended, Progress, Watch, body_of, is_refused, verdict
from bursar.llm.bounds import Unmetered
from bursar.llm.http import Refusal, async_stream_class, request_with, stream_class, uncancelled, was_sent
from bursar.llm.metering import (
    AsyncMeter,
    AsyncScopeMeter,
    AsyncScopeReservation,
    Meter,
    ScopeMeter,
    ScopeReservation,
    log,
)


class BatchAccount:
    """Pays for the batches of a blocking client."""

    def __init__(self, meter: ScopeMeter, ttl: float, batches: Batches) -> None:
        self._client = meter.client
        self._meter = ScopeMeter(meter.client, meter.scope, round(ttl * 1000))
        self._progress = Progress(batches.holds)

    @classmethod
    def of(cls, meter: Meter, ttl: float, batches: Batches) -> BatchAccount | None:
        """Returns the account of a client whose calls `meter` pays for; `None` if a job pays."""
        return cls(meter, ttl, batches) if isinstance(meter, ScopeMeter) else None

    def reserve(self, amount: int) -> ScopeReservation:
        return self._meter.reserve(amount)

    def settle(self, watch: Watch) -> None:
        """Settles the batches that have ended. A failure is not raised, because the answer is there."""
        for ended in watch.ended():
            hold = self._progress.due(ended)
            if hold is not None:
                self._settle(ended, hold)

    def _settle(self, ended: Ended, hold: str) -> None:
        try:
            decided = verdict(ended, self._client.holds.get(hold))
            if decided is not None:
                keyed = self._client.with_options(key=decided.key).holds
                if decided.actuals is None:
                    keyed.release(hold)
                else:
                    keyed.commit(hold, actuals=decided.actuals)
        except Exception as error:
            self._progress.failed(ended, error)
        else:
            self._progress.settled(ended)


class BatchTransport:
    """Sends requests of a blocking client. `calls` sends what is no batch."""

    def __init__(self, calls: Any, inner: Any, module: Any, batches: Batches, account: BatchAccount | None) -> None:
        self._calls = calls
        self._inner = inner
        self._module = module
        self._batches = batches
        self._account = account

    def handle_request(self, request: Any) -> Any:
        method, path = request.method, request.url.path
        if self._batches.creates(method, path):
            return self._create(request)
        watch = self._batches.watch(method, path)
        if watch is None or self._account is None:
            return self._calls.handle_request(request)
        request.headers["accept-encoding"] = "identity"
        return self._watched(self._inner.handle_request(request), watch, self._account)

    def _create(self, request: Any) -> Any:
        try:
            account = paying(self._account)
            draft = self._batches.draft(body_of(request.read()))
            if draft.input_file is not None:
                self._read(file_request(self._module, request, draft.input_file), draft)
            reservation = account.reserve(draft.amount)
        except BursarError as error:
            raise Refusal(error) from error
        try:
            response = self._inner.handle_request(request_with(self._module, request, draft.body(reservation.hold)))
        except BaseException as error:
            # If the batch may exist, its hold stays: it is settled by the end of the batch, or expires with its charge.
            if not was_sent(self._module, error):
                reservation.release()
            raise
        if is_refused(response.status_code):
            reservation.release()
        return self._watched(response, self._batches.created(reservation.hold), account)

    def _read(self, request: Any, draft: Draft) -> None:
        """Reads the input file of a batch."""
        try:
            response = self._inner.handle_request(request)
            try:
                check_file(response, draft)
                for part in response.iter_bytes():
                    draft.feed(part)
            finally:
                response.close()
        except self._module.HTTPError as error:
            raise unreadable(draft, repr(error)) from error
        draft.end()

    def _watched(self, response: Any, watch: Watch, account: BatchAccount) -> Any:
        if is_read(response):
            response.stream = stream_class(self._module)(response.stream, watch, lambda: account.settle(watch))
        return response

    def close(self) -> None:
        self._calls.close()

    def __enter__(self) -> BatchTransport:
        self._calls.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._calls.__exit__(*error)


class AsyncBatchAccount:
    """The same as `BatchAccount`, for asyncio."""

    def __init__(self, meter: AsyncScopeMeter, ttl: float, batches: Batches) -> None:
        self._client = meter.client
        self._meter = AsyncScopeMeter(meter.client, meter.scope, round(ttl * 1000))
        self._progress = Progress(batches.holds)

    @classmethod
    def of(cls, meter: AsyncMeter, ttl: float, batches: Batches) -> AsyncBatchAccount | None:
        return cls(meter, ttl, batches) if isinstance(meter, AsyncScopeMeter) else None

    async def reserve(self, amount: int) -> AsyncScopeReservation:
        return await self._meter.reserve(amount)

    async def settle(self, watch: Watch) -> None:
        for ended in watch.ended():
            hold = self._progress.due(ended)
            if hold is not None:
                await self._settle(ended, hold)

    async def _settle(self, ended: Ended, hold: str) -> None:
        try:
            decided = verdict(ended, await self._client.holds.get(hold))
            if decided is not None:
                keyed = self._client.with_options(key=decided.key).holds
                if decided.actuals is None:
                    await keyed.release(hold)
                else:
                    await keyed.commit(hold, actuals=decided.actuals)
        except Exception as error:
            self._progress.failed(ended, error)
        else:
            self._progress.settled(ended)


class AsyncBatchTransport:
    """The same as `BatchTransport`, for asyncio."""

    def __init__(
        self, calls: Any, inner: Any, module: Any, batches: Batches, account: AsyncBatchAccount | None
    ) -> None:
        self._calls = calls
        self._inner = inner
        self._module = module
        self._batches = batches
        self._account = account

    async def handle_async_request(self, request: Any) -> Any:
        method, path = request.method, request.url.path
        if self._batches.creates(method, path):
            return await self._create(request)
        watch = self._batches.watch(method, path)
        if watch is None or self._account is None:
            return await self._calls.handle_async_request(request)
        request.headers["accept-encoding"] = "identity"
        return self._watched(await self._inner.handle_async_request(request), watch, self._account)

    async def _create(self, request: Any) -> Any:
        try:
            account = paying(self._account)
            draft = self._batches.draft(body_of(await request.aread()))
            if draft.input_file is not None:
                await self._read(file_request(self._module, request, draft.input_file), draft)
            reservation = await account.reserve(draft.amount)
        except BursarError as error:
            raise Refusal(error) from error
        try:
            created = request_with(self._module, request, draft.body(reservation.hold))
            response = await self._inner.handle_async_request(created)
        except BaseException as error:
            if not was_sent(self._module, error):
                await uncancelled(reservation.release())
            raise
        if is_refused(response.status_code):
            await uncancelled(reservation.release())
        return self._watched(response, self._batches.created(reservation.hold), account)

    async def _read(self, request: Any, draft: Draft) -> None:
        try:
            response = await self._inner.handle_async_request(request)
            try:
                check_file(response, draft)
                async for part in response.aiter_bytes():
                    draft.feed(part)
            finally:
                await response.aclose()
        except self._module.HTTPError as error:
            raise unreadable(draft, repr(error)) from error
        draft.end()

    def _watched(self, response: Any, watch: Watch, account: AsyncBatchAccount) -> Any:
        if is_read(response):
            response.stream = async_stream_class(self._module)(response.stream, watch, lambda: account.settle(watch))
        return response

    async def aclose(self) -> None:
        await self._calls.aclose()

    async def __aenter__(self) -> AsyncBatchTransport:
        await self._calls.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._calls.__aexit__(*error)


A = TypeVar("A")


def paying(account: A | None) -> A:
    """Returns the account that pays for a batch. The hold of a job cannot."""
    if account is None:
        raise Unmetered(
            "a batch outlives the attempt of its job; nothing was sent; create it with a client that is wrapped with "
            "`bursar` and `scope`"
        )
    return account


def file_request(module: Any, request: Any, file: str) -> Any:
    """Returns the request for the input file of the batch that `request` creates."""
    path, _, query = request.url.raw_path.partition(b"?")
    # Azure may send a batch to a deployment. Files belong to none.
    folder = re.sub(rb"(/deployments/[^/]+)?/batches$", b"", path)
    target = b"%s/files/%s/content" % (folder, quote(file, safe="").encode())
    return module.Request(
        "GET",
        request.url.copy_with(raw_path=target + (b"?" + query if query else b"")),
        headers=[(name, value) for name, value in request.headers.raw if name.lower() not in OWN_HEADERS],
        extensions=request.extensions,
    )


OWN_HEADERS = {b"accept", b"content-length", b"content-type", b"idempotency-key", b"transfer-encoding"}
"""Headers of a request that do not apply to another one."""


def check_file(response: Any, draft: Draft) -> None:
    if response.status_code != 200:
        raise unreadable(draft, f"the provider answered with status {response.status_code}")


def unreadable(draft: Draft, why: str) -> Unmetered:
    return Unmetered(
        f"the input file {draft.input_file} cannot be read, so that the batch has no bound: {why}; nothing was sent"
    )


def is_read(response: Any) -> bool:
    """Returns whether an answer may tell the end of a batch, and can be read while it passes."""
    if response.status_code >= 300:
        return False
    if response.headers.get("content-encoding", "identity") == "identity":
        return True
    log.error("an answer about a batch is compressed, although it must not be: it settles nothing")
    return False
