"""How an attempt ends: what a handler raises, and what is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from bursar.models import Usage

ERROR_BYTES_MAX = 4_096
DELAY_MS_MAX = 3_660 * 86_400_000


class NonRetryableError(Exception):
    """The attempt failed, and another cannot succeed: the job is dead."""

    def __init__(self, message: str = "", *, kind: str = "non_retryable") -> None:
        super().__init__(message)
        self.kind = kind


class RetryAfter(Exception):
    """The attempt failed; the job is retried after `seconds`, such as the retry-after time of an overloaded service."""

    def __init__(self, seconds: float, message: str = "", *, kind: str = "retry_after") -> None:
        super().__init__(message)
        self.seconds = seconds
        self.kind = kind


class Snooze(Exception):
    """The job runs again after `seconds`. The attempt does not count, unless the handler has reported usage."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds} s")
        self.seconds = seconds


Route = Literal["complete", "fail", "snooze", "return"]


@dataclass
class Finish:
    """The end of a lease, as it is reported."""

    job: str
    fence: int
    route: Route
    fields: dict[str, Any] = field(default_factory=lambda: dict[str, Any]())
    size: int = 0
    """The size of the result or the error, in bytes."""

    @property
    def item(self) -> dict[str, Any]:
        return {"id": self.job, "fence": self.fence, **self.fields}


@dataclass(frozen=True)
class End:
    """How an attempt ended."""

    route: Route
    fields: dict[str, Any] = field(default_factory=lambda: dict[str, Any]())
    size: int = 0


def returned() -> End:
    return End("return")


def completed(result: Any, size: int, usage: list[Usage] | None, blobs: list[str]) -> End:
    fields: dict[str, Any] = {"result": result, "usage": usage}
    if blobs:
        fields["blobs"] = blobs
    return End("complete", fields, size)


def failed(
    kind: str,
    message: str,
    usage: list[Usage] | None,
    *,
    retryable: bool = True,
    retry_after: float | None = None,
) -> End:
    fields: dict[str, Any] = {
        "error": {"kind": truncated(kind) or "error", "message": truncated(message)},
        "retryable": retryable,
        "usage": usage,
    }
    if retry_after is not None:
        fields["retry_after_ms"] = milliseconds(retry_after)
    return End("fail", fields, len(message))


def end_of_error(error: BaseException, usage: list[Usage] | None) -> End:
    """Returns the end of an attempt whose handler raised."""
    if isinstance(error, NonRetryableError):
        return failed(error.kind, message_of(error), usage, retryable=False)
    if isinstance(error, RetryAfter):
        return failed(error.kind, message_of(error), usage, retry_after=error.seconds)
    if isinstance(error, Snooze):
        if usage is None:
            return End("snooze", {"delay_ms": milliseconds(error.seconds)})
        # A snooze carries no usage, so an attempt that has spent units is reported as failed.
        text = "the handler snoozed the job after it had reported usage"
        return failed("snoozed", text, usage, retry_after=error.seconds)
    # The kind is the name of the type, so that equal errors have the same fingerprint.
    return failed(type(error).__qualname__, message_of(error), usage)


def message_of(error: BaseException) -> str:
    """Returns the message of an error with those of its causes."""
    messages: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(messages) < 10:
        messages.append(str(cause))
        cause = cause.__cause__
    return ": ".join(message for message in messages if message)


def truncated(text: str) -> str:
    """Truncates a text to the maximum length of a report."""
    # A lone surrogate cannot be sent.
    return text.encode("utf-8", "replace")[:ERROR_BYTES_MAX].decode("utf-8", "ignore")


def milliseconds(seconds: float) -> int:
    return max(0, min(round(seconds * 1000), DELAY_MS_MAX))
