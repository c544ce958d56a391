"""One call of the HTTP API, before it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from urllib.parse import quote

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request whose answer has the type `T`."""

    method: str
    path: str
    body: Mapping[str, object] | None = None
    query: Mapping[str, str] = field(default_factory=lambda: dict[str, str]())
    idempotent: bool = False
    """A repetition has no further effect even without an idempotency key."""
    waits: float = 0.0
    """How long the server may wait before it answers, in seconds."""

    @property
    def needs_key(self) -> bool:
        return self.method != "GET" and not self.idempotent

    @property
    def target(self) -> str:
        """The path with the query."""
        if not self.query:
            return self.path
        pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query.items())
        return f"{self.path}?{'&'.join(pairs)}"


def path(*segments: str) -> str:
    """Joins segments, which are escaped."""
    return "".join("/" + quote(segment, safe="") for segment in segments)


def query(values: Mapping[str, object]) -> dict[str, str]:
    """Returns the parameters that are set, as text."""
    texts = ((name, value) for name, value in values.items() if value is not None)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in texts}
