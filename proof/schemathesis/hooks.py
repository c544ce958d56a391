"""What a run of schemathesis is told of Bursar, so that it reaches what is behind the ids, and ends in time."""

import random
import re

import schemathesis

# A worker that finds nothing waits as long as it asks to. What is asked stays right or wrong: only what is right is shortened.
WAIT_MS_RIGHT = 60_000
WAIT_MS = 20

# Ids that the server has told, by what they begin with, and the fences of leases.
ID = re.compile(r"\b((?:job|hold|grant|cmd|wkr|key)_[0-7][0-9a-hjkmnp-tv-z]{25})\b")
LEASE = re.compile(r'"id":"(job_[0-9a-z]{26})".*?"fence":([0-9]+)')
KEPT = 50
told = {}
fences = {}
dice = random.Random(7)


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body if isinstance(case.body, dict) else {}
    if case.path == "/v1/jobs/lease":
        wait = body.get("wait_ms")
        if type(wait) is int and WAIT_MS < wait <= WAIT_MS_RIGHT:
            body["wait_ms"] = WAIT_MS
    # Scenarios have ids of their own. Elsewhere an id that is right but made up would only ever be unknown: most of the time one
    # that there is stands instead.
    if case.meta is not None and case.meta.phase.name.value == "stateful":
        return
    asked = str((case.path_parameters or {}).get("id", ""))
    known = told.get(asked.split("_")[0], [])
    if ID.fullmatch(asked) and known and dice.random() < 0.8:
        leased = [job for job in known if job in fences] if "fence" in body else []
        case.path_parameters["id"] = dice.choice(leased or known)
    fence = fences.get((case.path_parameters or {}).get("id"))
    if fence is not None and type(body.get("fence")) is int and body["fence"] >= 0 and dice.random() < 0.8:
        body["fence"] = fence


@schemathesis.hook
def after_call(context, case, response):
    text = response.content.decode("utf-8", "replace")
    for job, fence in LEASE.findall(text):
        fences[job] = int(fence)
    for found in ID.findall(text):
        known = told.setdefault(found.split("_")[0], [])
        if found not in known:
            known.append(found)
            del known[:-KEPT]
