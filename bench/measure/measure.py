"""The measurement of drained jobs, for peers written in Python. `measure.mjs` documents each part; keep both in step.

A driver calls `run(open)`. `open(ask)` returns an object with `label()`, `enqueue_bulk(jobs)`, `start(handed)`, `stop(worker)`,
`unfinished()`, `rest()` and `close()`."""

import argparse
import json
import threading
import time

WARM_JOBS = 2_000
PATIENCE_SECONDS = 600


def run(open_peer):
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["drain"])
    parser.add_argument("--database", required=True)
    parser.add_argument("--bursar")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=100)
    ask, _ = parser.parse_known_args()
    peer = open_peer(ask)
    try:
        drain(peer, WARM_JOBS)
        peer.rest()
        rate = drain(peer, ask.jobs)
        figures = {"work": "drain", "n": ask.jobs, "per_second": rate, "p50_ms": None, "p99_ms": None}
        print(json.dumps({**peer.label(), **figures}), flush=True)
    finally:
        peer.close()


def drain(peer, jobs):
    """Returns the jobs a second, from the first job handed to a handler until the database has no unfinished job."""
    peer.enqueue_bulk(jobs)
    progress = Progress(jobs)
    worker = peer.start(progress.handed)
    if not progress.reached.wait(PATIENCE_SECONDS):
        raise SystemExit("the round exceeded its timeout")
    while peer.unfinished() > 0:
        time.sleep(0.002)
    end = time.perf_counter()
    peer.stop(worker)
    return jobs / (end - progress.first)


class Progress:
    """The number of jobs passed to a handler, and when the first one was."""

    def __init__(self, goal):
        self._left = goal
        self._lock = threading.Lock()
        self.first = None
        self.reached = threading.Event()

    def handed(self):
        with self._lock:
            if self.first is None:
                self.first = time.perf_counter()
            self._left -= 1
            if self._left == 0:
                self.reached.set()
