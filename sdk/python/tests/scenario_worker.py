"""The worker program for the shared worker scenarios (tests/workers/README.md)."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from bursar import (
    AsyncJobContext,
    BursarError,
    JobContext,
    NonRetryableError,
    RetryAfter,
    Snooze,
    Stop,
    Worker,
)
from bursar.worker import BaseContext


def seconds(name: str) -> float | None:
    text = os.environ.get(name)
    return int(text) / 1000 if text else None


FOLDER = Path(os.environ["WORKER_FOLDER"])
LOG = os.open(os.environ["WORKER_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
GRACE = seconds("WORKER_GRACE_MS")

worker = Worker(
    url=os.environ["BURSAR_SERVER"],
    token=os.environ["BURSAR_TOKEN"],
    name=os.environ["WORKER_NAME"],
    queues=[os.environ["WORKER_QUEUE"]],
    concurrency=int(os.environ["WORKER_CONCURRENCY"]),
    lease=seconds("WORKER_LEASE_MS"),
    grace=30.0 if GRACE is None else GRACE,
)


def log(event: str, ctx: BaseContext, **fields: str) -> None:
    line = {"event": event, "job": ctx.id, "attempt": ctx.attempt, **fields}
    os.write(LOG, (json.dumps(line) + "\n").encode())


class Logged:
    """Logs the start and the end of a handler."""

    def __init__(self, ctx: BaseContext) -> None:
        self._ctx = ctx

    def __enter__(self) -> None:
        log("started", self._ctx)

    def __exit__(self, *_: object) -> None:
        log("finished", self._ctx)


@worker.job("echo")
async def echo(payload: Any, ctx: AsyncJobContext) -> Any:
    with Logged(ctx):
        return payload


@worker.job("context")
def context(_payload: Any, ctx: JobContext) -> dict[str, Any]:
    with Logged(ctx):
        job = ctx.job
        return {
            "id": ctx.id,
            "attempt": ctx.attempt,
            "idempotency_key": ctx.idempotency_key,
            "key": job.get("key"),
            "tags": job.get("tags", []),
            "metadata": job.get("metadata"),
        }


class Typed(BaseModel):
    n: int


@worker.job("typed")
async def typed(payload: Typed, ctx: AsyncJobContext) -> Typed:
    with Logged(ctx):
        return payload


@worker.job("spend")
def spend(payload: dict[str, list[int]], ctx: JobContext) -> None:
    with Logged(ctx):
        for amount in payload["usage"]:
            ctx.usage(amount)


@worker.job("resume")
async def resume(payload: dict[str, int], ctx: AsyncJobContext) -> dict[str, int | None]:
    with Logged(ctx):
        start = ctx.checkpoint["step"] if ctx.checkpoint else None
        step = (start or 0) + 1
        ctx.progress(step, checkpoint={"step": step})
        # A report without a checkpoint leaves the last one.
        ctx.progress(step + 0.5)
        if ctx.attempt < payload["attempts"]:
            raise RetryAfter(0.001, "go on")
        return {"attempt": ctx.attempt, "from": start}


@worker.job("gate")
async def gate(payload: dict[str, list[Any]], ctx: AsyncJobContext) -> dict[str, int]:
    with Logged(ctx):
        place = ctx.attempt - 1
        usage, gates = (list[Any](payload.get(name) or []) for name in ("usage", "gates"))
        if place < len(usage) and usage[place] is not None:
            ctx.usage(usage[place])
        if place < len(gates) and gates[place] is not None:
            file = FOLDER / gates[place]
            while not file.exists() and not ctx.cancelled:
                await asyncio.sleep(0.02)
        reason = ctx.signal.reason
        if reason is not None:
            log("stopped", ctx, reason=reason.name)
            if reason is Stop.cancelled:
                raise RuntimeError("stopped")
        return {"attempt": ctx.attempt}


@worker.job("block")
async def block(payload: dict[str, int], ctx: AsyncJobContext) -> dict[str, int]:
    with Logged(ctx):
        # It blocks the event loop on purpose.
        time.sleep(payload["ms"] / 1000)
        return {"attempt": ctx.attempt}


@worker.job("poison")
async def poison(_payload: Any, ctx: AsyncJobContext) -> None:
    with Logged(ctx):
        raise RuntimeError("poison")


@worker.job("fatal")
def fatal(_payload: Any, ctx: JobContext) -> None:
    with Logged(ctx):
        raise NonRetryableError("cannot succeed", kind="fatal")


SNOOZED: set[str] = set()
LOCK = threading.Lock()


@worker.job("later")
def later(_payload: Any, ctx: JobContext) -> dict[str, int]:
    with Logged(ctx):
        with LOCK:
            first = ctx.id not in SNOOZED
            SNOOZED.add(ctx.id)
        if first:
            raise Snooze(0.001)
        return {"attempt": ctx.attempt}


@worker.job("after")
async def after(_payload: Any, ctx: AsyncJobContext) -> dict[str, int]:
    with Logged(ctx):
        if ctx.attempt == 1:
            raise RetryAfter(0.001, "retried soon")
        return {"attempt": ctx.attempt}


@worker.job("progress")
async def progress(_payload: Any, ctx: AsyncJobContext) -> None:
    with Logged(ctx):
        ctx.progress(50, "half", {"step": 1})


@worker.job("nested")
def nested(_payload: Any, ctx: JobContext) -> dict[str, int]:
    with Logged(ctx):
        ctx.progress(50)
        ctx.usage(3)
        if ctx.attempt == 1:
            raise RuntimeError("after spending")
        return {"attempt": ctx.attempt}


if __name__ == "__main__":
    try:
        worker.run()
    except BursarError as error:
        sys.exit(str(error))
