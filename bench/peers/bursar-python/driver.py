"""Drives the worker of Bursar's Python SDK, over HTTP, with a server of its own."""

import os
import secrets
import subprocess
import threading

import psycopg
from measure import run

from bursar import Client, Worker

ADDED_AT_ONCE = 10_000
QUEUE = "work"


class Peer:
    def __init__(self, ask):
        self.ask = ask
        self.token = f"operator-token-of-the-bench-{secrets.token_hex(16)}"
        command = [ask.bursar, "serve", "--database", ask.database, "--listen", "127.0.0.1:0", "--log-level", "warn"]
        env = {**os.environ, "BURSAR_OPERATOR_TOKEN": self.token}
        self.server = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        self.url = self.server.stdout.readline().removeprefix("listening on ").strip()
        self.client = Client(self.url, token=self.token, timeout=120)
        self.own = psycopg.connect(ask.database, autocommit=True)

    def label(self):
        settings = f"concurrency {self.ask.concurrency}, async handler, over HTTP"
        return {"peer": "bursar-python", "version": "0.1.0", "engine": "postgres", "settings": settings}

    def enqueue_bulk(self, jobs):
        for begin in range(0, jobs, ADDED_AT_ONCE):
            numbers = range(begin, min(begin + ADDED_AT_ONCE, jobs))
            self.client.jobs.enqueue_many(jobs=[{"queue": QUEUE, "kind": "nothing", "payload": {"n": n}} for n in numbers])

    def start(self, handed):
        worker = Worker(self.url, token=self.token, queues=[QUEUE], concurrency=self.ask.concurrency)

        @worker.job("nothing")
        async def nothing(_payload, _ctx):
            handed()

        thread = threading.Thread(target=worker.run)
        thread.start()
        return worker, thread

    def stop(self, started):
        worker, thread = started
        worker.stop()
        thread.join()

    def unfinished(self):
        return self.own.execute("SELECT count(*) FROM bursar.jobs").fetchone()[0]

    def rest(self):
        self.own.execute("VACUUM ANALYZE")
        self.own.execute("CHECKPOINT")

    def close(self):
        self.server.kill()
        self.server.wait()


run(Peer)
