"""A media pipeline: upload a file, order its conversion within a budget, read the result and its real cost.

It needs BURSAR_SERVER and BURSAR_TOKEN."""

import os
import threading

from bursar import Client, JobContext, Worker

url, token = os.environ["BURSAR_SERVER"], os.environ["BURSAR_TOKEN"]
worker = Worker(url=url, token=token, queues=["media"])


@worker.job("text.shout")
def shout(payload: dict[str, str], ctx: JobContext) -> dict[str, str]:
    """Runs at least once: make it safe to repeat. Equal bytes are stored once."""
    text = ctx.blobs.get(payload["upload"]).read()
    ctx.progress(50, "half of it")
    made = ctx.blobs.put(text.upper(), namespace="media", filename="loud.txt", content_type="text/plain")
    ctx.usage(len(text) * 3)
    return {"blob": made["id"]}


with Client(url, token=token) as client:
    client.budgets.define("customer:7", limits=[{"amount": 10_000, "window": "month"}])
    upload = client.blobs.put(b"a quiet harbour", namespace="media", filename="quiet.txt", content_type="text/plain")
    # The estimate is held and the job enqueued in one transaction. The job keeps the upload as long as it needs it.
    order = client.commands.submit(
        charges=[{"scope": "customer:7", "amount": 500}],
        settle="job",
        jobs=[{"queue": "media", "kind": "text.shout", "payload": {"upload": upload["id"]}, "blobs": [upload["id"]]}],
    )
    running = threading.Thread(target=worker.run)
    running.start()
    job = client.jobs.wait(order["jobs"][0]["id"], timeout=60)
    worker.stop()
    running.join()
    print(job["state"], job["cost"], client.blobs.get(job["result"]["blob"]).read().decode())
