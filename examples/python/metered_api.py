"""A FastAPI endpoint that enqueues a metered job: the cost is held in the same transaction that enqueues it.

Run it with `uvicorn metered_api:app`. Settings: BURSAR_SERVER, BURSAR_TOKEN.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

from bursar import AsyncClient, Refused
from bursar.errors import NotFound

bursar = AsyncClient(os.environ["BURSAR_SERVER"], token=os.environ["BURSAR_TOKEN"])


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
    async with bursar:
        yield


app = FastAPI(lifespan=lifespan)


class Video(BaseModel):
    prompt: str
    seconds: int


@app.post("/videos", status_code=202)
async def order(
    video: Video, customer: Annotated[str, Header()], idempotency_key: Annotated[str | None, Header()] = None
) -> dict[str, str]:
    """Holds what the video may cost, and enqueues it, in one transaction. A repeated request returns the same job."""
    keyed = bursar.with_options(key=idempotency_key) if idempotency_key else bursar
    try:
        answer = await keyed.commands.submit(
            charges=[{"scope": f"customer:{customer}", "amount": video.seconds * 1_000}],
            settle="job",
            jobs=[{"queue": "videos", "kind": "video.render", "payload": video.model_dump()}],
        )
    except Refused as refusal:
        raise HTTPException(402, {"reason": refusal.detail, "retry_after_ms": refusal.retry_after_ms}) from refusal
    return {"job": answer["jobs"][0]["id"]}


@app.get("/videos/{job}")
async def status(job: str) -> dict[str, object]:
    """Returns the state of a video and what it has cost."""
    try:
        found = await bursar.jobs.get(job)
    except NotFound:
        raise HTTPException(404, "there is no such video") from None
    return {"state": found["state"], "cost": sum(cost["amount"] for cost in found["cost"]), "result": found["result"]}
