"""Prices of models, and what a call costs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, Union

from bursar.errors import BursarError

MILLION = 1_000_000


class UnknownModel(BursarError):
    """The price of the model is not known, so that the call was not made. Pass `prices`, or a `fallback_price`."""


@dataclass(frozen=True)
class Price:
    """The price of a model, in micro-dollars for a million tokens."""

    input: int
    output: int
    cached_input: int | None = None
    """Input tokens that the provider read from its cache; default: `input`."""
    reasoning: int | None = None
    """Output tokens that are not shown; default: `output`."""
    cache_write: int | None = None
    """Input tokens that the provider wrote to its cache; default: `input`."""
    cache_write_1h: int | None = None
    """Input tokens that the provider keeps in its cache for an hour; default: `cache_write`."""

    long: LongPrice | None = None
    """The prices of a request with many input tokens."""
    batch: float = 1
    """What a token in a batch costs, as a fraction of its price."""
    image_tokens: int | None = None
    """The most input tokens that one image costs. `Bounds.image_tokens` bounds the images of every model."""

    def at(self, input_tokens: int) -> Price:
        """Returns the price of a request with this many input tokens."""
        return self.long.price if self.long is not None and input_tokens > self.long.tokens else self

    def of(self, usage: Tokens) -> int:
        """Returns the cost of tokens in micro-dollars, rounded up."""
        return -(-self.unrounded(usage) // MILLION)

    def unrounded(self, usage: Tokens) -> int:
        """Returns the cost of tokens in millionths of a micro-dollar."""
        input_tokens = usage.input + usage.cached_input + usage.cache_write + usage.cache_write_1h
        return self.at(input_tokens)._unrounded(usage)

    def _unrounded(self, usage: Tokens) -> int:
        write = self.input if self.cache_write is None else self.cache_write
        return (
            usage.input * self.input
            + usage.cached_input * (self.input if self.cached_input is None else self.cached_input)
            + usage.output * self.output
            + usage.reasoning * (self.output if self.reasoning is None else self.reasoning)
            + usage.cache_write * write
            + usage.cache_write_1h * (write if self.cache_write_1h is None else self.cache_write_1h)
        )

    def input_max(self, *, caches: bool) -> int:
        """Returns the highest price of an input token."""
        highest = max(self.input, self.cached_input or 0)
        return max(highest, self.cache_write or 0, self.cache_write_1h or 0) if caches else highest

    @property
    def output_max(self) -> int:
        """The highest price of an output token."""
        return max(self.output, self.reasoning or 0)


@dataclass(frozen=True)
class LongPrice:
    """The price of a request with more than `tokens` input tokens."""

    tokens: int
    price: Price


@dataclass(frozen=True)
class Tokens:
    """The tokens of a call, each counted once."""

    input: int = 0
    cached_input: int = 0
    output: int = 0
    reasoning: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0


class PriceTable:
    """Prices by model. A model name with a date, such as `gpt-5-2025-08-07`, has the price of the name without it,
    unless the table has the full name."""

    def __init__(self, models: Mapping[str, Price], version: str = "") -> None:
        self.models = dict(models)
        self.version = version

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> PriceTable:
        """Reads a table: `{"version": …, "models": {NAME: {"input": …, "cached_input": …, "output": …}}}`."""
        models: Mapping[str, Any] = document["models"]
        return cls({name: parse_price(fields) for name, fields in models.items()}, str(document.get("version", "")))

    @classmethod
    def load(cls, path: str | Path) -> PriceTable:
        return cls.parse(json.loads(Path(path).read_text()))

    def __call__(self, model: str) -> Price | None:
        return self.models.get(model) or self.models.get(re.sub(r"-(\d{4}-\d\d-\d\d|\d{8}|latest)$", "", model))


def parse_price(fields: Mapping[str, Any]) -> Price:
    """Reads a price of a file. `long` has its own `tokens` and prices."""
    rates = dict(fields)
    long = rates.pop("long", None)
    if long is None:
        return Price(**rates)
    tokens = int(long["tokens"])
    return Price(**rates, long=LongPrice(tokens, Price(**{name: long[name] for name in long if name != "tokens"})))


Prices: TypeAlias = Union[str, Path, Mapping[str, Price], Callable[[str], "Price | None"], None]
"""A file, prices by model, or a function of the model's name; `None`: the table of this package."""


class PriceList:
    """Finds the price of a model."""

    def __init__(self, prices: Prices, fallback: Price | None) -> None:
        self._fallback = fallback
        if prices is None:
            prices = Path(__file__).with_name("prices.json")
        if isinstance(prices, (str, Path)):
            self._find: Callable[[str], Price | None] = PriceTable.load(prices)
        else:
            self._find = prices if callable(prices) else PriceTable(prices)

    def of(self, model: str) -> Price:
        price = self._find(model) or self._fallback
        if price is None:
            raise UnknownModel(f"the price of the model {model!r} is not known; pass `prices` or `fallback_price`")
        return price
