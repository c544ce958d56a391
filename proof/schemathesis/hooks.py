"""Hooks for schemathesis: reuse ids that the server returned, and shorten long polls."""

import random
import re

import schemathesis

# A lease request waits up to `wait_ms`. Only valid values are shortened, so that validity does not change.
WAIT_MS_MAX = 60_000
WAIT_MS = 20

# Ids that the server returned, by prefix, and the fences of leases.
ID = re.compile(r"\b((?:job|hold|grant|cmd|wkr|key)_[0-7][0-9a-hjkmnp-tv-z]{25})\b")
LEASE = re.compile(r'"id":"(job_[0-9a-z]{26})".*?"fence":([0-9]+)')
KEPT = 50
known_ids = {}
fences = {}
rng = random.Random(7)


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    if case.path == "/v1/jobs/lease":
        wait = body.get("wait_ms")
        if type(wait) is int and WAIT_MS < wait <= WAIT_MS_MAX:
            body["wait_ms"] = WAIT_MS
    # Stateful scenarios bring their own ids. Elsewhere a generated id would always be unknown, so mostly an existing one
    # replaces it.
    if case.meta is not None and case.meta.phase.name.value == "stateful":
        return
    generated = str((case.path_parameters or {}).get("id", ""))
    known = known_ids.get(generated.split("_")[0], [])
    if ID.fullmatch(generated) and known and rng.random() < 0.8:
        leased = [job for job in known if job in fences] if "fence" in body else []
        case.path_parameters["id"] = rng.choice(leased or known)
    fence = fences.get((case.path_parameters or {}).get("id"))
    if fence is not None and type(body.get("fence")) is int and body["fence"] >= 0 and rng.random() < 0.8:
        body["fence"] = fence


@schemathesis.hook
def after_call(context, case, response):
    text = response.content.decode("utf-8", "replace")
    for job, fence in LEASE.findall(text):
        fences[job] = int(fence)
    for found in ID.findall(text):
        known = known_ids.setdefault(found.split("_")[0], [])
        if found not in known:
            known.append(found)
            del known[:-KEPT]
