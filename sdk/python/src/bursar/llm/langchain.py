"""A LangChain chat model whose calls cannot overspend. It needs the package `langchain-core`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_openai_messages
from langchain_core.messages.ai import UsageMetadata, add_usage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.tools import BaseTool
from pydantic import ConfigDict, PrivateAttr
from typing_extensions import Unpack

from bursar.llm import WrapOptions
from bursar.llm.bounds import Bounds, Estimate, InputCounter, Unmetered
from bursar.llm.http import uncancelled
from bursar.llm.metering import AsyncMeter, AsyncReservation, Meter, Reservation
from bursar.llm.prices import PriceList, Tokens
from bursar.llm.transport import async_meter, blocking_meter

R = TypeVar("R")

LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "num_predict")
"""Names of the output limit in LangChain's models."""


def wrap_langchain(
    model: BaseChatModel,
    *,
    model_name: str | None = None,
    max_tokens_field: str = "max_tokens",
    **options: Unpack[WrapOptions],
) -> MeteredChatModel:
    """Returns a chat model that holds the upper bound of each call of `model` and commits its real cost.

    `bursar` is a `Client` for `invoke` and `stream`, or an `AsyncClient` for `ainvoke` and `astream`. `model_name` is
    the name in the price table; default: that of the model. A call without an output limit gets one as the argument
    `max_tokens_field`. Retries inside of `model` are part of one call, whose bound is multiplied; set its
    `max_retries` to 0 and use `with_retry` to hold each attempt alone."""
    return MeteredChatModel(inner=model).paid_by(model_name, max_tokens_field, options)


class Account(Generic[R]):
    """Settles one call, once."""

    def __init__(self, estimate: Estimate, reservation: R) -> None:
        self.estimate = estimate
        self.reservation = reservation
        self._usage: UsageMetadata | None = None

    def saw(self, message: object) -> None:
        """Reads the usage of an answer. That of a stream is the sum of its parts."""
        if isinstance(message, AIMessage) and message.usage_metadata:
            self._usage = add_usage(self._usage, message.usage_metadata)

    def amount(self, error: BaseException | None = None) -> int:
        """What the call cost. A call that did not end, or has no usage, may have cost its estimate."""
        if error is not None:
            return self.estimate.amount if charged(error) else 0
        if self._usage is None:
            return self.estimate.amount
        return self.estimate.price.of(tokens_of(self._usage)) + self.estimate.tools_charge


class MeteredChatModel(BaseChatModel):
    """A chat model that holds the bound of each call before it makes it; see `wrap_langchain`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    inner: BaseChatModel
    _model_name: str | None = PrivateAttr(default=None)
    _max_tokens_field: str = PrivateAttr(default="max_tokens")
    _options: WrapOptions = PrivateAttr(default_factory=lambda: WrapOptions())
    _bounds: Bounds = PrivateAttr(default_factory=Bounds)
    _prices: PriceList = PrivateAttr(default_factory=lambda: PriceList(None, None))

    def paid_by(self, model_name: str | None, max_tokens_field: str, options: WrapOptions) -> MeteredChatModel:
        self._model_name = model_name
        self._max_tokens_field = max_tokens_field
        self._options = options
        self._bounds = options.get("bounds") or Bounds()
        self._prices = PriceList(options.get("prices"), options.get("fallback_price"))
        return self

    @property
    def _llm_type(self) -> str:
        return "bursar-metered"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[Any, AIMessage]:
        """Converts tools as the wrapped model does, and binds them to this model."""
        bound = self.inner.bind_tools(tools, tool_choice=tool_choice, **kwargs)
        if not isinstance(bound, RunnableBinding):
            raise Unmetered("the wrapped model binds tools in a way whose calls cannot be held")
        arguments: dict[str, Any] = dict(bound.kwargs)
        return self.bind(**arguments)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        account, kwargs = self._reserve(messages, kwargs)
        try:
            result = self.inner._generate(messages, stop, run_manager, **kwargs)  # pyright: ignore[reportPrivateUsage]
            for generation in result.generations:
                account.saw(generation.message)
        except BaseException as error:
            account.reservation.commit(account.amount(error))
            raise
        account.reservation.commit(account.amount())
        return result

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        account, kwargs = await self._areserve(messages, kwargs)
        try:
            result = await self.inner._agenerate(messages, stop, run_manager, **kwargs)  # pyright: ignore[reportPrivateUsage]
            for generation in result.generations:
                account.saw(generation.message)
        except BaseException as error:
            await uncancelled(account.reservation.commit(account.amount(error)))
            raise
        await uncancelled(account.reservation.commit(account.amount()))
        return result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        account, kwargs = self._reserve(messages, kwargs)
        try:
            for chunk in self.inner._stream(messages, stop, run_manager, **kwargs):  # pyright: ignore[reportPrivateUsage]
                account.saw(chunk.message)
                yield chunk
        except BaseException as error:
            # A reader that stops early closes the generator.
            account.reservation.commit(account.amount(error))
            raise
        account.reservation.commit(account.amount())

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        account, kwargs = await self._areserve(messages, kwargs)
        try:
            async for chunk in self.inner._astream(messages, stop, run_manager, **kwargs):  # pyright: ignore[reportPrivateUsage]
                account.saw(chunk.message)
                yield chunk
        except BaseException as error:
            await uncancelled(account.reservation.commit(account.amount(error)))
            raise
        await uncancelled(account.reservation.commit(account.amount()))

    def _reserve(
        self, messages: list[BaseMessage], kwargs: dict[str, Any]
    ) -> tuple[Account[Reservation], dict[str, Any]]:
        estimate, kwargs = self._plan(messages, kwargs)
        options = self._options
        meter: Meter = blocking_meter(
            options.get("bursar"), options.get("scope"), options.get("ctx"), options.get("cap")
        )
        return Account(estimate, meter.reserve(estimate.amount)), kwargs

    async def _areserve(
        self, messages: list[BaseMessage], kwargs: dict[str, Any]
    ) -> tuple[Account[AsyncReservation], dict[str, Any]]:
        estimate, kwargs = self._plan(messages, kwargs)
        options = self._options
        meter: AsyncMeter = async_meter(
            options.get("bursar"), options.get("scope"), options.get("ctx"), options.get("cap")
        )
        return Account(estimate, await meter.reserve(estimate.amount)), kwargs

    def _plan(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> tuple[Estimate, dict[str, Any]]:
        """Returns the estimate of a call, and its arguments with an output limit."""
        name = self._model_name or _attribute(self.inner, ("model_name", "model"))
        if name is None:
            raise Unmetered("the name of the model is not known: pass `model_name`")
        limit = next((kwargs[field] for field in LIMITS if kwargs.get(field)), None) or _attribute(self.inner, LIMITS)
        if limit is None:
            limit = self._bounds.max_tokens
            kwargs = {**kwargs, self._max_tokens_field: limit}
        counter = InputCounter(self._bounds, str(name))
        counter.add(convert_to_openai_messages(messages))
        # Tools and formats are arguments of the call.
        counter.add(json.loads(json.dumps(kwargs, default=repr)))
        if kwargs.get("tools"):
            counter.tokens += self._bounds.tools_tokens
        choices = int(kwargs.get("n") or _attribute(self.inner, ("n",)) or 1)
        attempts = 1 + int(_attribute(self.inner, ("max_retries",)) or 0)
        price = self._prices.of(str(name))
        outputs = int(limit) * choices
        return Estimate(price, counter.tokens * attempts, outputs * attempts, counter.caches), kwargs


def _attribute(value: object, names: Sequence[str]) -> Any:
    return next((found for name in names if (found := getattr(value, name, None)) is not None), None)


def charged(error: BaseException) -> bool:
    """Returns whether a failed call may have cost something. A provider does not charge for an error status."""
    status = getattr(error, "status_code", None)
    return not (isinstance(status, int) and status >= 400)


def tokens_of(usage: UsageMetadata) -> Tokens:
    """Converts LangChain's `usage_metadata`, whose input tokens include those of the cache."""
    inputs: Any = usage.get("input_token_details") or {}
    outputs: Any = usage.get("output_token_details") or {}
    total_in, total_out = int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0)
    cached = min(int(inputs.get("cache_read") or 0), total_in)
    written = min(int(inputs.get("cache_creation") or 0), total_in - cached)
    reasoning = min(int(outputs.get("reasoning") or 0), total_out)
    return Tokens(
        input=total_in - cached - written,
        cached_input=cached,
        output=total_out - reasoning,
        reasoning=reasoning,
        cache_write=written,
    )
