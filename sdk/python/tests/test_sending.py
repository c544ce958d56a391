"""What is retried, and what callers see when a call fails: against a server that fails as the test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import FakeRequest, FakeServer

from bursar import AsyncClient, Client, errors
from bursar._sending import backoff
from bursar.events import Frame, Parser

Make = Callable[[Callable[[FakeRequest], Any]], FakeServer]
ENQUEUED = (201, {"content-type": "application/json"}, b'{"id":"job_1","created":true}')
JOB: Any = {"queue": "q", "kind": "k"}


def problem(word: str, status: int, **fields: object) -> tuple[int, dict[str, str], bytes]:
    body = {"type": f"/problems/{word}", "title": "", "status": status, "detail": f"a {word}", **fields}
    return status, {"content-type": "application/problem+json"}, json.dumps(body).encode()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries follow soon."""
    monkeypatch.setattr("bursar._sending.BACKOFF_MAX", 0.01)


class Script:
    """Answers with one reply after the other; the last one is repeated."""

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)

    def __call__(self, _request: FakeRequest) -> Any:
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


@pytest.mark.usefixtures("impatient")
def test_a_write_is_repeated_with_the_same_key(fake: Make) -> None:
    failures = [
        None,
        problem("overloaded", 503),
        problem("busy", 503),
        problem("unavailable", 503),
        problem("too-many-bytes", 429),
        problem("unknown-outcome", 504),
        (502, {}, b"<html>bad gateway</html>"),
    ]
    server = fake(Script(*failures, ENQUEUED))
    with Client(server.url) as client:
        assert client.jobs.enqueue(**JOB)["id"] == "job_1"
    keys = {request.headers["idempotency-key"] for request in server.requests}
    assert len(server.requests) == len(failures) + 1
    assert len(keys) == 1


@pytest.mark.usefixtures("impatient")
def test_the_asyncio_client_retries_alike(fake: Make) -> None:
    server = fake(Script(None, problem("overloaded", 503), problem("unknown-outcome", 504), ENQUEUED))

    async def scenario() -> None:
        async with AsyncClient(server.url) as client:
            assert (await client.jobs.enqueue(**JOB))["id"] == "job_1"

    asyncio.run(scenario())
    assert len({request.headers["idempotency-key"] for request in server.requests}) == 1
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (problem("refused", 409), errors.Refused),
        (problem("conflict", 409), errors.Conflict),
        (problem("quota-exceeded", 429), errors.QuotaExceeded),
        (problem("internal", 500), errors.Internal),
        (problem("from-a-newer-server", 409), errors.Conflict),
        ((500, {}, b"broken"), errors.Internal),
        ((404, {}, b"<html>not found</html>"), errors.Unreadable),
        ((200, {}, b"not JSON"), errors.Unreadable),
        ((302, {"location": "/elsewhere"}, b""), errors.Unreadable),
    ],
)
def test_other_failures_are_not_repeated(fake: Make, reply: Any, error: type[Exception]) -> None:
    server = fake(Script(reply))
    with Client(server.url) as client, pytest.raises(error):
        client.jobs.enqueue(**JOB)
    assert len(server.requests) == 1


def test_without_a_key_only_safe_failures_are_repeated(fake: Make) -> None:
    """A client that makes one attempt has no key; nor may a write without one be repeated."""
    server = fake(Script(problem("unknown-outcome", 504), ENQUEUED))
    with Client(server.url) as client, pytest.raises(errors.OutcomeUnknown) as caught:
        client.with_options(attempts_max=1).jobs.enqueue(**JOB)
    assert caught.value.key is None
    assert "idempotency-key" not in server.requests[0].headers
    assert len(server.requests) == 1


def test_reports_are_repeated_without_a_key(fake: Make) -> None:
    server = fake(Script(None, (200, {}, b'{"id":"job_1","state":"succeeded","cost":[]}')))
    with Client(server.url) as client:
        client.work.complete("job_1", fence=1)
    assert len(server.requests) == 2
    assert all("idempotency-key" not in request.headers for request in server.requests)


def test_an_unanswered_write_has_an_unknown_outcome(fake: Make) -> None:
    server = fake(Script(None))
    with Client(server.url, timeout=0.5) as client, pytest.raises(errors.OutcomeUnknown) as caught:
        client.jobs.enqueue(**JOB)
    assert caught.value.key == server.requests[0].headers["idempotency-key"]
    with Client(server.url, timeout=0.5) as client, pytest.raises(errors.Unreachable):
        client.jobs.get("job_1")


def test_a_server_that_is_not_there_is_unreachable(fake: Make) -> None:
    server = fake(Script(None))
    server.close()
    with Client(server.url, timeout=0.3) as client, pytest.raises(errors.Unreachable, match="cannot be reached"):
        client.jobs.enqueue(**JOB)


def test_retry_after_is_respected(fake: Make) -> None:
    status, headers, body = problem("overloaded", 503)
    server = fake(Script((status, {**headers, "retry-after": "600"}, body)))
    with Client(server.url) as client, pytest.raises(errors.Overloaded):
        client.jobs.enqueue(**JOB)
    # The server asks for more time than the call has.
    assert len(server.requests) == 1


def test_names_are_escaped(fake: Make) -> None:
    server = fake(Script((200, {}, b"{}")))
    with Client(f"{server.url}/under/", token="secret", tenant="acme") as client:
        client.budgets.spent("show:42/row A?", from_="-7d")
        assert "secret" not in repr(client)
    (request,) = server.requests
    assert request.path == "/under/v1/budgets/show%3A42%2Frow%20A%3F/spent?from=-7d"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.headers["bursar-tenant"] == "acme"


@pytest.mark.parametrize("url", ["", "localhost:1", "ftp://a", "http://", "http://u:p@a", "http://a/?b=c"])
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(errors.InvalidOption):
        Client(url)


def test_a_token_with_a_line_break_is_refused() -> None:
    with pytest.raises(errors.InvalidOption):
        Client("http://a", token="a\nb")


def test_a_body_that_is_no_json_is_refused(fake: Make) -> None:
    server = fake(Script(ENQUEUED))
    with Client(server.url) as client, pytest.raises(errors.InvalidOption):
        client.jobs.enqueue(queue="q", kind="k", payload={1, 2})
    assert server.requests == []


def test_delays_grow_to_a_maximum() -> None:
    for attempts, least, most in [(0, 0.025, 0.05), (3, 0.2, 0.4), (7, 2.5, 5.0), (40, 2.5, 5.0)]:
        assert least <= backoff(attempts) <= most


def test_every_problem_of_the_server_has_a_class() -> None:
    from conftest import ROOT

    text = (ROOT / "docs" / "server.md").read_text()
    table = text[text.index("| `type` ends in |") :].split("\n\n")[0]
    words = [line.split("`")[1] for line in table.splitlines()[2:]]
    assert set(words) <= set(errors.PROBLEMS)
    transient = {word for word, kind in errors.PROBLEMS.items() if kind.transient}
    assert transient == {
        "busy",
        "not-ready",
        "overloaded",
        "storage-unavailable",
        "timeout",
        "too-many-attempts",
        "too-many-bytes",
        "unavailable",
        "unknown-outcome",
    }


def test_events_are_parsed_wherever_the_bytes_are_split() -> None:
    text = b'id: 7\nevent: job.succeeded\ndata: {"a":\ndata: 1}\n\n: \n\nevent: progress\r\ndata: {}\r\n\r\nid: 9\n'
    expected = [Frame("7", "job.succeeded", '{"a":\n1}'), Frame(None, "progress", "{}")]
    for size in range(1, len(text)):
        parser = Parser()
        parts = [text[place : place + size] for place in range(0, len(text), size)]
        assert [frame for part in parts for frame in parser.feed(part)] == expected


def test_an_event_above_the_maximum_size_is_refused() -> None:
    parser = Parser()
    with pytest.raises(errors.Unreadable):
        for _ in range(17):
            parser.feed(b"x" * (1 << 20))


def test_a_refused_subscription_is_raised(fake: Make) -> None:
    server = fake(Script(problem("forbidden", 403)))
    with Client(server.url) as client, pytest.raises(errors.Forbidden):
        next(client.events(["journal"]))
