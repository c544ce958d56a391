"""Bursar: budgets, holds and durable jobs that settle their real cost.

`Client` and `AsyncClient` call a server, `Worker` runs its jobs, `bursar.llm` wraps model clients so that they cannot
overspend. The shapes of requests and answers are in `bursar.models`, the errors in `bursar.errors`.
"""

from bursar import errors, models
from bursar._hold import AsyncHold, Hold
from bursar._sending import etag_of, was_replayed
from bursar.client import AsyncClient, Client
from bursar.errors import BursarError, ProblemError, Refused
from bursar.events import AsyncEvents, Events, Happened, Progressed, Ready, Resync
from bursar.signing import Signer
from bursar.worker import (
    AsyncJobContext,
    JobContext,
    NonRetryableError,
    RetryAfter,
    Snooze,
    Stop,
    Worker,
    WorkerReport,
)

__all__ = [
    "AsyncClient",
    "AsyncEvents",
    "AsyncHold",
    "AsyncJobContext",
    "BursarError",
    "Client",
    "Events",
    "Happened",
    "Hold",
    "JobContext",
    "NonRetryableError",
    "ProblemError",
    "Progressed",
    "Ready",
    "Refused",
    "Resync",
    "RetryAfter",
    "Signer",
    "Snooze",
    "Stop",
    "Worker",
    "WorkerReport",
    "errors",
    "etag_of",
    "models",
    "was_replayed",
]
