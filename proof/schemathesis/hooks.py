"""What a run of schemathesis is told of Bursar, so that it ends in time."""

import schemathesis

# A worker that finds nothing waits as long as it asks to. What is asked stays right or wrong: only what is right is shortened.
WAIT_MS_RIGHT = 60_000
WAIT_MS = 20


@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if case.path == "/v1/jobs/lease" and isinstance(body, dict):
        wait = body.get("wait_ms")
        if type(wait) is int and WAIT_MS < wait <= WAIT_MS_RIGHT:
            body["wait_ms"] = WAIT_MS
