"""A FastAPI application whose callers have quotas on a Bursar server.

Run it with `uvicorn quota_api:app`. Settings: BURSAR_SERVER, and in BURSAR_TOKEN a token that may `meter.check`.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response

from bursar import AsyncClient, BursarError
from bursar.errors import Invalid, QuotaExceeded

bursar = AsyncClient(os.environ["BURSAR_SERVER"], token=os.environ["BURSAR_TOKEN"], timeout=2.0)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
    async with bursar:
        yield


async def metered(request: Request, response: Response, x_agent_id: Annotated[str, Header()]) -> None:
    """Charges each request to its caller before it is served.

    Take the name that your authentication has found: a header that anyone can set lets callers spend the quotas of
    others.
    """
    try:
        quota = await bursar.meter.check(agent_id=x_agent_id, cost=10 if request.method == "POST" else 1)
        response.headers["x-quota-remaining"] = str(quota.get("remaining"))
    except QuotaExceeded as over:
        wait = over.retry_after_ms
        headers = {} if wait is None else {"retry-after": str(math.ceil(wait / 1_000))}
        raise HTTPException(429, over.detail, headers) from over
    except Invalid as invalid:
        raise HTTPException(400, invalid.detail) from invalid
    except BursarError:
        # The quota could not be checked. This API stays available; raise a 503 instead to refuse the request.
        logging.exception("quota check failed, serving the request")


app = FastAPI(lifespan=lifespan)


@app.get("/livez")
async def livez() -> str:
    return "ok"


@app.get("/claims", dependencies=[Depends(metered)])
async def claims() -> list[str]:
    return []


@app.post("/claims", dependencies=[Depends(metered)])
async def claim() -> str:
    return "asserted"
