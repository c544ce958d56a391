"""A load of commands, holds, jobs and workers on several Bursar servers, and the record of what the servers have acknowledged.

A caller that gets no acknowledgement repeats its request with the same idempotency key at the next server, as docs/server.md says.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import throwaway

POOLS = [f"pool-{number}" for number in range(4)]
"""Scopes with room for everything: no charge on them may be refused."""
QUEUE = "proof"
ESTIMATE = 10
"""The units that a hold sets aside."""
CALLERS, WORKERS = 8, 4
PAUSE_S = 0.1
AGAIN_S = 0.25
"""The wait before a request is repeated."""
LEASE_MS = 30_000
ANSWER_S = 120
"""The longest wait for any answer. A server that takes longer hangs."""

TRANSIENT = {"unavailable": 503, "unknown-outcome": 504, "busy": 503, "overloaded": 503}
"""What a server may answer while the database changes its primary."""


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def problem(self) -> str | None:
        """The type of the problem; `None` if the request was done."""
        if 200 <= self.status < 300:
            return None
        kind = self.body.get("type", "") if isinstance(self.body, dict) else ""
        return str(kind).rsplit("/", 1)[-1] or f"status {self.status}"


@dataclass
class Race:
    """A scope with a small limit that all callers charge until it refuses them: it must be filled exactly."""

    scope: str
    limit: int
    admitted: list[tuple[float, float]] = field(default_factory=list)
    """When each admitted request was sent first, and when it was acknowledged."""
    refused_at: list[float] = field(default_factory=list)


@dataclass
class Report:
    """What a worker reported at the end of a lease."""

    scope: str
    amount: int
    completed: bool


class Record:
    """What was acknowledged, and what was answered instead. Every method may be called from any thread."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.commands: dict[str, str] = {}
        """Idempotency key → id of the command."""
        self.jobs: dict[str, str] = {}
        """Job → the scope that pays for it."""
        self.reports: dict[tuple[str, int], Report] = {}
        """Job and fence → the report."""
        self.committed: dict[str, tuple[str, int]] = {}
        """Hold → its scope and what it cost."""
        self.races: list[Race] = []
        self.acknowledged: list[tuple[float, float, int]] = []
        """When each write was sent and acknowledged, and by which server."""
        self.problems: Counter[str] = Counter()
        """How often each problem was answered since `begin_round`."""
        self.problems_all: Counter[str] = Counter()
        self.broken: list[str] = []
        self.slowest_s = 0.0

    def breaks(self, what: str) -> None:
        with self.lock:
            self.broken.append(what)

    def begin_round(self) -> None:
        with self.lock:
            self.problems.clear()

    def problem(self, kind: str) -> None:
        with self.lock:
            self.problems[kind] += 1
            self.problems_all[kind] += 1

    def wrote(self, sent: float, server: int) -> None:
        with self.lock:
            self.acknowledged.append((sent, time.monotonic(), server))

    def acknowledgements(self, since: float) -> list[tuple[float, float, int]]:
        with self.lock:
            return [it for it in self.acknowledged if it[1] >= since]


class Rotation:
    """The servers, and which of them get no requests for now, as a load balancer knows them."""

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.resting: set[int] = set()

    def pick(self, number: int) -> int:
        """Returns the server of a number, or the next one that does not rest."""
        candidates = [(number + step) % len(self.urls) for step in range(len(self.urls))]
        return next((server for server in candidates if server not in self.resting), candidates[0])


class Client:
    """The connections of one thread to all servers."""

    def __init__(self, rotation: Rotation, record: Record, token: str = throwaway.TOKEN) -> None:
        self.record = record
        self.token = token
        self._rotation = rotation
        self._hosts = [urlsplit(url).netloc for url in rotation.urls]
        self._connections: dict[int, http.client.HTTPConnection] = {}

    def ask(self, server: int, method: str, path: str, body: Any = None, key: str | None = None) -> Answer:
        """Sends a request and returns the answer. Raises `OSError` or `HTTPException` if there is none."""
        kept = server in self._connections
        began = time.monotonic()
        try:
            return self._ask(server, method, path, body, key)
        except (ConnectionError, http.client.HTTPException):
            # The server closes connections that were idle for long.
            if not kept:
                raise
            return self._ask(server, method, path, body, key)
        finally:
            with self.record.lock:
                self.record.slowest_s = max(self.record.slowest_s, time.monotonic() - began)

    def _ask(self, server: int, method: str, path: str, body: Any, key: str | None) -> Answer:
        connection = self._connections.pop(server, None)
        if connection is None:
            connection = http.client.HTTPConnection(self._hosts[server], timeout=ANSWER_S)
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        if key is not None:
            head["Idempotency-Key"] = key
        try:
            connection.request(method, path, None if body is None else json.dumps(body), head)
            response = connection.getresponse()
            text = response.read()
            told = json.loads(text) if text else None
        except BaseException:
            connection.close()
            raise
        self._connections[server] = connection
        return Answer(response.status, told)

    def until_answered(self, server: int, path: str, body: Any, key: str | None = None) -> Answer:
        """Repeats a write at one server after the other until it is done or refused."""
        while True:
            sent = time.monotonic()
            try:
                answer = self.ask(server, "POST", path, body, key)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.record.breaks(f"POST {path}: no answer: {error!r}")
                answer = Answer(0, None)
            if answer.problem is None:
                self.record.wrote(sent, server)
                return answer
            if answer.status:
                self.record.problem(answer.problem)
                if TRANSIENT.get(answer.problem) != answer.status:
                    return answer
            time.sleep(AGAIN_S)
            server = self._rotation.pick(server + 1)


class Load:
    """The threads of callers and workers."""

    def __init__(self, urls: list[str]) -> None:
        self.rotation = Rotation(urls)
        self.record = Record()
        self.race: Race | None = None
        self._ending = threading.Event()
        self._drained = threading.Event()
        self._operator = Client(self.rotation, self.record)
        # Keys and tokens of workers are looked up in the database at each request, the operator's token is not.
        self._key = str(self.setup("POST", "/v1/keys", {"name": "callers", "role": "admin"})["token"])
        body = {"name": "load", "capabilities": {"queues": [QUEUE], "kinds": ["*"]}}
        self._worker_token = str(self.setup("POST", "/v1/workers", body)["token"])
        for pool in POOLS:
            self.setup("PUT", f"/v1/budgets/{pool}", {"limits": [{"amount": 10**12, "window": "lifetime"}]})
        self._callers = [threading.Thread(target=self._call, args=(n,), daemon=True) for n in range(CALLERS)]
        self._workers = [threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(WORKERS)]

    def setup(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._operator.ask(self.rotation.pick(0), method, path, body)
        if answer.problem is not None:
            raise RuntimeError(f"{method} {path}: {answer.status} {answer.body}")
        return answer.body

    def start(self) -> None:
        for thread in self._callers + self._workers:
            thread.start()

    def begin_race(self, limit: int) -> None:
        race = Race(f"race-{len(self.record.races) + 1}", limit)
        self.setup("PUT", f"/v1/budgets/{race.scope}", {"limits": [{"amount": limit, "window": "lifetime"}]})
        self.record.races.append(race)
        self.race = race

    def end_calls(self) -> None:
        """Ends the callers after their requests in flight."""
        self._ending.set()
        for thread in self._callers:
            thread.join()

    def end_workers(self) -> None:
        self._ending.set()
        self._drained.set()
        for thread in self._workers:
            thread.join()

    def _call(self, caller: int) -> None:
        client = Client(self.rotation, self.record, self._key)
        number = 0
        while not self._ending.is_set():
            number += 1
            key = f"caller-{caller}-{number}"
            server = self.rotation.pick(number)
            pool = POOLS[(caller + number) % len(POOLS)]
            try:
                if number % 4 == 0:
                    self._settle(client, server, pool, key)
                elif number % 4 == 2 and self.race is not None:
                    self._charge(client, server, self.race, key)
                else:
                    self._enqueue(client, server, pool, key)
            except Exception as error:
                self.record.breaks(f"{key}: {error!r}")
            time.sleep(PAUSE_S)

    def _submit(self, client: Client, server: int, key: str, body: Any) -> Answer:
        body = body | {"context": {"correlation_id": key}}
        return client.until_answered(server, "/v1/commands", body, key)

    def _enqueue(self, client: Client, server: int, pool: str, key: str) -> None:
        """A hold and the job that it pays for."""
        charges = [{"scope": pool, "amount": ESTIMATE}]
        jobs = [{"queue": QUEUE, "kind": "work", "payload": {"scope": pool, "key": key}}]
        answer = self._submit(client, server, key, {"charges": charges, "settle": "job", "jobs": jobs})
        if answer.problem is not None:
            return self.record.breaks(f"{key}: {answer.status} {answer.body}")
        with self.record.lock:
            self.record.commands[key] = answer.body["id"]
            self.record.jobs[answer.body["jobs"][0]["id"]] = pool

    def _settle(self, client: Client, server: int, pool: str, key: str) -> None:
        """A hold that the caller commits with another amount."""
        body = {"charges": [{"scope": pool, "amount": ESTIMATE}], "settle": "hold", "ttl_ms": 600_000}
        answer = self._submit(client, server, key, body)
        if answer.problem is not None:
            return self.record.breaks(f"{key}: {answer.status} {answer.body}")
        hold, actual = answer.body["hold"]["id"], 1 + sum(key.encode()) % ESTIMATE
        done = client.until_answered(self.rotation.pick(server), f"/v1/holds/{hold}/commit", {"actual": actual}, f"{key}-commit")
        if done.problem is not None:
            return self.record.breaks(f"{key}: commit: {done.status} {done.body}")
        with self.record.lock:
            self.record.commands[key] = answer.body["id"]
            self.record.committed[hold] = (pool, actual)

    def _charge(self, client: Client, server: int, race: Race, key: str) -> None:
        """One unit of a small limit."""
        sent = time.monotonic()
        answer = self._submit(client, server, key, {"charges": [{"scope": race.scope, "amount": 1}]})
        with self.record.lock:
            if answer.problem is None:
                race.admitted.append((sent, time.monotonic()))
                self.record.commands[key] = answer.body["id"]
                return
        if answer.problem != "refused":
            return self.record.breaks(f"{key}: {answer.status} {answer.body}")
        with self.record.lock:
            race.refused_at.append(time.monotonic())
        if self.race is race:
            self.race = None

    def _work(self, worker: int) -> None:
        client = Client(self.rotation, self.record, self._worker_token)
        server = worker
        while not self._drained.is_set():
            server = self.rotation.pick(server + 1)
            try:
                asked = {"queues": [QUEUE], "capacity": 5, "wait_ms": 1_000, "lease_ms": LEASE_MS}
                answer = client.ask(server, "POST", "/v1/jobs/lease", asked)
                if answer.problem is not None:
                    self.record.problem(answer.problem)
                    if TRANSIENT.get(answer.problem) != answer.status:
                        self.record.breaks(f"lease: {answer.status} {answer.body}")
                    time.sleep(AGAIN_S)
                    continue
                for job in answer.body["jobs"]:
                    self._report(client, server, job)
            except Exception as error:
                self.record.breaks(f"worker {worker}: {error!r}")

    def _report(self, client: Client, server: int, job: Any) -> None:
        """Completes a job with what it cost. A worker that has lost its lease reports its cost too: it is charged."""
        fence, scope = job["lease"]["fence"], job["payload"]["scope"]
        amount = 1 + (sum(job["id"].encode()) + fence) % ESTIMATE
        body = {"fence": fence, "result": {"key": job["payload"]["key"]}, "usage": [{"amount": amount}]}
        answer = client.until_answered(self.rotation.pick(server), f"/v1/jobs/{job['id']}/complete", body)
        if answer.problem not in (None, "lease-lost"):
            return self.record.breaks(f"{job['id']}: complete: {answer.status} {answer.body}")
        with self.record.lock:
            if (job["id"], fence) in self.record.reports:
                self.record.broken.append(f"{job['id']}: fence {fence} was leased twice")
            self.record.reports[job["id"], fence] = Report(scope, amount, answer.problem is None)
