"""Batches: what a batch may cost before it is created, and what it cost when it has ended.

A batch outlives the call that creates it. Its hold is settled by the wrapped client that sees its end, which may be in
another process. `openai_batches` and `anthropic_batches` know the requests and answers of the providers. There is no
I/O in these modules.
"""

from __future__ import annotations

import json
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, cast

from bursar.errors import AlreadySettled, Invalid, NotFound
from bursar.llm.bounds import Bounds, Unmetered
from bursar.llm.calls import Dialect, Json
from bursar.llm.metering import log
from bursar.llm.prices import PriceList, UnknownModel
from bursar.models import ActualBody, HoldAnswer

Holds: TypeAlias = MutableMapping[str, str]
"""The hold of each batch, by the batch's id."""

HOLDS: Holds = {}
"""The holds of the batches that this process has created."""
TTL = 26 * 3600.0
"""The time to live of a batch's hold, in seconds. Batches end after 24 hours; the rest is for reading the results."""
ANSWER_BYTES_MAX = 64 << 20


class Batches(ABC):
    """The batches of a provider, for one wrapped client."""

    def __init__(self, dialect: Dialect, prices: PriceList, bounds: Bounds, holds: Holds | None) -> None:
        self._dialect = dialect
        self._prices = prices
        self._bounds = bounds
        self.holds = KnownHolds(HOLDS if holds is None else holds)

    @abstractmethod
    def creates(self, method: str, path: str) -> bool:
        """Returns whether a request creates a batch."""

    @abstractmethod
    def draft(self, body: Json) -> Draft:
        """Returns the batch that a request creates. Refuses a batch without an upper bound."""

    @abstractmethod
    def created(self, hold: str) -> Watch:
        """Returns the reader of the answer to a request that created a batch."""

    @abstractmethod
    def watch(self, method: str, path: str) -> Watch | None:
        """Returns the reader of an answer that may tell the end of a batch; `None` for every other answer."""


class Draft(ABC):
    """A batch that is not created yet, with the sum of the bounds of its requests."""

    input_file: str | None = None
    """The file that has the requests: its bytes go to `feed` and `end` before `amount` is read."""

    def __init__(self, dialect: Dialect, prices: PriceList, bounds: Bounds) -> None:
        self._dialect = dialect
        self._prices = prices
        self._bounds = bounds
        self._total = Fraction(0)
        self._long = False

    @property
    def amount(self) -> int:
        """The bound of the batch, in micro-dollars."""
        return math.ceil(self._total)

    @abstractmethod
    def body(self, hold: str) -> Json:
        """Returns the body that creates the batch."""

    def feed(self, data: bytes) -> None:  # noqa: B027
        """Reads a part of the input file."""

    def end(self) -> None:  # noqa: B027
        """Reads the end of the input file."""

    def _add(self, path: str, body: Any) -> Json:
        """Adds a request; returns its body with an output limit."""
        if not isinstance(body, dict):
            raise Unmetered("it has no body")
        asked = cast("Json", body)
        if asked.get("stream"):
            raise Unmetered("a request in a batch cannot be a stream")
        plan = self._dialect.plan(path, asked, self._prices, self._bounds)
        if plan is None:
            return asked
        estimate = plan.estimate
        if estimate.output_tokens < 0:
            raise Unmetered("its maximum of output tokens is negative")
        if estimate.tools_charge:
            # The usage of a batch does not tell how often a tool ran.
            raise Unmetered("it has a tool that runs at the provider, whose cost a batch does not report")
        self._total += estimate.amount * Fraction(estimate.price.batch)
        self._long = self._long or estimate.price.at(estimate.input_tokens) is not estimate.price
        return plan.body


@contextmanager
def naming(what: str) -> Generator[None, None, None]:
    """Names the request of a batch in the error that refuses it."""
    try:
        yield
    except (Unmetered, UnknownModel) as error:
        raise type(error)(f"{what}: {error}; nothing was sent") from error
    except Exception as error:
        # The request may have any shape: the provider would refuse it.
        raise Unmetered(f"{what} cannot be read: {error}; nothing was sent") from error


class Lines:
    """Splits bytes into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the lines that are complete."""
        *complete, rest = data.split(b"\n")
        if complete:
            complete[0] = b"".join([*self._rest, complete[0]])
            self._rest = []
        self._rest.append(rest)
        return complete

    def end(self) -> bytes:
        """Returns what follows the last line break."""
        return b"".join(self._rest)


@dataclass(frozen=True)
class Ended:
    """A batch that has ended."""

    batch: str
    hold: str | None
    """`None`: it is not known."""
    cost: Callable[[int], int]
    """Returns what the batch cost if it held this bound, in micro-dollars. Raises if that is not known."""


@dataclass(frozen=True)
class Verdict:
    """How the hold of a batch is settled."""

    key: str
    """The idempotency key: the processes that see the end of a batch settle it once."""
    actuals: list[ActualBody] | None
    """The units to commit; `None`: the hold is released."""


def verdict(ended: Ended, hold: HoldAnswer) -> Verdict | None:
    """Returns how to settle the hold of a batch; `None` if it is settled already."""
    if hold["state"] in ("committed", "released"):
        return None
    cost = ended.cost(hold["charges"][0]["amount"])
    # An expired hold cannot be released: committing nothing takes back what its expiry has charged.
    if cost == 0 and hold["state"] == "held":
        return Verdict(f"batch-{ended.batch}-release", None)
    # The cost is a part of the key, because the processes may have different prices.
    return Verdict(
        f"batch-{ended.batch}-{cost}", [ActualBody(scope=charge["scope"], amount=cost) for charge in hold["charges"]]
    )


class Watch(ABC):
    """Reads an answer that may tell the end of batches while it passes to the caller, unchanged."""

    @abstractmethod
    def feed(self, data: bytes) -> bytes:
        """Reads a part of the answer, and returns it."""

    @abstractmethod
    def end(self) -> bytes:
        """Reads the end of a complete answer."""

    @abstractmethod
    def ended(self) -> list[Ended]:
        """Returns the batches that have ended. There are none before the end of the answer."""


class JsonWatch(Watch):
    """Reads an answer that is one JSON object."""

    def __init__(self, read: Callable[[Json], list[Ended]]) -> None:
        self._read = read
        self._parts: list[bytes] = []
        self._bytes = 0
        self._ended: list[Ended] = []

    def feed(self, data: bytes) -> bytes:
        self._bytes += len(data)
        if self._bytes <= ANSWER_BYTES_MAX:
            self._parts.append(data)
        return data

    def end(self) -> bytes:
        try:
            answer: Any = json.loads(b"".join(self._parts))
        except ValueError:
            # The provider's client reports it.
            return b""
        if isinstance(answer, dict):
            self._ended = self._read(cast("Json", answer))
        return b""

    def ended(self) -> list[Ended]:
        return self._ended


class KnownHolds:
    """The holds of batches. The mapping is the caller's: if it fails, the answer of the provider must not be lost."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds

    def get(self, batch: str) -> str | None:
        with self._logging("read", batch):
            return self._holds.get(batch)
        return None

    def set(self, batch: str, hold: str) -> None:
        with self._logging("stored", batch):
            self._holds[batch] = hold

    def forget(self, batch: str) -> None:
        with self._logging("removed", batch):
            self._holds.pop(batch, None)

    @contextmanager
    def _logging(self, what: str, batch: str) -> Generator[None, None, None]:
        try:
            yield
        except Exception:
            log.exception("the hold of the batch %s could not be %s in `batch_holds`", batch, what)


class Progress:
    """Which batches a wrapped client has settled, so that polling them causes no further calls."""

    def __init__(self, holds: KnownHolds) -> None:
        self._holds = holds
        self._done = Recent()
        self._told = Recent()

    def due(self, ended: Ended) -> str | None:
        """Returns the hold to settle; `None` if there is nothing to do."""
        if ended.batch in self._done:
            return None
        if ended.hold is None and ended.batch not in self._told:
            self._told.add(ended.batch)
            log.warning(
                "the batch %s is not settled, because its hold is not known: pass the `batch_holds` of the client that "
                "created it; its bound is charged when the hold expires",
                ended.batch,
            )
        return ended.hold

    def settled(self, ended: Ended) -> None:
        self._done.add(ended.batch)
        self._holds.forget(ended.batch)

    def failed(self, ended: Ended, error: Exception) -> None:
        if isinstance(error, AlreadySettled) and error.state != "expired":
            self.settled(ended)
        elif isinstance(error, (NotFound, Invalid)):
            self._done.add(ended.batch)
            log.error("the batch %s is not settled: this server cannot settle its hold: %s", ended.batch, error)
        else:
            log.error("settling the batch %s failed; the next poll tries again: %s", ended.batch, error)


class Recent:
    """Remembers the texts that were added last."""

    MAX = 10_000

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}
        self._lock = threading.Lock()

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    def add(self, text: str) -> None:
        with self._lock:
            self._texts[text] = None
            if len(self._texts) > self.MAX:
                del self._texts[next(iter(self._texts))]


def body_of(content: bytes) -> Json:
    """Returns the body of a request that creates a batch."""
    try:
        body: Any = json.loads(content)
    except ValueError as error:
        raise Unmetered(f"the batch is no JSON: {error}; nothing was sent") from error
    if not isinstance(body, dict):
        raise Unmetered("the batch is no JSON object; nothing was sent")
    return cast("Json", body)


#: What a gateway answers with if the provider does not answer it.
GATEWAY = frozenset({502, 504, *range(520, 528)})


def is_refused(status: int) -> bool:
    """Whether a status says that the provider created no batch. A gateway that answers for it leaves that open."""
    return status >= 300 and status not in GATEWAY
