"""The worker against a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import WAIT, Server, until
from pydantic import BaseModel, TypeAdapter

from bursar import (
    AsyncJobContext,
    Client,
    JobContext,
    NonRetryableError,
    RetryAfter,
    Snooze,
    Stop,
    Worker,
    WorkerReport,
    errors,
)
from bursar.models import JobAnswer
from bursar.worker.leases import Leases


class Run:
    """A worker that runs in a thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.report: WorkerReport | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.report = self.worker.run()
        except BaseException as error:
            self.error = error

    def stop(self) -> WorkerReport:
        self.worker.stop()
        return self.join()

    def join(self) -> WorkerReport:
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), "the worker did not stop"
        if self.error is not None:
            raise self.error
        assert self.report is not None
        return self.report


@contextmanager
def running(worker: Worker) -> Iterator[Run]:
    run = Run(worker)
    try:
        yield run
    finally:
        if run.error is None:
            run.stop()


def worker_of(server: Server, queue: str, **options: Any) -> Worker:
    return Worker(server.url, token=server.token, queues=[queue], **options)


def enqueue(client: Client, queue: str, kind: str, payload: Any = None, **fields: Any) -> str:
    return client.jobs.enqueue(queue=queue, kind=kind, payload=payload, **fields)["id"]


def enqueue_many(client: Client, queue: str, count: int) -> list[str]:
    answer = client.jobs.enqueue_many(jobs=[{"queue": queue, "kind": "echo", "payload": n} for n in range(count)])
    return [job["id"] for job in answer["jobs"]]


def ended(client: Client, job: str) -> JobAnswer:
    states = ("succeeded", "dead", "cancelled")

    def find() -> JobAnswer | None:
        answer = client.jobs.get(job)
        return answer if answer["state"] in states else None

    found = until(find, f"the end of {job}")
    assert found is not None
    return found


def error_of(job: JobAnswer) -> tuple[str, str]:
    error = job.get("error")
    assert error is not None, job
    return error["kind"], error["message"]


class Cut(BaseModel):
    seconds: int


@dataclass
class Made:
    file: str


def test_handlers_of_both_kinds_run_jobs(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)

    @worker.job("blocking")
    def blocking(payload: Cut, ctx: JobContext) -> Made:
        return Made(f"{payload.seconds} {ctx.attempt}")

    @worker.job("loop.*")
    async def loop(payload: dict[str, int], ctx: AsyncJobContext) -> Cut:
        assert (await ctx.client.server.whoami())["role"] == "operator"
        return Cut(seconds=payload["seconds"])

    @worker.job("plain")
    def plain() -> str:
        return "no arguments"

    jobs = [
        enqueue(client, name, "blocking", {"seconds": 7}),
        enqueue(client, name, "loop.a", {"seconds": 8}),
        enqueue(client, name, "plain"),
    ]
    with running(worker) as run:
        results = [ended(client, job).get("result") for job in jobs]
    assert results == [{"file": "7 1"}, {"seconds": 8}, "no arguments"]
    assert run.report is not None
    assert run.report.completed == 3


def test_how_attempts_end(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)

    @worker.job("typed", payload=TypeAdapter(list[int]))
    def typed(payload: list[int]) -> int:
        return sum(payload)

    @worker.job("fatal")
    def fatal() -> None:
        raise NonRetryableError("no use", kind="fatal")

    @worker.job("poison")
    async def poison() -> None:
        raise ValueError("poison") from KeyError("cause")

    @worker.job("unwritable")
    def unwritable() -> object:
        return object()

    @worker.job("huge")
    def huge() -> str:
        return "x" * (1 << 20)

    @worker.job("after")
    def after(_payload: Any, ctx: JobContext) -> int:
        if ctx.attempt == 1:
            raise RetryAfter(0.001)
        return ctx.attempt

    seen: set[str] = set()

    @worker.job("snooze")
    async def snooze(_payload: Any, ctx: AsyncJobContext) -> int:
        if ctx.id not in seen:
            seen.add(ctx.id)
            raise Snooze(0.001)
        return ctx.attempt

    retry: Any = {"backoff": "fixed", "delay_ms": 1, "max_attempts": 2}
    wrong = enqueue(client, name, "typed", ["1"])
    right = enqueue(client, name, "typed", [1, 2])
    jobs = {kind: enqueue(client, name, kind, retry=retry) for kind in ("fatal", "poison", "unwritable", "huge")}
    later = [enqueue(client, name, kind) for kind in ("after", "snooze")]
    with running(worker):
        assert error_of(ended(client, wrong))[0] == "payload"
        assert ended(client, wrong)["attempts"] == 1
        assert ended(client, right).get("result") == 3
        assert error_of(ended(client, jobs["fatal"])) == ("fatal", "no use")
        assert error_of(ended(client, jobs["poison"])) == ("ValueError", "poison: 'cause'")
        assert ended(client, jobs["poison"])["attempts"] == 2
        assert error_of(ended(client, jobs["unwritable"]))[0] == "result"
        assert error_of(ended(client, jobs["huge"]))[0] == "result"
        assert [ended(client, job).get("result") for job in later] == [2, 1]


def test_usage_settles_the_hold(server: Server, client: Client, name: str) -> None:
    client.budgets.define(name, limits=[{"amount": 1000, "window": "lifetime"}])
    worker = worker_of(server, name)

    @worker.job("spend")
    def spend(payload: list[int], ctx: JobContext) -> None:
        for amount in payload:
            ctx.usage(amount)
        with pytest.raises(ValueError, match="negative"):
            ctx.usage(-1)
        with pytest.raises(TypeError):
            ctx.usage(1.5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    for payload in ([3, 4], []):
        answer = client.commands.submit(
            charges=[{"scope": name, "amount": 100}],
            settle="job",
            jobs=[{"queue": name, "kind": "spend", "payload": payload}],
        )
        job = answer["jobs"][0]["id"]
        with running(worker_again(worker, server, name)):
            ended(client, job)
    # Without usage the held units are spent.
    balance = client.budgets.get(name)["balances"][0]
    assert (balance["posted"], balance["held"]) == (107, 0)


def worker_again(worker: Worker, server: Server, name: str) -> Worker:
    """A worker runs once; this returns another with the same handlers."""
    again = worker_of(server, name)
    again._handlers = worker._handlers  # pyright: ignore[reportPrivateUsage]
    return again


def test_progress_arrives_before_the_end(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)

    @worker.job("steps")
    async def steps(_payload: Any, ctx: AsyncJobContext) -> None:
        for step in range(3):
            ctx.progress(step * 50, f"step {step}", {"step": step})
        with pytest.raises(ValueError, match="from 0 to 100"):
            ctx.progress(101)

    job = enqueue(client, name, "steps", delay_ms=1)
    seen: list[Any] = []
    with client.events([f"job:{job}"], after=0) as events, running(worker):
        for message in events:
            seen.append(message)
            if getattr(message, "kind", "") == "job.succeeded":
                break
    assert [message.percent for message in seen if hasattr(message, "percent")] == [0, 50, 100]


def test_the_next_attempt_gets_the_checkpoint(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)
    seen: list[Any] = []

    @worker.job("rows")
    def rows(_payload: Any, ctx: JobContext) -> None:
        seen.append(ctx.checkpoint)
        with pytest.raises(ValueError, match="store larger data as a blob"):
            ctx.progress(checkpoint="x" * 20_000)
        if ctx.attempt == 3:
            return
        reached: Any = {"row": ["ü", 7]} if ctx.attempt == 1 else None
        ctx.progress(40, checkpoint=reached)
        if reached:
            reached["row"] = "changed after the report"
        ctx.progress(50, "a report without a checkpoint")
        raise RetryAfter(0.001)

    job = enqueue(client, name, "rows")
    with running(worker):
        done = ended(client, job)
    assert (done["state"], seen) == ("succeeded", [None, {"row": ["ü", 7]}, None])
    report = done.get("progress")
    assert report is not None
    assert (report.get("percent"), report.get("message")) == (50, "a report without a checkpoint")


def test_a_handler_emits_events_of_the_application(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name)

    @worker.job("render")
    def render(_payload: Any, ctx: JobContext) -> None:
        ctx.emit("preview.ready", {"frame": 7})

    @worker.job("render.async")
    async def render_async(_payload: Any, ctx: AsyncJobContext) -> None:
        await ctx.emit("preview.ready")

    with running(worker):
        for kind, data in [("render", {"frame": 7}), ("render.async", None)]:
            job = enqueue(client, name, kind)
            assert ended(client, job)["state"] == "succeeded"
            emitted = [event for event in client.jobs.events(job)["items"] if event["kind"] == "job.emitted"]
            expected = {"job": job, "fence": 1, "event": "preview.ready", "data": data}
            assert [event["data"] for event in emitted] == [expected]


def test_heartbeats_go_on_while_a_handler_blocks_the_event_loop(server: Server, client: Client, name: str) -> None:
    worker = worker_of(server, name, lease=1.0)

    @worker.job("block")
    async def block(_payload: Any, ctx: AsyncJobContext) -> int:
        time.sleep(4)
        return ctx.attempt

    job = enqueue(client, name, "block")
    with running(worker) as run:
        assert ended(client, job).get("result") == 1
    assert run.report is not None
    assert (run.report.completed, run.report.lost) == (1, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_cancelled_job_tells_its_handler(server: Server, client: Client, name: str, is_async: bool) -> None:
    worker = worker_of(server, name, lease=1.0)
    reasons: list[Stop | None] = []

    if is_async:

        @worker.job("wait")
        async def wait_async(_payload: Any, ctx: AsyncJobContext) -> None:
            reasons.append(await ctx.signal.wait_async())
            raise RuntimeError("stopped")
    else:

        @worker.job("wait")
        def wait(_payload: Any, ctx: JobContext) -> None:
            ctx.signal.wait(WAIT)
            assert ctx.cancelled
            reasons.append(ctx.signal.reason)
            raise RuntimeError("stopped")

    job = enqueue(client, name, "wait")
    with running(worker):
        until(lambda: client.jobs.get(job)["state"] == "leased", "the start")
        client.jobs.cancel(job)
        assert ended(client, job)["state"] == "cancelled"
    assert reasons == [Stop.cancelled]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_ignores_the_stop_is_given_up(server: Server, client: Client, name: str, is_async: bool) -> None:
    worker = worker_of(server, name, lease=1.0, grace=0.1)
    release = threading.Event()

    if is_async:

        @worker.job("stubborn")
        async def stubborn_async() -> None:
            await asyncio.sleep(2 * WAIT)
    else:

        @worker.job("stubborn")
        def stubborn() -> None:
            release.wait(2 * WAIT)

    job = enqueue(client, name, "stubborn")
    with running(worker) as run:
        until(lambda: client.jobs.get(job)["state"] == "leased", "the start")
        report = run.stop()
    release.set()
    # The job is back in its queue, and the attempt does not count.
    assert report.returned == 1
    assert client.jobs.get(job)["state"] == "queued"
    assert client.jobs.get(job)["attempts"] == 0


def test_a_lost_lease_tells_its_handler_and_charges_its_usage(
    server: Server, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.budgets.define(name, limits=[{"amount": 1000, "window": "lifetime"}])
    worker = worker_of(server, name, lease=1.0)
    reasons: list[Stop | None] = []
    fences: list[int] = []

    async def drop(_leases: Leases, _beats: object) -> None:
        """Heartbeats do not reach the server."""

    monkeypatch.setattr(Leases, "_send", drop)

    @worker.job("wait")
    def wait(_payload: Any, ctx: JobContext) -> None:
        fences.append(ctx.fence)
        if ctx.fence == fences[0]:
            ctx.usage(5)
            ctx.signal.wait(WAIT)
            reasons.append(ctx.signal.reason)

    answer = client.commands.submit(
        charges=[{"scope": name, "amount": 100}], settle="job", jobs=[{"queue": name, "kind": "wait"}]
    )
    with running(worker):
        ended(client, answer["jobs"][0]["id"])
        until(lambda: client.budgets.get(name)["balances"][0]["posted"] == 105, "the charge of both attempts")
    assert reasons == [Stop.lost]
    assert len(fences) == 2


def test_a_worker_survives_a_server_that_is_killed(own_server: Server, name: str) -> None:
    client = own_server.client()
    worker = worker_of(own_server, name)
    gate = threading.Event()

    @worker.job("gated")
    def gated(_payload: Any, ctx: JobContext) -> int:
        gate.wait(WAIT)
        return ctx.attempt

    job = enqueue(client, name, "gated")
    with running(worker):
        until(lambda: client.jobs.get(job)["state"] == "leased", "the start")
        own_server.kill()
        gate.set()
        own_server.start()
        assert ended(client, job).get("result") == 1
        assert ended(client, enqueue(client, name, "gated")).get("result") == 1


def test_a_denied_token_ends_the_worker(server: Server, client: Client, name: str) -> None:
    capabilities: Any = {"queues": [name], "kinds": ["*"]}
    issued = client.workers.create(name=name, capabilities=capabilities)
    worker = Worker(server.url, token=issued["token"], queues=[name], wait=0.2)

    @worker.job("echo")
    def echo(payload: Any) -> Any:
        return payload

    job = enqueue(client, name, "echo", [1])
    run = Run(worker)
    assert ended(client, job).get("result") == [1]
    client.workers.revoke(issued["id"])
    with pytest.raises(errors.Unauthorized):
        run.join()


def test_unstarted_jobs_are_handed_back(server: Server, client: Client, name: str, tmp_path: Path) -> None:
    """SIGTERM drains: the running job ends, the leased but unstarted ones go back and use up no attempt."""
    program = Path(__file__).with_name("scenario_worker.py")
    log = tmp_path / "log"
    environment = {
        **os.environ,
        "BURSAR_SERVER": server.url,
        "BURSAR_TOKEN": server.token,
        "WORKER_NAME": name,
        "WORKER_QUEUE": name,
        "WORKER_CONCURRENCY": "1",
        "WORKER_FOLDER": str(tmp_path),
        "WORKER_LOG": str(log),
    }
    # Short jobs first, so that the worker leases ahead.
    short = enqueue_many(client, name, 300)
    blocked = enqueue(client, name, "block", {"ms": 3000})
    after = enqueue_many(client, name, 100)
    process = subprocess.Popen([sys.executable, str(program)], env=environment)
    try:
        until(lambda: log.exists() and blocked in log.read_text(), "the start of the blocking job")
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.wait()
    assert client.jobs.get(blocked)["state"] == "succeeded"
    jobs = {job["id"]: job for job in client.jobs.iterate(queue=name, limit=1000)}
    assert {jobs[job]["state"] for job in short} == {"succeeded"}
    assert {(jobs[job]["state"], jobs[job]["attempts"]) for job in after} == {("queued", 0)}


def test_run_async_drains_when_it_is_cancelled(server: Server, client: Client, name: str) -> None:
    job = enqueue(client, name, "wait")

    async def scenario() -> None:
        worker = worker_of(server, name)

        @worker.job("wait")
        async def wait(_payload: Any, ctx: AsyncJobContext) -> str:
            return (await ctx.signal.wait_async()).name

        task = asyncio.create_task(worker.run_async())
        while (await asyncio.to_thread(client.jobs.get, job))["state"] != "leased":
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert client.jobs.get(job).get("result") == "draining"


def test_wrong_settings_are_refused(server: Server) -> None:
    with pytest.raises(errors.InvalidOption, match="queues"):
        Worker(server.url, queues=[])
    with pytest.raises(errors.InvalidOption, match="concurrency"):
        Worker(server.url, queues=["a"], concurrency=0)
    worker = Worker(server.url, queues=["a"])
    with pytest.raises(errors.InvalidOption, match="no handler"):
        worker.run()

    def three(_a: Any, _b: Any, _c: Any) -> None: ...

    with pytest.raises(TypeError, match="payload and the context"):
        worker.job("three")(three)
    one: Callable[[Any], None] = lambda _payload: None  # noqa: E731
    worker.job("one")(one)
    with pytest.raises(ValueError, match="already"):
        worker.job("one")(one)
