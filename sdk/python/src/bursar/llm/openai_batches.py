"""Batches of OpenAI. The requests are the lines of a file that was uploaded before. The metadata of a batch has the id
of its hold, and a batch that has ended has the usage of all its requests."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, cast

from bursar.errors import InvalidOption
from bursar.llm.batches import Batches, Draft, Ended, JsonWatch, Lines, Watch, naming
from bursar.llm.bounds import Bounds, Unmetered
from bursar.llm.calls import Dialect, Json, OpenAIUsage
from bursar.llm.prices import MILLION, PriceList

FILE_BYTES_MAX = 200 << 20
"""OpenAI's limit for the input file of a batch."""
METADATA_MAX = 16
"""OpenAI's limit for the pairs of a batch's metadata."""
HOLD_FIELD = "bursar_hold"
"""Where the metadata of a batch of OpenAI has the id of its hold."""
LONG_FIELD = "bursar_long"
"""The metadata says that the prices of long requests may apply: the usage of a batch is a sum, which does not tell."""
NO_CACHE_DISCOUNT = re.compile(r"gpt-4|o\d")
"""Models of OpenAI whose cached tokens have no lower price in a batch."""


class OpenAIBatches(Batches):
    """Batches of OpenAI."""

    READ = re.compile(r"GET .*/batches(/[^/]+)?|POST .*/batches/[^/]+/cancel")
    ENDED = ("completed", "expired", "cancelled", "failed")

    def creates(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/batches")

    def draft(self, body: Json) -> Draft:
        return OpenAIDraft(body, self._dialect, self._prices, self._bounds)

    def created(self, hold: str) -> Watch:
        del hold
        return JsonWatch(self._read)

    def watch(self, method: str, path: str) -> Watch | None:
        return JsonWatch(self._read) if self.READ.fullmatch(f"{method} {path}") else None

    def _read(self, answer: Json) -> list[Ended]:
        """Reads a batch, or a list of batches."""
        listed: list[Any] = answer["data"] if isinstance(answer.get("data"), list) else [answer]
        return [ended for batch in listed if (ended := self._ended(batch)) is not None]

    def _ended(self, batch: Any) -> Ended | None:
        if not isinstance(batch, dict):
            return None
        batch = cast("Json", batch)
        metadata = batch.get("metadata")
        hold = cast("Json", metadata).get(HOLD_FIELD) if isinstance(metadata, dict) else None
        if batch.get("status") not in self.ENDED or not isinstance(hold, str):
            return None
        return Ended(str(batch.get("id")), hold, partial(self._cost, batch))

    def _cost(self, batch: Json, bound: int) -> int:
        usage = OpenAIUsage()
        usage.read(batch)
        tokens, model = usage.tokens, batch.get("model")
        # A batch that did work has input; older batches have no usage, or one of zeros.
        if tokens is None or tokens.input + tokens.cached_input == 0:
            counts: Json = batch.get("request_counts") or {}
            return 0 if batch["status"] == "failed" or counts.get("completed") == 0 else bound
        if not isinstance(model, str):
            return bound
        price = self._prices.of(model)
        if NO_CACHE_DISCOUNT.match(model):
            tokens = replace(tokens, input=tokens.input + tokens.cached_input, cached_input=0)
        rates = price.long.price if price.long is not None and LONG_FIELD in batch["metadata"] else price
        return math.ceil(Fraction(price.batch) * replace(rates, long=None).unrounded(tokens) / MILLION)


class OpenAIDraft(Draft):
    """A batch of OpenAI, whose requests are the lines of a file that cannot be changed any more."""

    def __init__(self, body: Json, dialect: Dialect, prices: PriceList, bounds: Bounds) -> None:
        super().__init__(dialect, prices, bounds)
        if not isinstance(body.get("input_file_id"), str) or not body["input_file_id"]:
            raise Unmetered("the batch has no `input_file_id`; nothing was sent")
        self.input_file = str(body["input_file_id"])
        self._body = body
        metadata: Any = body.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InvalidOption("the metadata of the batch is not an object; nothing was sent")
        # It may be that of an earlier batch.
        marks = (HOLD_FIELD, LONG_FIELD)
        self._metadata = {name: value for name, value in cast("Json", metadata).items() if name not in marks}
        self._lines = Lines()
        self._bytes = 0
        self._number = 0
        self._requests = 0

    def body(self, hold: str) -> Json:
        return {**self._body, "metadata": {**self._metadata, HOLD_FIELD: hold}}

    def feed(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > FILE_BYTES_MAX:
            raise Unmetered(
                f"the input file {self.input_file} has more than {FILE_BYTES_MAX >> 20} MB; nothing was sent; split it"
            )
        for line in self._lines.feed(data):
            self._read(line)

    def end(self) -> None:
        self._read(self._lines.end())
        if self._requests == 0:
            raise Unmetered(f"the input file {self.input_file} has no lines; nothing was sent")
        if self._long:
            self._metadata[LONG_FIELD] = "true"
        if len(self._metadata) >= METADATA_MAX:
            raise InvalidOption(
                f"the metadata of the batch has no room for `{HOLD_FIELD}`: at most {METADATA_MAX} pairs are allowed; "
                "nothing was sent; remove a pair"
            )

    def _read(self, text: bytes) -> None:
        self._number += 1
        if not text.strip():
            return
        self._requests += 1
        with naming(f"line {self._number} of the input file {self.input_file}"):
            line: Any = json.loads(text)
            if not isinstance(line, dict):
                raise Unmetered("it is not an object")
            line = cast("Json", line)
        with naming(f"line {self._number} ({line.get('custom_id')!r}) of the input file {self.input_file}"):
            if line.get("method") != "POST" or line.get("url") != self._body.get("endpoint"):
                asked = f"{line.get('method')} {line.get('url')}"
                raise Unmetered(f"{asked} is not POST to the endpoint {self._body.get('endpoint')} of the batch")
            body = line.get("body")
            for name, value in self._add(str(line["url"]), body).items():
                if body.get(name) != value:
                    raise Unmetered(f"it does not set `{name}`, and the file cannot be changed any more")
