"""Batches of Anthropic. The requests are in the body, and the results are the lines of a file, with the usage of each
request. A batch has no metadata, so `batch_holds` has its hold."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from typing import Any, cast

from bursar.errors import BursarError
from bursar.llm.batches import Batches, Draft, Ended, JsonWatch, KnownHolds, Lines, Watch, naming
from bursar.llm.bounds import Bounds, Unmetered, untyped_list
from bursar.llm.calls import AnthropicUsage, Dialect, Json
from bursar.llm.prices import MILLION, PriceList


class AnthropicBatches(Batches):
    """Batches of Anthropic."""

    READ = re.compile(r"GET .*/messages/batches/([^/]+)(/results)?")

    def creates(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/messages/batches")

    def draft(self, body: Json) -> Draft:
        return AnthropicDraft(body, self._dialect, self._prices, self._bounds)

    def created(self, hold: str) -> Watch:
        def remember(batch: Json) -> list[Ended]:
            self.holds.set(str(batch.get("id")), hold)
            return []

        return JsonWatch(remember)

    def watch(self, method: str, path: str) -> Watch | None:
        match = self.READ.fullmatch(f"{method} {path}")
        if match is None:
            return None
        return ResultsWatch(match[1], self._prices, self.holds) if match[2] else JsonWatch(self._read)

    def _read(self, batch: Json) -> list[Ended]:
        """Reads a batch. One that has results is settled by them."""
        counts = batch.get("request_counts")
        succeeded = cast("Json", counts).get("succeeded") if isinstance(counts, dict) else None
        if batch.get("processing_status") != "ended" or succeeded != 0:
            return []
        name = str(batch.get("id"))
        return [Ended(name, self.holds.get(name), lambda _bound: 0)]


class AnthropicDraft(Draft):
    """A batch of Anthropic, which has its requests inline."""

    def __init__(self, body: Json, dialect: Dialect, prices: PriceList, bounds: Bounds) -> None:
        super().__init__(dialect, prices, bounds)
        requests = untyped_list(body.get("requests"))
        if not requests:
            raise Unmetered("the batch has no requests; nothing was sent")
        self._body = {**body, "requests": [self._bounded(number, one) for number, one in enumerate(requests, 1)]}

    def body(self, hold: str) -> Json:
        del hold
        return self._body

    def _bounded(self, number: int, request: Any) -> Json:
        own = cast("Json", request) if isinstance(request, dict) else {}
        with naming(f"request {number} ({own.get('custom_id')!r}) of the batch"):
            return {**own, "params": self._add("/messages", own.get("params"))}


class ResultsWatch(Watch):
    """Adds up the cost of the results of a batch of Anthropic."""

    def __init__(self, batch: str, prices: PriceList, holds: KnownHolds) -> None:
        self._batch = batch
        self._prices = prices
        self._holds = holds
        self._lines = Lines()
        self._total = Fraction(0)
        self._results = 0
        self._has_usage = True
        self._complete = False
        self._error: BursarError | None = None

    def feed(self, data: bytes) -> bytes:
        for line in self._lines.feed(data):
            self._read(line)
        return data

    def end(self) -> bytes:
        self._read(self._lines.end())
        self._complete = True
        return b""

    def ended(self) -> list[Ended]:
        return [Ended(self._batch, self._holds.get(self._batch), self._cost)] if self._complete else []

    def _read(self, text: bytes) -> None:
        if not text.strip():
            return
        self._results += 1
        try:
            self._total += self._cost_of(json.loads(text)["result"])
        except Exception as error:
            # The results are paid for: the caller gets them even if a line has an unknown form or price.
            self._error = self._error or BursarError(f"the cost of line {self._results} of the results: {error!r}")

    def _cost_of(self, result: Json) -> Fraction:
        if result["type"] in ("errored", "canceled", "expired"):
            return Fraction(0)
        message: Json = result["message"]
        usage = AnthropicUsage()
        usage.read(message)
        if usage.tokens is None:
            self._has_usage = False
            return Fraction(0)
        price = self._prices.of(str(message.get("model")))
        return Fraction(price.batch) * price.unrounded(usage.tokens) / MILLION

    def _cost(self, bound: int) -> int:
        if self._error is not None:
            raise self._error
        if self._results == 0:
            raise BursarError("the results have no lines")
        return math.ceil(self._total) if self._has_usage else bound
