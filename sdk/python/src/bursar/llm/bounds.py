"""Upper bounds of what a model call costs, found before it is made.

A token has at least one byte, so a text has at most as many tokens as UTF-8 bytes. Everything else in a request is
bounded by a constant of `Bounds`, or refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from bursar.errors import BursarError
from bursar.llm.prices import MILLION, Price


class Unmetered(BursarError):
    """The cost of the call has no known upper bound, so that the call was not made."""


@dataclass(frozen=True)
class Bounds:
    """Upper bounds for the parts of requests. Parts whose bound is `None` are refused."""

    max_tokens: int = 4_096
    """The output limit that is sent with requests that have none."""
    message_tokens: int = 16
    """Tokens around each message, beside its text."""
    tools_tokens: int = 1_024
    """Tokens that tools add, beside their definitions."""
    image_tokens: int = 50_000
    """Tokens of one image. The most expensive current model counts less than 50,000 for the largest image."""
    audio_tokens: int | None = None
    """Tokens of one audio input."""
    file_tokens: int | None = None
    """Tokens of one file or document that is no plain text."""
    context_tokens: int | None = None
    """Tokens of a conversation that the provider stores (`previous_response_id`, `conversation`, `prompt`)."""
    server_tools: Mapping[str, int] = field(default_factory=lambda: dict[str, int]())
    """Micro-dollars that a tool of the provider may cost in one call, by its type, such as `web_search`. The bound is
    charged, because answers do not report the cost of tools. A type with a date matches the name without it."""
    count_tokens: Callable[[str, str], int] | None = None
    """Counts the tokens of a text for a model, instead of its bytes. It must not count too few."""


IMAGES = {"image", "image_url", "input_image"}
AUDIO = {"input_audio", "audio"}
FILES = {"file", "input_file", "document", "container_upload"}
REFERENCES = {"item_reference"}


class InputCounter:
    """Adds up the tokens of a request's input."""

    def __init__(self, bounds: Bounds, model: str) -> None:
        self._bounds = bounds
        self._model = model
        self.tokens = 0
        self.caches = False
        """The request asks the provider to write to its cache."""

    def add(self, value: Any) -> None:
        """Adds a JSON value: texts and field names by their size, media by their bounds."""
        if isinstance(value, str):
            self.tokens += self._text(value)
        elif isinstance(value, list):
            for item in cast("list[Any]", value):  # type: ignore[redundant-cast]
                self.tokens += self._bounds.message_tokens
                self.add(item)
        elif isinstance(value, dict):
            self._add_object(cast("dict[str, Any]", value))
        elif value is not None:
            self.tokens += len(json.dumps(value))

    def add_context(self, what: str) -> None:
        """Adds input that is stored by the provider."""
        self.tokens += self._required(self._bounds.context_tokens, what, "context_tokens")

    def _add_object(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        if kind in IMAGES:
            self.tokens += self._bounds.image_tokens
        elif kind in AUDIO:
            self.tokens += self._required(self._bounds.audio_tokens, "audio", "audio_tokens")
        elif kind in FILES and not _is_text_document(value):
            self.tokens += self._required(self._bounds.file_tokens, f"a part of type {kind!r}", "file_tokens")
        elif kind in REFERENCES:
            self.add_context(f"an item of type {kind!r}")
        else:
            for name, part in value.items():
                self.caches = self.caches or name == "cache_control"
                self.tokens += self._text(name) + 4
                self.add(part)

    def _text(self, text: str) -> int:
        if self._bounds.count_tokens is not None:
            return self._bounds.count_tokens(self._model, text)
        return len(text.encode("utf-8", "surrogatepass"))

    def _required(self, bound: int | None, what: str, setting: str) -> int:
        if bound is None:
            raise Unmetered(f"{what} has no bound: set Bounds({setting}=…) to a number of tokens that it never exceeds")
        return bound


def untyped_list(value: object) -> Any:
    """Returns a list, or an empty one for any other value."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def _is_text_document(value: dict[str, Any]) -> bool:
    source = value.get("source")
    kind = cast("dict[str, Any]", source).get("type") if isinstance(source, dict) else None
    return value.get("type") == "document" and kind in ("text", "content")


def tool_charge(bounds: Bounds, kind: str) -> int:
    """Returns the bound of a provider's tool in micro-dollars, or refuses it."""
    for name, charge in bounds.server_tools.items():
        if kind == name or (kind.startswith(f"{name}_") and kind[len(name) + 1 :].replace("_", "").isalnum()):
            return charge
    advice = f"set Bounds(server_tools={{{kind!r}: …}})"
    raise Unmetered(f"the tool {kind!r} runs at the provider and has no bound: {advice}")


@dataclass(frozen=True)
class Estimate:
    """The upper bound of a call."""

    price: Price
    input_tokens: int
    output_tokens: int
    caches: bool = False
    tools_charge: int = 0

    @property
    def _rates(self) -> Price:
        return self.price.at(self.input_tokens)

    @property
    def input_cost(self) -> int:
        return -(-self.input_tokens * self._rates.input_max(caches=self.caches) // MILLION)

    @property
    def output_cost(self) -> int:
        return -(-self.output_tokens * self._rates.output_max // MILLION)

    @property
    def amount(self) -> int:
        """Micro-dollars."""
        return self.input_cost + self.output_cost + self.tools_charge
