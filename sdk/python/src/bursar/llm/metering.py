"""Where the cost of model calls is held and charged: on a scope, or within the hold of a job."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Protocol

from bursar._hold import AsyncHold, Hold
from bursar.client import AsyncClient, Client
from bursar.errors import BursarError
from bursar.models import HeldChargeAnswer, HeldUnitsAnswer
from bursar.worker.context import BaseContext

log = logging.getLogger("bursar.llm")

HOLD_TTL_MS = 900_000


class JobCapReached(BursarError):
    """The call may cost more than the job's hold has left, so that it was not made. It names what is left."""

    def __init__(self, job: str, scope: str, requested: int, available: int, cap: int) -> None:
        super().__init__(
            f"the hold of {job} on {scope} has {available} left of {cap}, {requested} requested; nothing was spent; "
            "it comes back when calls in flight cost less than their bounds, or with a larger hold"
        )
        self.scope = scope
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
        self.client = client
        self.scope = scope
        self._ttl_ms = ttl_ms

    def reserve(self, amount: int) -> ScopeReservation:
        hold = self.client.hold(self.scope, amount, ttl_ms=self._ttl_ms, on_expiry_charge=amount)
        return ScopeReservation(hold.place())


class ScopeReservation:
    """A hold of one call. A failed settlement does not fail the call, because its answer is there: the hold charges the
    estimate when it expires."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    @property
    def hold(self) -> str:
        """The id of the hold."""
        return self._hold.id

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
        self.client = client
        self.scope = scope
        self._ttl_ms = ttl_ms

    async def reserve(self, amount: int) -> AsyncScopeReservation:
        hold = self.client.hold(self.scope, amount, ttl_ms=self._ttl_ms, on_expiry_charge=amount)
        return AsyncScopeReservation(await hold.place())


class AsyncScopeReservation:
    """The same as `ScopeReservation`, for asyncio."""

    def __init__(self, hold: AsyncHold) -> None:
        self._hold = hold

    @property
    def hold(self) -> str:
        """The id of the hold."""
        return self._hold.id

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
    """What the model calls of one attempt have set aside of the hold of its job, by scope. All wrapped clients of a
    context share it."""

    def __init__(self, context: BaseContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._reserved: dict[str, int] = {}

    def reserve(self, charges: list[PayingCharge], cap: int | None, amount: int) -> None:
        with self._lock:
            for charge in charges:
                limit = charge.amount if cap is None else min(cap, charge.amount)
                available = limit - charge.spent(self._context) - self._reserved.get(charge.scope, 0)
                if amount > available:
                    raise JobCapReached(self._context.id, charge.scope, amount, max(available, 0), limit)
            for charge in charges:
                # The attempt has usage from now on: a job whose calls were all free must not be charged its whole hold.
                self._context.usage(0, charge.usage_scope)
                self._reserved[charge.scope] = self._reserved.get(charge.scope, 0) + amount

    def settle(self, charges: list[PayingCharge], amount: int, actual: int) -> None:
        with self._lock:
            for charge in charges:
                self._reserved[charge.scope] -= amount
                self._context.usage(actual, charge.usage_scope)


@dataclass(frozen=True)
class PayingCharge:
    """A charge of the job's hold that pays for calls."""

    scope: str
    amount: int
    usage_scope: str | None
    """The scope to report usage on; `None`: the only one of the hold."""

    def spent(self, context: BaseContext) -> int:
        scopes = (self.usage_scope,) if self.usage_scope is not None else (None, self.scope)
        return sum(context.spent(scope) for scope in scopes)


_ACCOUNTS_LOCK = threading.Lock()


def account_of(context: BaseContext) -> JobAccount:
    """Returns the account of a context, which is created by the first caller."""
    with _ACCOUNTS_LOCK:
        account = getattr(context, "_account", None)
        if not isinstance(account, JobAccount):
            account = JobAccount(context)
            context._account = account  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return account


class JobReservation:
    """A part of a job's hold."""

    def __init__(self, context: BaseContext, charges: list[PayingCharge], cap: int | None, amount: int) -> None:
        self._account = account_of(context)
        self._charges = charges
        self._amount = amount
        self._account.reserve(charges, cap, amount)

    def commit(self, actual: int) -> None:
        self._account.settle(self._charges, self._amount, actual)

    def release(self) -> None:
        self.commit(0)


class JobMeter:
    """Pays for calls from the hold of a job: a call that may cost more than the hold has left is refused."""

    def __init__(self, context: BaseContext, client: Client, scope: str | None, cap: int | None) -> None:
        self._context = context
        self._client = client
        self._scope = scope
        self._cap = cap
        self._charges: list[PayingCharge] | None = None

    def reserve(self, amount: int) -> Reservation:
        if self._charges is None:
            held = self._context.held
            if held is None:
                held = [units(charge) for charge in self._client.holds.get(job_hold(self._context))["charges"]]
            self._charges = paying_charges(self._context.id, held, self._scope)
        return JobReservation(self._context, self._charges, self._cap, amount)


class AsyncJobReservation:
    """The same as `JobReservation`, for asyncio."""

    def __init__(self, inner: JobReservation) -> None:
        self._inner = inner

    async def commit(self, actual: int) -> None:
        self._inner.commit(actual)

    async def release(self) -> None:
        self._inner.release()


class AsyncJobMeter:
    """The same as `JobMeter`, for asyncio."""

    def __init__(self, context: BaseContext, client: AsyncClient, scope: str | None, cap: int | None) -> None:
        self._context = context
        self._client = client
        self._scope = scope
        self._cap = cap
        self._charges: list[PayingCharge] | None = None

    async def reserve(self, amount: int) -> AsyncReservation:
        if self._charges is None:
            held = self._context.held
            if held is None:
                held = [units(charge) for charge in (await self._client.holds.get(job_hold(self._context)))["charges"]]
            self._charges = paying_charges(self._context.id, held, self._scope)
        return AsyncJobReservation(JobReservation(self._context, self._charges, self._cap, amount))


def job_hold(context: BaseContext) -> str:
    hold = context.job.get("hold")
    if hold is None:
        raise BursarError(f"{context.id} has no hold")
    return hold


def units(charge: HeldChargeAnswer) -> HeldUnitsAnswer:
    return HeldUnitsAnswer(scope=charge["scope"], amount=charge["amount"])


def paying_charges(job: str, held: list[HeldUnitsAnswer], scope: str | None) -> list[PayingCharge]:
    """Returns the charge of a hold that pays: the one on `scope`, or the only one."""
    if not held:
        raise BursarError(f"{job} has no hold that could pay for model calls; submit it with `settle: job`")
    if scope is None and len(held) > 1:
        raise BursarError(f"the hold of {job} has {len(held)} charges: pass `scope`, the one that pays for model calls")
    paying = [charge for charge in held if scope is None or charge["scope"] == scope]
    if not paying:
        raise BursarError(f"the hold of {job} has no charge on {scope}")
    named = len(held) > 1
    return [PayingCharge(one["scope"], one["amount"], one["scope"] if named else None) for one in paying]
