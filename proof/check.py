"""What must be true after the faults: the servers' answers compared with the record of the load."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import Any

import throwaway
from load import POOLS, QUEUE, Load

DRAIN_S = 180


class Checks:
    """The checks that held, and what contradicts the others."""

    def __init__(self) -> None:
        self.results: list[tuple[str, list[str]]] = []

    def add(self, claim: str, contradictions: list[str]) -> None:
        self.results.append((claim, contradictions))

    @property
    def broken(self) -> bool:
        return any(contradictions for _, contradictions in self.results)


def items(load: Load, path: str) -> list[Any]:
    """Returns all pages of a list."""
    found, cursor = [], None
    while True:
        more = "" if cursor is None else f"&cursor={cursor}"
        page = load.setup("GET", f"{path}{'&' if '?' in path else '?'}limit=1000{more}")
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found


def drain(load: Load) -> None:
    """Waits until no job is left, so that the books can be compared."""
    until = time.monotonic() + DRAIN_S
    waiting = ("queued", "leased", "scheduled", "awaiting_budget")
    while any(load.setup("GET", f"/v1/jobs?queue={QUEUE}&state={state}&limit=1")["items"] for state in waiting):
        if time.monotonic() > until:
            raise RuntimeError(f"the workers did not finish the jobs within {DRAIN_S} s")
        time.sleep(0.2)


def check(load: Load, servers: list[throwaway.Server]) -> Checks:
    """Compares the record of the load, whose threads have ended, with what the servers have."""
    checks = Checks()
    record = load.record
    checks.add("every answer was done, `unavailable`, `unknown-outcome`, `busy` or `overloaded`, in time", record.broken)
    jobs = items(load, f"/v1/jobs?queue={QUEUE}")
    events = items(load, "/v1/journal")
    check_commands(checks, load, events)
    check_jobs(checks, load, jobs, events)
    check_books(checks, load, jobs)
    check_races(checks, load)
    for number, server in enumerate(servers, 1):
        report = server.ask("GET", "/v1/verify")
        checks.add(f"`verify` finds nothing on server {number}", report["violations"])
        checks.add(f"server {number} is ready", [] if ready(server) else ["/readyz does not answer 200"])
    return checks


def ready(server: throwaway.Server) -> bool:
    try:
        server.ask("GET", "/readyz")
    except RuntimeError:
        return False
    return True


def check_commands(checks: Checks, load: Load, events: list[Any]) -> None:
    executed: dict[str, set[str]] = defaultdict(set)
    for event in events:
        # Other requests have a correlation id that the server chose.
        if (event["correlation_id"] or "").startswith("caller-"):
            executed[event["correlation_id"]].add(event["command"])
    known = load.record.commands
    lost = [key for key, command in known.items() if command not in executed[key]]
    checks.add(f"all {len(known)} acknowledged commands are in the journal", lost)
    checks.add("no command was executed twice", [key for key, commands in executed.items() if len(commands) > 1])
    checks.add("no command was executed that was not acknowledged", [key for key in executed if key not in known])


def check_jobs(checks: Checks, load: Load, jobs: list[Any], events: list[Any]) -> None:
    record = load.record
    found = Counter(job["id"] for job in jobs)
    checks.add(f"all {len(record.jobs)} acknowledged jobs exist", [job for job in record.jobs if job not in found])
    checks.add("every job exists once and was acknowledged", [
        job for job, times in found.items() if times != 1 or job not in record.jobs
    ])
    ends = Counter(event["stream"]["id"] for event in events if event["kind"] == "job.succeeded")
    completed = {job for (job, _), report in record.reports.items() if report.completed}
    checks.add(f"all {len(completed)} jobs that were acknowledged as completed have succeeded once", [
        job for job in completed if ends[job] != 1
    ])
    checks.add("every job has succeeded once", [
        f"{job['id']} is {job['state']}, succeeded {ends[job['id']]} times"
        for job in jobs if job["state"] != "succeeded" or ends[job["id"]] != 1
    ])


def check_books(checks: Checks, load: Load, jobs: list[Any]) -> None:
    record = load.record
    cost: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for (job, _), report in record.reports.items():
        cost[job] += report.amount
        spent[report.scope] += report.amount
    for scope, amount in record.committed.values():
        spent[scope] += amount
    charged = {job["id"]: sum(part["amount"] for part in job["cost"]) for job in jobs}
    checks.add(f"the cost of every job is that of its {len(record.reports)} reports, each charged once", [
        f"{job}: {charged.get(job)} charged, {amount} reported" for job, amount in cost.items() if charged.get(job) != amount
    ])
    wrong = []
    for pool in POOLS:
        balance = load.setup("GET", f"/v1/budgets/{pool}")["balances"][0]
        if (balance["posted"], balance["held"]) != (spent[pool], 0):
            wrong.append(f"{pool}: {balance['posted']} posted and {balance['held']} held, {spent[pool]} acknowledged")
    checks.add("posted on every scope is what was acknowledged, and nothing is held", wrong)


def check_races(checks: Checks, load: Load) -> None:
    wrong, false = [], []
    for race in load.record.races:
        posted = load.setup("GET", f"/v1/budgets/{race.scope}")["balances"][0]["posted"]
        if not posted == len(race.admitted) == race.limit:
            wrong.append(f"{race.scope}: limit {race.limit}, {len(race.admitted)} admitted, {posted} posted")
        # Nothing makes room again, so a request that was sent after a refusal cannot be admitted.
        refused = min(race.refused_at, default=float("inf"))
        false += [race.scope for sent, _ in race.admitted if sent > refused]
    checks.add(f"all {len(load.record.races)} small limits are filled exactly", wrong)
    checks.add("nothing was refused while there was room", false)
