"""The calls of providers: what a request may cost, and what its answer cost. There is no I/O in this module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from bursar.llm.bounds import Bounds, Estimate, InputCounter, Unmetered, tool_charge, untyped_list
from bursar.llm.prices import PriceList, Tokens

Json = dict[str, Any]


class Dialect(Protocol):
    """A provider's wire format."""

    def plan(self, path: str, body: Json, prices: PriceList, bounds: Bounds) -> Plan | None:
        """Returns the plan of a request; `None` if it costs nothing. Refuses a request without an upper bound."""
        ...


@dataclass
class Plan:
    """A request that may be sent after its estimate is held."""

    body: Json
    """The body to send: with an output limit, and asking for usage in a stream."""
    estimate: Estimate
    usage: UsageReader
    hides_usage: bool = False
    """The stream's usage event was not asked for by the caller, and is not passed on."""


class UsageReader(Protocol):
    """Finds the usage in an answer."""

    def read(self, message: Json) -> None:
        """Reads an answer, or an event of a stream."""
        ...

    @property
    def tokens(self) -> Tokens | None:
        """The tokens of the call; `None` if the answer did not say, or the stream has not ended."""
        ...

    @property
    def input_tokens(self) -> Tokens | None:
        """The input tokens, if they are known before the end of the stream."""
        ...


def integer(value: Any, *path: str) -> int:
    """Returns a number in nested objects, or 0."""
    for name in path:
        value = cast("Json", value).get(name) if isinstance(value, dict) else None
    return value if isinstance(value, int) else 0


class OpenAIUsage:
    """Usage of chat completions, completions, embeddings and responses."""

    def __init__(self) -> None:
        self._usage: Json | None = None

    def read(self, message: Json) -> None:
        response = message.get("response")
        found = cast("Json", response).get("usage") if isinstance(response, dict) else message.get("usage")
        if isinstance(found, dict) and not self._unfinished(message):
            self._usage = cast("Json", found)

    def _unfinished(self, message: Json) -> bool:
        """Returns whether more of the stream follows. Some servers add the usage so far to every event."""
        choices = cast("list[Json]", message.get("choices") or [])
        chunk = message.get("object") == "chat.completion.chunk"
        return chunk and any(choice.get("finish_reason") is None for choice in choices)

    @property
    def tokens(self) -> Tokens | None:
        usage = self._usage
        if usage is None:
            return None
        chat = "prompt_tokens" in usage
        inputs, outputs = ("prompt", "completion") if chat else ("input", "output")
        total_in, total_out = integer(usage, f"{inputs}_tokens"), integer(usage, f"{outputs}_tokens")
        cached = min(integer(usage, f"{inputs}_tokens_details", "cached_tokens"), total_in)
        reasoning = min(integer(usage, f"{outputs}_tokens_details", "reasoning_tokens"), total_out)
        return Tokens(input=total_in - cached, cached_input=cached, output=total_out - reasoning, reasoning=reasoning)

    @property
    def input_tokens(self) -> Tokens | None:
        return None


class AnthropicUsage:
    """Usage of messages. A stream has its input tokens at the start and all output tokens at the end."""

    def __init__(self) -> None:
        self._usage: Json = {}
        self._complete = False

    def read(self, message: Json) -> None:
        kind = message.get("type")
        if kind == "message_start":
            message = cast("Json", message.get("message") or {})
        found = message.get("usage")
        if isinstance(found, dict):
            self._usage.update({name: part for name, part in cast("Json", found).items() if part is not None})
            self._complete = kind in ("message", "message_delta")

    @property
    def tokens(self) -> Tokens | None:
        if not self._complete or self.input_tokens is None:
            return None
        start = self.input_tokens
        return Tokens(
            input=start.input,
            cached_input=start.cached_input,
            output=integer(self._usage, "output_tokens"),
            cache_write=start.cache_write,
            cache_write_1h=start.cache_write_1h,
        )

    @property
    def input_tokens(self) -> Tokens | None:
        if "input_tokens" not in self._usage:
            return None
        hour = integer(self._usage, "cache_creation", "ephemeral_1h_input_tokens")
        return Tokens(
            input=integer(self._usage, "input_tokens"),
            cached_input=integer(self._usage, "cache_read_input_tokens"),
            cache_write=max(0, integer(self._usage, "cache_creation_input_tokens") - hour),
            cache_write_1h=hour,
        )


class OpenAI:
    """The API of OpenAI, and of servers that speak it."""

    FREE = ("/moderations", "/files", "/cancel", "/input_tokens")

    def plan(self, path: str, body: Json, prices: PriceList, bounds: Bounds) -> Plan | None:
        if path.endswith("/chat/completions"):
            return self._chat(body, prices, bounds)
        if path.endswith("/responses"):
            return self._responses(body, prices, bounds)
        if path.endswith("/embeddings"):
            return self._embeddings(body, prices, bounds)
        if path.endswith("/completions"):
            return self._completions(body, prices, bounds)
        if path.endswith(self.FREE):
            return None
        raise Unmetered(f"POST {path} has no upper bound of its cost; use a client without Bursar for it")

    def _chat(self, body: Json, prices: PriceList, bounds: Bounds) -> Plan:
        body = dict(body)
        if body.get("modalities") not in (None, ["text"]) or body.get("audio"):
            raise Unmetered("audio output has no bound")
        tools = self._tools(body, bounds)
        if body.get("web_search_options") is not None:
            tools += tool_charge(bounds, "web_search")
        counter = self._count(body, bounds)
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        if limit is None:
            body["max_completion_tokens"] = limit = bounds.max_tokens
        hides = self._ask_for_usage(body)
        outputs = int(limit) * int(body.get("n") or 1) + _prediction(counter, body)
        estimate = self._estimate(body, prices, counter, outputs, tools)
        return Plan(body, estimate, OpenAIUsage(), hides)

    def _responses(self, body: Json, prices: PriceList, bounds: Bounds) -> Plan:
        body = dict(body)
        if body.get("background"):
            raise Unmetered("a response in the background has no end that its call could settle")
        tools = self._tools(body, bounds)
        counter = self._count(body, bounds)
        for name in ("previous_response_id", "conversation", "prompt"):
            if body.get(name) is not None:
                counter.add_context(f"`{name}`")
        if body.get("max_output_tokens") is None:
            body["max_output_tokens"] = bounds.max_tokens
        estimate = self._estimate(body, prices, counter, int(body["max_output_tokens"]), tools)
        return Plan(body, estimate, OpenAIUsage())

    def _embeddings(self, body: Json, prices: PriceList, bounds: Bounds) -> Plan:
        return Plan(body, self._estimate(body, prices, self._count(body, bounds), 0, 0), OpenAIUsage())

    def _completions(self, body: Json, prices: PriceList, bounds: Bounds) -> Plan:
        body = dict(body)
        counter = self._count(body, bounds)
        if body.get("max_tokens") is None:
            body["max_tokens"] = bounds.max_tokens
        count = len(untyped_list(body.get("prompt")))
        outputs = int(body["max_tokens"]) * max(int(body.get("best_of") or 1), int(body.get("n") or 1)) * max(count, 1)
        hides = self._ask_for_usage(body)
        return Plan(body, self._estimate(body, prices, counter, outputs, 0), OpenAIUsage(), hides)

    def _count(self, body: Json, bounds: Bounds) -> InputCounter:
        counter = InputCounter(bounds, str(body.get("model")))
        counter.add(body)
        if body.get("tools") or body.get("functions"):
            counter.tokens += bounds.tools_tokens
        return counter

    def _tools(self, body: Json, bounds: Bounds) -> int:
        """Returns the bounds of tools that run at the provider."""
        kinds = [str(tool.get("type", "function")) for tool in cast("list[Json]", body.get("tools") or [])]
        # These run at the caller.
        own = {"function", "custom", "local_shell", "apply_patch"}
        return sum(tool_charge(bounds, kind) for kind in kinds if kind not in own)

    def _estimate(
        self, body: Json, prices: PriceList, counter: InputCounter, outputs: int, tools_charge: int
    ) -> Estimate:
        if body.get("service_tier") == "priority":
            raise Unmetered("the service tier `priority` has other prices than the table")
        price = prices.of(str(body.get("model")))
        return Estimate(price, counter.tokens, outputs, counter.caches, tools_charge)

    def _ask_for_usage(self, body: Json) -> bool:
        """Makes a stream end with its usage; returns whether the caller did not ask for that."""
        if not body.get("stream"):
            return False
        options = cast("Json", body.get("stream_options") or {})
        asked = bool(options.get("include_usage"))
        body["stream_options"] = {**options, "include_usage": True}
        return not asked


def _prediction(counter: InputCounter, body: Json) -> int:
    """Returns the tokens of a predicted output. Those that the model rejects are charged as output."""
    if not body.get("prediction"):
        return 0
    before = counter.tokens
    counter.add(body["prediction"])
    return counter.tokens - before


class Anthropic:
    """The API of Anthropic."""

    FREE = ("/messages/count_tokens", "/files", "/cancel")
    # Tools with a type that run at the caller; others with a type run at the provider.
    OWN = ("custom", "bash_", "text_editor_", "computer_", "memory_")

    def plan(self, path: str, body: Json, prices: PriceList, bounds: Bounds) -> Plan | None:
        if path.endswith(self.FREE):
            return None
        if not path.endswith("/messages"):
            raise Unmetered(f"POST {path} has no upper bound of its cost; use a client without Bursar for it")
        body = dict(body)
        for name in ("mcp_servers", "container"):
            if body.get(name):
                raise Unmetered(f"`{name}` has no upper bound of its cost")
        kinds = [tool.get("type") for tool in cast("list[Json]", body.get("tools") or [])]
        hosted = [str(kind) for kind in kinds if kind and not str(kind).startswith(self.OWN)]
        counter = InputCounter(bounds, str(body.get("model")))
        counter.add(body)
        if kinds:
            counter.tokens += bounds.tools_tokens
        if body.get("max_tokens") is None:
            body["max_tokens"] = bounds.max_tokens
        estimate = Estimate(
            prices.of(str(body.get("model"))),
            counter.tokens,
            int(body["max_tokens"]),
            counter.caches,
            sum(tool_charge(bounds, kind) for kind in hosted),
        )
        return Plan(body, estimate, AnthropicUsage())


class Settlement:
    """Follows an answer and tells what it cost."""

    ANSWER_BYTES_MAX = 64 << 20

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rest = b""
        self._readable = True
        self._streams = False
        self._complete = False

    def begin(self, headers: Mapping[str, str]) -> None:
        self._streams = headers.get("content-type", "").startswith("text/event-stream")
        self._readable = headers.get("content-encoding", "identity") == "identity"

    def feed(self, data: bytes) -> bytes:
        """Reads a part of the answer; returns what is passed on to the caller."""
        if not self._readable:
            return data
        self._rest += data
        if not self._streams:
            if len(self._rest) > self.ANSWER_BYTES_MAX:
                self._readable, self._rest = False, b""
            return data
        passed: list[bytes] = []
        while (end := _event_end(self._rest)) > 0:
            event, self._rest = self._rest[:end], self._rest[end:]
            if not self._read_event(event):
                passed.append(event)
        return b"".join(passed)

    def end(self) -> bytes:
        """Reads the end of a complete answer; returns what is left to pass on."""
        self._complete = True
        rest, self._rest = self._rest, b""
        if not self._readable:
            return b""
        if self._streams:
            self._read_event(rest)
            return rest
        self._read(rest)
        return b""

    @property
    def amount(self) -> int:
        """What the call cost, in micro-dollars. Without usage it is the estimate; of a stream that did not end, the
        output may have cost as much as its bound."""
        estimate, usage = self._plan.estimate, self._plan.usage
        # The usage of a stream is final even if the connection breaks afterwards.
        if usage.tokens is not None:
            return estimate.price.of(usage.tokens) + estimate.tools_charge
        if usage.input_tokens is not None:
            return estimate.price.of(usage.input_tokens) + estimate.output_cost + estimate.tools_charge
        return estimate.amount

    def _read_event(self, event: bytes) -> bool:
        """Reads an event; returns whether it is hidden from the caller."""
        lines = event.replace(b"\r\n", b"\n").split(b"\n")
        data = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
        message = self._read(data)
        return self._plan.hides_usage and message is not None and message.get("choices") == [] and "usage" in message

    def _read(self, data: bytes) -> Json | None:
        try:
            message: Any = json.loads(data)
        except ValueError:
            return None
        if not isinstance(message, dict):
            return None
        self._plan.usage.read(cast("Json", message))
        return cast("Json", message)


def _event_end(data: bytes) -> int:
    """Returns where the first event ends, or 0."""
    ends = [place + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (place := data.find(mark)) >= 0]
    return min(ends, default=0)
