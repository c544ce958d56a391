"""Drives procrastinate with an asyncio worker."""

import asyncio
import importlib.metadata
import threading

import procrastinate
import psycopg
from measure import run

ADDED_AT_ONCE = 1_000


class Peer:
    def __init__(self, ask):
        self.ask = ask
        self.own = psycopg.connect(ask.database, autocommit=True)
        self.app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=ask.database, max_size=20))
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.handed = lambda: None

        @self.app.task(name="nothing")
        async def nothing(n):
            self.handed()

        self.task = nothing
        self.wait(self.opened())
        self.wait(self.app.schema_manager.apply_schema_async())

    async def opened(self):
        await self.app.open_async()

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def label(self):
        version = importlib.metadata.version("procrastinate")
        settings = f"concurrency {self.ask.concurrency}, async task, 20 connections"
        return {"peer": "procrastinate", "version": version, "engine": "postgres", "settings": settings}

    def enqueue_bulk(self, jobs):
        for begin in range(0, jobs, ADDED_AT_ONCE):
            numbers = range(begin, min(begin + ADDED_AT_ONCE, jobs))
            self.wait(self.task.batch_defer_async(*({"n": n} for n in numbers)))

    def start(self, handed):
        self.handed = handed
        worker = self.app.run_worker_async(
            concurrency=self.ask.concurrency, install_signal_handlers=False, delete_jobs="never", fetch_job_polling_interval=0.1
        )
        return asyncio.run_coroutine_threadsafe(worker, self.loop)

    def stop(self, worker):
        worker.cancel()

    def unfinished(self):
        return self.own.execute("SELECT count(*) FROM procrastinate_jobs WHERE status IN ('todo', 'doing')").fetchone()[0]

    def rest(self):
        self.own.execute("VACUUM ANALYZE")
        self.own.execute("CHECKPOINT")

    def close(self):
        self.own.close()


run(Peer)
