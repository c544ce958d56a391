"""Workers: you write the handler, the worker leases jobs, sends heartbeats, reports and drains."""

from bursar.worker.context import AsyncJobContext, BaseContext, JobContext, Stop, StopSignal
from bursar.worker.outcome import NonRetryableError, RetryAfter, Snooze
from bursar.worker.reports import WorkerReport
from bursar.worker.worker import Worker

__all__ = [
    "AsyncJobContext",
    "BaseContext",
    "JobContext",
    "NonRetryableError",
    "RetryAfter",
    "Snooze",
    "Stop",
    "StopSignal",
    "Worker",
    "WorkerReport",
]
