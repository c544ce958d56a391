"""The LangChain wrapper around a chat model that fails as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from conftest import Server
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from test_llm import PRICES, holds, spent

from bursar import Client, errors
from bursar.llm import UnknownModel
from bursar.llm.langchain import wrap_langchain

USAGE = UsageMetadata(
    input_tokens=20,
    output_tokens=10,
    total_tokens=30,
    input_token_details={"cache_read": 8},
    output_token_details={"reasoning": 4},
)
COST = 12 + 4 + 12 + 12


class Overloaded(Exception):
    """An error like those of providers' packages."""

    status_code = 429


class Inner(BaseChatModel):
    """A chat model with faults."""

    model_name: str = "gpt-5-mini"
    fault: str | None = None
    calls: list[dict[str, Any]] = []

    @property
    def _llm_type(self) -> str:
        return "inner"

    def bind_tools(self, tools: Any, *, tool_choice: Any = None, **kwargs: Any) -> Any:
        return self.bind(tools=[{"type": "function", "function": {"name": one.name}} for one in tools], **kwargs)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> ChatResult:
        self.calls.append(kwargs)
        if self.fault == "429":
            raise Overloaded
        if self.fault == "silent":
            raise ConnectionError("no answer")
        usage = None if self.fault == "no usage" else USAGE
        return ChatResult(generations=[ChatGeneration(message=AIMessage("hello", usage_metadata=usage))])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.calls.append(kwargs)
        for number, word in enumerate(["one ", "two ", "three"]):
            if self.fault == "cut" and number == 1:
                raise ConnectionError("cut")
            usage = USAGE if number == 2 else None
            yield ChatGenerationChunk(message=AIMessageChunk(content=word, usage_metadata=usage))

    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._stream(messages, stop, None, **kwargs):
            yield chunk


@pytest.fixture
def scope(client: Client, name: str) -> str:
    client.budgets.define(name, limits=[{"amount": 1_000_000, "window": "lifetime"}])
    return name


def test_calls_commit_their_real_cost(client: Client, scope: str) -> None:
    inner = Inner(calls=[])
    model = wrap_langchain(inner, bursar=client, scope=scope, prices=PRICES)
    assert model.invoke("hi").content == "hello"
    assert inner.calls[0]["max_tokens"] == 4096
    assert spent(client, scope) == (COST, 0)
    assert "".join(str(chunk.content) for chunk in model.stream("hi")) == "one two three"
    assert spent(client, scope) == (2 * COST, 0)
    model.batch(["a", "b"])
    assert spent(client, scope) == (4 * COST, 0)
    assert len(holds(client, scope)) == 4

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    model.bind_tools([add]).invoke("hi")
    assert inner.calls[-1]["tools"][0]["function"]["name"] == "add"
    assert spent(client, scope) == (5 * COST, 0)


@pytest.mark.parametrize(("fault", "costs"), [("429", False), ("silent", True), ("no usage", True)])
def test_faults(client: Client, scope: str, fault: str, costs: bool) -> None:
    model = wrap_langchain(Inner(fault=fault, calls=[]), bursar=client, scope=scope, prices=PRICES)
    if fault == "no usage":
        model.invoke("hi")
    else:
        with pytest.raises((Overloaded, ConnectionError)):
            model.invoke("hi")
    (bound,) = holds(client, scope)
    assert spent(client, scope) == (bound if costs else 0, 0)


def test_streams_that_do_not_end_cost_their_bound(client: Client, scope: str) -> None:
    model = wrap_langchain(Inner(fault="cut", calls=[]), bursar=client, scope=scope, prices=PRICES)
    with pytest.raises(ConnectionError):
        list(model.stream("hi"))
    (bound,) = holds(client, scope)
    assert spent(client, scope) == (bound, 0)
    early: Any = wrap_langchain(Inner(calls=[]), bursar=client, scope=scope, prices=PRICES).stream("hi")
    next(early)
    early.close()
    assert spent(client, scope) == (2 * bound, 0)


def test_refusals(client: Client, name: str) -> None:
    client.budgets.define(name, limits=[{"amount": 10, "window": "lifetime"}])
    inner = Inner(calls=[])
    with pytest.raises(errors.Refused):
        wrap_langchain(inner, bursar=client, scope=name, prices=PRICES).invoke("hi")
    with pytest.raises(UnknownModel):
        wrap_langchain(inner, bursar=client, scope=name, prices={}).invoke("hi")
    assert inner.calls == []


def test_asyncio(server: Server, client: Client, scope: str) -> None:
    async def scenario() -> None:
        async with server.async_client() as bursar:
            model = wrap_langchain(Inner(calls=[]), bursar=bursar, scope=scope, prices=PRICES)
            assert (await model.ainvoke("hi")).content == "hello"
            assert [chunk.content async for chunk in model.astream("hi")][:3] == ["one ", "two ", "three"]
            assert spent(client, scope) == (2 * COST, 0)

    asyncio.run(scenario())
