"""Model calls that cannot overspend: each call holds its upper bound before it is sent, and commits its real cost after
its answer.

```python
client = wrap_openai(OpenAI(), bursar=Client(url, token=token), scope="team:research")
client.chat.completions.create(model="gpt-5-mini", messages=[{"role": "user", "content": "Hello"}])
```

A call that the budget does not admit raises `bursar.Refused` before a token is spent. Amounts are micro-dollars.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TypeVar

from typing_extensions import TypedDict, Unpack

from bursar.client import AsyncClient, Client
from bursar.llm.anthropic_batches import AnthropicBatches
from bursar.llm.batches import TTL as BATCH_TTL
from bursar.llm.batches import Batches
from bursar.llm.bounds import Bounds, Unmetered
from bursar.llm.calls import Anthropic, Dialect, OpenAI
from bursar.llm.metering import JobCapReached
from bursar.llm.openai_batches import OpenAIBatches
from bursar.llm.prices import Price, Prices, PriceTable, UnknownModel
from bursar.llm.transport import wrap
from bursar.worker.context import BaseContext

__all__ = [
    "Bounds",
    "JobCapReached",
    "Price",
    "PriceTable",
    "Prices",
    "UnknownModel",
    "Unmetered",
    "WrapOptions",
    "wrap_anthropic",
    "wrap_openai",
]

C = TypeVar("C")


class WrapOptions(TypedDict, total=False):
    """How the calls of a wrapped client are paid for: `bursar` and `scope`, or `ctx`."""

    bursar: Client | AsyncClient
    """The client that places holds: an `AsyncClient` for an asyncio client."""
    scope: str
    """The scope that pays. With `ctx`: which charge of the job's hold pays; default: the only one."""
    ctx: BaseContext
    """The context of a job, whose hold pays for the calls and caps them."""
    cap: int
    """With `ctx`: the most units that the calls may cost, if that is less than the job holds."""
    prices: Prices
    """Prices instead of those of this package: a file, a mapping or a function."""
    fallback_price: Price
    """The price of models that `prices` does not have; default: they are refused."""
    bounds: Bounds
    """The upper bounds of what is no text."""
    batch_holds: MutableMapping[str, str]
    """The hold of each batch of Anthropic, by the batch's id. Pass a `shelve`, or another mapping that is shared, if
    another process reads the results; default: the memory of this process."""
    batch_ttl: float
    """The time to live of a batch's hold, in seconds; default: 26 hours. The budget's `ttl_max` lowers it."""


def wrap_openai(client: C, **options: Unpack[WrapOptions]) -> C:
    """Returns a copy of an `OpenAI` or `AsyncOpenAI` client whose calls are held before they are sent. The original
    client is not changed, and its calls are not metered."""
    return _wrap(client, OpenAI(), OpenAIBatches, options)


def wrap_anthropic(client: C, **options: Unpack[WrapOptions]) -> C:
    """Returns a copy of an `Anthropic` or `AsyncAnthropic` client whose calls are held before they are sent. The
    original client is not changed, and its calls are not metered."""
    return _wrap(client, Anthropic(), AnthropicBatches, options)


def _wrap(client: C, dialect: Dialect, batches_of: type[Batches], options: WrapOptions) -> C:
    return wrap(
        client,
        dialect,
        batches_of,
        bursar=options.get("bursar"),
        scope=options.get("scope"),
        ctx=options.get("ctx"),
        cap=options.get("cap"),
        prices=options.get("prices"),
        fallback_price=options.get("fallback_price"),
        bounds=options.get("bounds"),
        batch_holds=options.get("batch_holds"),
        batch_ttl=options.get("batch_ttl", BATCH_TTL),
    )
