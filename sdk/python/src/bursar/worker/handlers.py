"""Handlers: the functions that process jobs, and how their arguments and results are converted."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from typing import Any, get_type_hints

from bursar.worker.context import BaseContext
from bursar.worker.outcome import End, NonRetryableError, completed, end_of_error

RESULT_BYTES_MAX = 1 << 20


class Handler:
    """A function for jobs of one kind."""

    def __init__(self, kind: str, function: Callable[..., Any], payload: Any) -> None:
        self.kind = kind
        self.function = function
        # A callable object may have an async `__call__`.
        self.is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))
        self._arity = _arity(kind, function)
        self._validate = _model(_annotation(function)) if payload is None else _model(payload) or _function(payload)

    def arguments(self, context: BaseContext) -> tuple[Any, ...]:
        """Returns the arguments of the function. A payload of another shape makes the job dead."""
        payload: Any = context.job["payload"]
        if self._validate is not None:
            try:
                payload = self._validate(payload)
            except Exception as error:
                raise NonRetryableError(str(error), kind="payload") from None
        return (payload, context)[: self._arity]

    def end_of_result(self, result: Any, context: BaseContext) -> End:
        """Returns the end of an attempt whose handler returned."""
        try:
            plain = _plain(result)
            text = json.dumps(plain, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
            size = len(text.encode())
        except (TypeError, ValueError) as error:
            text = f"the result cannot be written as JSON: {error}"
            return end_of_error(NonRetryableError(text, kind="result"), context.reported())
        if size > RESULT_BYTES_MAX:
            text = f"the result has {size} bytes; at most {RESULT_BYTES_MAX} are allowed: store it as a blob"
            return end_of_error(NonRetryableError(text, kind="result"), context.reported())
        return completed(plain, size, context.reported(), context.made_blobs())

    def run(self, context: BaseContext) -> End:
        """Runs a blocking function."""
        try:
            return self.end_of_result(self.function(*self.arguments(context)), context)
        except BaseException as error:
            return end_of_error(error, context.reported())

    async def run_async(self, context: BaseContext) -> End:
        """Runs an asyncio function."""
        try:
            return self.end_of_result(await self.function(*self.arguments(context)), context)
        except BaseException as error:
            return end_of_error(error, context.reported())


class Handlers:
    """Handlers by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}

    def add(self, handler: Handler) -> None:
        if handler.kind in self._by_kind:
            raise ValueError(f"the kind {handler.kind!r} already has a handler")
        self._by_kind[handler.kind] = handler

    def kinds(self) -> list[str]:
        return sorted(self._by_kind)

    def find(self, kind: str) -> Handler | None:
        """Returns the handler of a kind: the one with its exact name, else the one with the longest matching prefix
        before a `*`."""
        if exact := self._by_kind.get(kind):
            return exact
        begins = [name for name in self._by_kind if name.endswith("*") and kind.startswith(name[:-1])]
        return self._by_kind[max(begins, key=len)] if begins else None


def _arity(kind: str, function: Callable[..., Any]) -> int:
    places = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
    ]
    if len(places) > 2:
        raise TypeError(f"the handler of {kind!r} must take the payload and the context, in this order")
    return len(places)


def _annotation(function: Callable[..., Any]) -> Any:
    """Returns the annotation of the payload, or `None`."""
    try:
        hints = get_type_hints(function)
    except (NameError, TypeError):
        hints = {}
    names = list(inspect.signature(function).parameters)
    return hints.get(names[0]) if names else None


def _model(payload: Any) -> Callable[[Any], Any] | None:
    """Returns the function that checks and converts payloads of a pydantic model, a `TypeAdapter` or a dataclass."""
    if hasattr(payload, "model_validate_json"):
        # Strict about JSON types: "7" is no integer.
        return lambda value: payload.model_validate_json(json.dumps(value), strict=True)
    if hasattr(payload, "validate_json"):
        return lambda value: payload.validate_json(json.dumps(value), strict=True)
    if dataclasses.is_dataclass(payload) and isinstance(payload, type):
        return lambda value: payload(**value)
    return None


def _function(payload: Any) -> Callable[[Any], Any]:
    if not callable(payload):
        raise TypeError("payload must be a pydantic model, a TypeAdapter, a dataclass or a function")
    return lambda value: payload(value)


def _plain(value: Any) -> Any:
    """Converts pydantic models and dataclasses to JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value
