"""Drives Celery with a pool of threads, on a Redis that syncs each command to disk."""

import importlib.metadata
import threading

import celery
import redis
from measure import run

QUEUE = "celery"


class Peer:
    def __init__(self, ask):
        self.ask = ask
        self.redis = redis.Redis.from_url(ask.database)
        self.app = celery.Celery("bench", broker=f"{ask.database}/0", set_as_current=True)
        # Late acknowledgement runs a job at least once, as the other queues do.
        self.app.conf.update(
            task_acks_late=True,
            task_ignore_result=True,
            worker_hijack_root_logger=False,
            # Otherwise the line with the figures goes to the log of the worker.
            worker_redirect_stdouts=False,
            broker_connection_retry_on_startup=True,
        )
        self.handed = lambda: None

        @self.app.task(name="nothing")
        def nothing(n):
            self.handed()

        self.task = nothing

    def label(self):
        version = importlib.metadata.version("celery")
        settings = f"appendfsync always, {self.ask.concurrency} threads, acks_late"
        return {"peer": "celery", "version": version, "engine": "redis", "settings": settings}

    def enqueue_bulk(self, jobs):
        with self.app.producer_pool.acquire(block=True) as producer:
            for n in range(jobs):
                self.task.apply_async((n,), producer=producer)

    def start(self, handed):
        self.handed = handed
        worker = self.app.Worker(
            pool="threads", concurrency=self.ask.concurrency, loglevel="ERROR", without_gossip=True, without_mingle=True, without_heartbeat=True
        )
        threading.Thread(target=worker.start, daemon=True).start()
        return worker

    def stop(self, worker):
        worker.stop()

    def unfinished(self):
        return self.redis.llen(QUEUE) + self.redis.hlen("unacked")

    def rest(self):
        pass

    def close(self):
        self.redis.close()


run(Peer)
