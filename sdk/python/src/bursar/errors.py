"""Why a call failed: one class for each `type` of problem, and classes for calls without an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from bursar.models import Problem, ViolationAnswer


class BursarError(Exception):
    """The base of all errors of this package."""

    transient: bool = False
    """The same call, with the same idempotency key, may succeed later."""


class InvalidOption(BursarError, ValueError):
    """A setting of the client or the worker is invalid; nothing was sent."""


class Unreachable(BursarError):
    """The server could not be reached. The request was not executed."""

    transient = True


class OutcomeUnknown(BursarError):
    """The request was sent and not answered: it may have been executed. A retry with the same `key` is safe."""

    transient = True

    def __init__(self, message: str, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class Unreadable(BursarError):
    """The answer does not have the expected form; it may come from a proxy or from another version of the server."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ProblemError(BursarError):
    """The server answered with a problem (RFC 9457)."""

    word: ClassVar[str] = ""
    """The last segment of the problem's `type`."""

    def __init__(self, problem: Problem) -> None:
        detail = problem["detail"]
        hint = problem.get("hint")
        super().__init__(f"{detail} ({hint})" if hint else detail)
        self.problem = problem
        self.type = problem["type"]
        self.status = problem["status"]
        self.detail = detail
        self.field = problem.get("field")
        self.state = problem.get("state")
        self.reason = problem.get("reason")
        """Why the signature of the request is refused: a stable word, such as `replayed`."""
        self.hint = hint
        self.request_id = problem.get("request_id")
        self.retry_after_ms = problem.get("retry_after_ms")
        self.violations: list[ViolationAnswer] = problem.get("violations", [])
        """Every limit, freeze and grant that refused the request."""


class TransientProblem(ProblemError):
    """A problem that time resolves: the same request may succeed later."""

    transient = True


class Invalid(ProblemError):
    """The request is wrong; `field` says where."""

    word = "invalid"


class Unauthorized(ProblemError):
    """The request has no valid token."""

    word = "unauthorized"


class SignatureRefused(ProblemError):
    """The signature of the request is missing or refused; `reason` says why."""

    word = "signature-refused"


class Forbidden(ProblemError):
    """The role, or the worker's capabilities, do not allow the request."""

    word = "forbidden"


class NotFound(ProblemError):
    """This tenant has no such object."""

    word = "not-found"


class UnknownScope(ProblemError):
    """The scope has no budget, and the request gives no limit."""

    word = "unknown-scope"


class MethodNotAllowed(ProblemError):
    """The path exists, but not with this method."""

    word = "method-not-allowed"


class RequestTimeout(TransientProblem):
    """The request body took too long to arrive; nothing was changed."""

    word = "timeout"


class Refused(ProblemError):
    """A limit, a freeze, a grant or a hold's policy refuses the request; `violations` has the reasons."""

    word = "refused"


class AlreadySettled(ProblemError):
    """The hold has ended; `state` says how."""

    word = "already-settled"


class LeaseLost(ProblemError):
    """The lease has expired, or another worker has the job."""

    word = "lease-lost"


class Conflict(ProblemError):
    """The current state does not allow it, or the idempotency key was used for a different request."""

    word = "conflict"


class Changed(ProblemError):
    """The object has changed since it was read."""

    word = "changed"


class TooLarge(ProblemError):
    """The request is too large."""

    word = "too-large"


class UnsupportedMediaType(ProblemError):
    """The server does not accept the type of the body."""

    word = "unsupported-media-type"


class RangeNotSatisfiable(ProblemError):
    """The range begins after the last byte of the blob."""

    word = "range-not-satisfiable"


class TooManyAttempts(TransientProblem):
    """Too many invalid tokens from this address."""

    word = "too-many-attempts"


class TooManyBytes(TransientProblem):
    """The principal has too many bytes in flight; nothing was changed."""

    word = "too-many-bytes"


class QuotaExceeded(ProblemError):
    """The caller's quota has too little left; `violations` has the limit."""

    word = "quota-exceeded"


class HeadTooLarge(ProblemError):
    """The headers of the request are too large."""

    word = "head-too-large"


class Internal(ProblemError):
    """The server failed; its log has the reason under `request_id`."""

    word = "internal"


class Overloaded(TransientProblem):
    """Too many requests are waiting; nothing was changed."""

    word = "overloaded"


class Busy(TransientProblem):
    """Other transactions held the locks for too long; nothing was changed."""

    word = "busy"


class Unavailable(TransientProblem):
    """The database cannot be used; nothing was changed."""

    word = "unavailable"


class StorageUnavailable(TransientProblem):
    """The storage for blobs cannot be used; nothing was stored."""

    word = "storage-unavailable"


class NotReady(TransientProblem):
    """The server does not take requests."""

    word = "not-ready"


class UnknownOutcomeProblem(TransientProblem, OutcomeUnknown):
    """The server, or a proxy, does not know whether the request was executed."""

    word = "unknown-outcome"


def _all(base: type[ProblemError]) -> dict[str, type[ProblemError]]:
    found = {base.word: base} if base.word else {}
    for kind in base.__subclasses__():
        found.update(_all(kind))
    return found


PROBLEMS: Mapping[str, type[ProblemError]] = _all(ProblemError)
"""The class of each problem, by the last segment of its `type`."""

_BY_STATUS: dict[int, type[ProblemError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    408: RequestTimeout,
    409: Conflict,
    412: Changed,
    413: TooLarge,
    415: UnsupportedMediaType,
    416: RangeNotSatisfiable,
    429: Overloaded,
    # A proxy gave up on the server, which may have executed the request.
    502: UnknownOutcomeProblem,
    503: Unavailable,
    504: UnknownOutcomeProblem,
}


def error_of(problem: Problem) -> ProblemError:
    """Returns the error of a problem. A type that this version does not know is classified by its status."""
    kind = PROBLEMS.get(str(problem["type"]).rsplit("/", 1)[-1])
    return (kind or _of_status(problem["status"]))(problem)


def error_of_answer(status: int, body: bytes) -> ProblemError | None:
    """Returns the error of an answer. Without a problem document a proxy may have answered: its status determines the
    class, except for a status that any web server gives for a path it does not know, which returns `None`."""
    try:
        parsed: Any = json.loads(body)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        document = cast("dict[str, Any]", parsed)
        if isinstance(document.get("type"), str) and isinstance(document.get("detail"), str):
            document.setdefault("status", status)
            document.setdefault("title", "")
            return error_of(cast("Problem", document))
    kind = _of_status(status)
    if kind in (NotFound, MethodNotAllowed) or 300 <= status < 400:
        return None
    detail = f"the server, or a proxy before it, answered with status {status}"
    return kind({"type": f"/problems/{kind.word}", "title": "", "status": status, "detail": detail})


def _of_status(status: int) -> type[ProblemError]:
    return _BY_STATUS.get(status) or (Invalid if 400 <= status < 500 else Internal)
