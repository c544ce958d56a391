"""A hold as a resource: placed when its block begins, released when the block ends without a commit."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from bursar._call import Call
from bursar._resources import HoldsCalls
from bursar._sending import AsyncSender, Options, SyncSender
from bursar.errors import BursarError
from bursar.models import ChargeBody, CommandAnswer, ExtendedAnswer, HoldBody, LimitBody, SettledAnswer

log = logging.getLogger("bursar")


def hold_body(
    scope: str | Mapping[str, int],
    estimate: int | None,
    *,
    limits: Sequence[LimitBody] = (),
    ttl_ms: int | None = None,
    on_expiry_charge: int | None = None,
    reason: str | None = None,
) -> dict[str, Any]:
    """Returns the body of a hold."""
    if isinstance(scope, str):
        if estimate is None:
            raise TypeError("a hold on one scope needs an estimate")
        amounts: Mapping[str, int] = {scope: estimate}
    else:
        if estimate is not None:
            raise TypeError("a hold on several scopes has its amounts in the mapping")
        amounts = scope
    charges = [ChargeBody(scope=name, amount=amount) for name, amount in amounts.items()]
    if limits:
        for charge in charges:
            charge["limits"] = list(limits)
    body: dict[str, Any] = dict(HoldBody(charges=charges))
    if ttl_ms is not None:
        body["ttl_ms"] = ttl_ms
    if reason is not None:
        body["context"] = {"reason": reason}
    return with_expiry_charge(body, on_expiry_charge)


def with_expiry_charge(body: dict[str, Any], amount: int | None) -> dict[str, Any]:
    """Makes the hold charge `amount` when it expires, instead of releasing its units: real spend must not vanish
    with the process that made it."""
    return body if amount is None else {**body, "on_expiry": {"charge": amount}}


class HoldRules:
    """The state of a hold, without I/O. It is settled at most once."""

    def __init__(self, body: dict[str, Any]) -> None:
        self._body = body
        self._id: str | None = None
        self._settling: str | None = None
        self._key = f"hold-{uuid.uuid4().hex}"
        self.placed: CommandAnswer | None = None
        """The answer to placing the hold."""
        self.settled: SettledAnswer | None = None
        """The answer to the commit or the release."""

    @property
    def id(self) -> str:
        """The id of the hold."""
        if self._id is None:
            raise RuntimeError("the hold is not placed yet; use it in a `with` block")
        return self._id

    def place_call(self) -> Call[CommandAnswer]:
        if self.placed is not None:
            raise RuntimeError("the hold is already placed")
        return Call("POST", "/v1/holds", body=self._body)

    def was_placed(self, answer: CommandAnswer) -> None:
        self.placed = answer
        hold = answer.get("hold")
        self._id = hold.get("id") if hold else None

    def commit_call(self, actual: int | Mapping[str, int] | None) -> Call[SettledAnswer]:
        self._begin("commit")
        if actual is None:
            return HoldsCalls.commit(self.id)
        if isinstance(actual, Mapping):
            actuals = [{"scope": scope, "amount": amount} for scope, amount in actual.items()]
            return replace(HoldsCalls.commit(self.id), body={"actuals": actuals})
        return HoldsCalls.commit(self.id, actual=actual)

    def release_call(self, reason: str | None) -> Call[SettledAnswer]:
        self._begin("release")
        return HoldsCalls.release(self.id, reason=reason)

    def was_settled(self, answer: SettledAnswer) -> SettledAnswer:
        self.settled = answer
        return answer

    def _begin(self, how: str) -> None:
        if self.settled is not None:
            raise RuntimeError(f"the hold is already {self.settled['state']}")
        if self._settling not in (None, how):
            # The first call may have been executed although it failed.
            raise RuntimeError(f"a {self._settling} of the hold has begun; repeat it instead")
        self._settling = how

    def abandoned(self) -> bool:
        """Returns whether the end of the block must release the hold."""
        return self._id is not None and self._settling is None

    def options(self, options: Options) -> Options:
        """Every repetition of a settlement has the same key, so that it has one effect."""
        return replace(options, key=f"{self._key}-{self._settling or 'place'}")


class Hold(HoldRules):
    """A hold for a `with` block. Commit what was really spent inside of it; a block that fails, or that ends without a
    commit, releases the hold."""

    def __init__(self, sender: SyncSender, body: dict[str, Any]) -> None:
        super().__init__(body)
        self._sender = sender

    def _send(self, call: Call[Any]) -> Any:
        return SyncSender(self._sender.http, self.options(self._sender.options)).send(call)

    def place(self) -> Hold:
        """Places the hold; a `with` block does this."""
        self.was_placed(self._send(self.place_call()))
        return self

    def commit(self, actual: int | Mapping[str, int] | None = None) -> SettledAnswer:
        """Commits the units that were spent; default: the held units."""
        return self.was_settled(self._send(self.commit_call(actual)))

    def release(self, reason: str | None = None) -> SettledAnswer:
        """Releases the held units."""
        return self.was_settled(self._send(self.release_call(reason)))

    def extend(self, by_ms: int) -> ExtendedAnswer:
        """Extends the expiry."""
        return self._sender.send(HoldsCalls.extend(self.id, by_ms=by_ms))

    def __enter__(self) -> Hold:
        return self.place()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.abandoned():
            try:
                self.release()
            except BursarError as failure:
                log.warning("releasing hold %s failed; it expires by itself: %s", self.id, failure)


class AsyncHold(HoldRules):
    """A hold for an `async with` block. Commit what was really spent inside of it; a block that fails, or that ends
    without a commit, releases the hold."""

    def __init__(self, sender: AsyncSender, body: dict[str, Any]) -> None:
        super().__init__(body)
        self._sender = sender

    async def _send(self, call: Call[Any]) -> Any:
        return await AsyncSender(self._sender.http, self.options(self._sender.options)).send(call)

    async def place(self) -> AsyncHold:
        """Places the hold; an `async with` block does this."""
        self.was_placed(await self._send(self.place_call()))
        return self

    async def commit(self, actual: int | Mapping[str, int] | None = None) -> SettledAnswer:
        """Commits the units that were spent; default: the held units."""
        return self.was_settled(await self._send(self.commit_call(actual)))

    async def release(self, reason: str | None = None) -> SettledAnswer:
        """Releases the held units."""
        return self.was_settled(await self._send(self.release_call(reason)))

    async def extend(self, by_ms: int) -> ExtendedAnswer:
        """Extends the expiry."""
        return await self._sender.send(HoldsCalls.extend(self.id, by_ms=by_ms))

    async def __aenter__(self) -> AsyncHold:
        return await self.place()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.abandoned():
            try:
                await self.release()
            except BursarError as failure:
                log.warning("releasing hold %s failed; it expires by itself: %s", self.id, failure)
