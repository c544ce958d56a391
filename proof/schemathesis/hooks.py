"""Hooks for schemathesis: reuse ids that the server returned, shorten long polls, and cut streams of events."""

import random
import re
from urllib.parse import urlsplit

import requests
import schemathesis
import urllib3

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


@schemathesis.serializer("application/offset+octet-stream")
def part_of_an_upload(context, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode()}


# A stream of events does not end. What arrives until it is silent is taken for the whole answer.
EVENTS_SILENCE_S = 0.2
EVENTS_BYTES_MAX = 65_536
send_whole = requests.Session.send


def send(session, request, **options):
    if urlsplit(request.url).path != "/v1/events":
        return send_whole(session, request, **options)
    options |= {"stream": True, "timeout": (20, 20)}
    response = send_whole(session, request, **options)
    if response.status_code == 200:
        response._content = first_part(response)
        response._content_consumed = True
    return response


def first_part(response):
    response.raw.connection.sock.settimeout(EVENTS_SILENCE_S)
    read = b""
    try:
        while len(read) < EVENTS_BYTES_MAX and (chunk := response.raw.read1(EVENTS_BYTES_MAX)):
            read += chunk
    except (TimeoutError, urllib3.exceptions.HTTPError):
        pass
    response.close()
    return read


requests.Session.send = send
