"""A budget, a job that holds a part of it, and the worker that runs the job and settles its real cost."""

import os

from bursar import Client, JobContext, Worker

url, token = os.environ["BURSAR_SERVER"], os.environ["BURSAR_TOKEN"]
worker = Worker(url=url, token=token, queues=["media"], concurrency=4)


@worker.job("video.cut")
def cut(payload: dict[str, int], ctx: JobContext) -> str:
    # Runs at least once: make it safe to repeat.
    ctx.usage(payload["seconds"] * 10)
    worker.stop()
    return f"cut {payload['seconds']} s"


with Client(url, token=token) as client:
    client.budgets.define("team:media", limits=[{"amount": 10_000, "window": "month"}])
    order = client.commands.submit(
        charges=[{"scope": "team:media", "amount": 500}],
        settle="job",
        jobs=[{"queue": "media", "kind": "video.cut", "payload": {"seconds": 30}}],
    )
    worker.run()
    job = client.jobs.get(order["jobs"][0]["id"])
    print(job["state"], job["result"], job["cost"])
