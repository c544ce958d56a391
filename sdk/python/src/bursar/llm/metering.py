"""Where the cost of model calls is held and charged: on a scope, or within the hold of a job."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from bursar._hold import AsyncHold, Hold
from bursar.client import AsyncClient, Client
from bursar.errors import BursarError, Forbidden
from bursar.models import HeldChargeAnswer
from bursar.worker.context import BaseContext

log = logging.getLogger("bursar.llm")

HOLD_TTL_MS = 900_000


class JobCapReached(BursarError):
    """The call may cost more than the job's hold has left, so that it was not made. It names what is left."""

    def __init__(self, job: str, requested: int, available: int, cap: int) -> None:
        super().__init__(
            f"the hold of {job} has {available} left of {cap}, {requested} requested; nothing was spent; "
            "it comes back when calls in flight cost less than their bounds, or with a larger hold"
        )
        self.requested = requested
        self.available = available
        self.cap = cap


class Reservation(Protocol):
    """Units set aside for one call."""

    def commit(self, actual: int) -> None: ...
    def release(self) -> None: ...


class AsyncReservation(Protocol):
    """Units set aside for one call."""

    async def commit(self, actual: int) -> None: ...
    async def release(self) -> None: ...


class Meter(Protocol):
    """Sets units aside before a call."""

    def reserve(self, amount: int) -> Reservation: ...


class AsyncMeter(Protocol):
    """Sets units aside before a call."""

    async def reserve(self, amount: int) -> AsyncReservation: ...


class ScopeMeter:
    """Holds the cost of each call on a scope. If the process dies, the hold charges the estimate when it expires; a
    later commit corrects it."""

    def __init__(self, client: Client, scope: str, ttl_ms: int = HOLD_TTL_MS) -> None:
        self._client = client
        self._scope = scope
        self._ttl_ms = ttl_ms

    def reserve(self, amount: int) -> Reservation:
        hold = self._client.hold(self._scope, amount, ttl_ms=self._ttl_ms, on_expiry_charge=amount)
        return ScopeReservation(hold.place())


class ScopeReservation:
    """A hold of one call. A failed settlement does not fail the call, because its answer is there: the hold charges the
    estimate when it expires."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def commit(self, actual: int) -> None:
        try:
            self._hold.commit(actual)
        except BursarError as error:
            unsettled(self._hold.id, error)

    def release(self) -> None:
        try:
            self._hold.release()
        except BursarError as error:
            unsettled(self._hold.id, error)


class AsyncScopeMeter:
    """The same as `ScopeMeter`, for asyncio."""

    def __init__(self, client: AsyncClient, scope: str, ttl_ms: int = HOLD_TTL_MS) -> None:
        self._client = client
        self._scope = scope
        self._ttl_ms = ttl_ms

    async def reserve(self, amount: int) -> AsyncReservation:
        hold = self._client.hold(self._scope, amount, ttl_ms=self._ttl_ms, on_expiry_charge=amount)
        return AsyncScopeReservation(await hold.place())


class AsyncScopeReservation:
    """The same as `ScopeReservation`, for asyncio."""

    def __init__(self, hold: AsyncHold) -> None:
        self._hold = hold

    async def commit(self, actual: int) -> None:
        try:
            await self._hold.commit(actual)
        except BursarError as error:
            unsettled(self._hold.id, error)

    async def release(self) -> None:
        try:
            await self._hold.release()
        except BursarError as error:
            unsettled(self._hold.id, error)


def unsettled(hold: str, error: BursarError) -> None:
    log.error("settling hold %s failed; it charges its estimate when it expires: %s", hold, error)


class JobAccount:
    """What the model calls of one attempt may spend: the hold of its job. All wrapped clients of a context share it."""

    def __init__(self, context: BaseContext, cap: int) -> None:
        self._context = context
        self._cap = cap
        self._lock = threading.Lock()
        self._reserved = 0

    def reserve(self, amount: int) -> None:
        with self._lock:
            spent = sum(usage["amount"] for usage in self._context.reported() or [])
            available = self._cap - spent - self._reserved
            if amount > available:
                raise JobCapReached(self._context.id, amount, max(available, 0), self._cap)
            # The attempt has usage from now on: a job whose calls were all free must not be charged its whole hold.
            self._context.usage(0)
            self._reserved += amount

    def settle(self, amount: int, actual: int) -> None:
        with self._lock:
            self._reserved -= amount
            self._context.usage(actual)


_ACCOUNTS_LOCK = threading.Lock()


def account_of(context: BaseContext, cap: int) -> JobAccount:
    """Returns the account of a context, which is created by the first caller."""
    with _ACCOUNTS_LOCK:
        account = getattr(context, "_account", None)
        if not isinstance(account, JobAccount):
            account = JobAccount(context, cap)
            context._account = account  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return account


class JobReservation:
    """A part of a job's hold."""

    def __init__(self, account: JobAccount, amount: int) -> None:
        self._account = account
        self._amount = amount

    def commit(self, actual: int) -> None:
        self._account.settle(self._amount, actual)

    def release(self) -> None:
        self._account.settle(self._amount, 0)


class JobMeter:
    """Pays for calls from the hold of a job: a call that may cost more than the hold has left is refused."""

    def __init__(self, context: BaseContext, client: Client, cap: int | None) -> None:
        self._context = context
        self._client = client
        self._cap = cap

    def reserve(self, amount: int) -> Reservation:
        if self._cap is None:
            hold = job_hold(self._context)
            try:
                self._cap = held(self._client.holds.get(hold)["charges"])
            except Forbidden as error:
                raise cap_unknown(hold) from error
        account = account_of(self._context, self._cap)
        account.reserve(amount)
        return JobReservation(account, amount)


class AsyncJobReservation:
    """The same as `JobReservation`, for asyncio."""

    def __init__(self, account: JobAccount, amount: int) -> None:
        self._account = account
        self._amount = amount

    async def commit(self, actual: int) -> None:
        self._account.settle(self._amount, actual)

    async def release(self) -> None:
        self._account.settle(self._amount, 0)


class AsyncJobMeter:
    """The same as `JobMeter`, for asyncio."""

    def __init__(self, context: BaseContext, client: AsyncClient, cap: int | None) -> None:
        self._context = context
        self._client = client
        self._cap = cap

    async def reserve(self, amount: int) -> AsyncReservation:
        if self._cap is None:
            hold = job_hold(self._context)
            try:
                self._cap = held((await self._client.holds.get(hold))["charges"])
            except Forbidden as error:
                raise cap_unknown(hold) from error
        account = account_of(self._context, self._cap)
        account.reserve(amount)
        return AsyncJobReservation(account, amount)


def job_hold(context: BaseContext) -> str:
    hold = context.job.get("hold")
    if hold is None:
        raise BursarError(f"{context.id} has no hold that could pay for model calls; submit it with `settle: job`")
    return hold


def held(charges: list[HeldChargeAnswer]) -> int:
    if len(charges) != 1:
        raise BursarError("the job's hold has several scopes: pass `scope` instead of `ctx`")
    return charges[0]["amount"]


def cap_unknown(hold: str) -> BursarError:
    return BursarError(f"the token of the worker may not read {hold}: pass `cap`, the amount that the job holds")
