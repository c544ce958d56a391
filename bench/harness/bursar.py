"""Bursar, measured by its own bench on the same servers and disk, alternating with its peers."""

import dataclasses
import json
import subprocess

from harness import peers
from harness.cpu import Watch


@dataclasses.dataclass(frozen=True)
class Bursar:
    """Bursar on one engine, with the interface of a peer."""

    engine: str
    name: str = "bursar"
    kind: str = "bursar"
    works: tuple = peers.ALL
    # Whether a worker with a handler drains jobs, as with the peers; otherwise bare loops do.
    worker: bool = False

    def round(self, work, running, _folder, options):
        """Runs the bench once. It creates its own database on the given server or next to the given file."""
        if self.engine == "postgres":
            running.server()
        watch = Watch(running.process)
        with running.fresh(self.engine) as database:
            result = self.run(options, *arguments(work, options, self.worker), "--database", database.split("?")[0])
        # The latency bench has no meaningful rate.
        figures = {name: result[name] for name in ("per_second", "p50_ms", "p99_ms")}
        figures |= {"per_second": None} if work == "latency" else {}
        # The times of bulk calls are not comparable.
        figures |= {"p50_ms": None, "p99_ms": None} if work.startswith(("drain", "enqueue-bulk")) else {}
        label = {"peer": self.name, "version": version(options.bursar), "engine": self.engine}
        settings = SETTINGS[bench(work, self.worker)].format(callers=result["callers"])
        return {**label, "settings": settings, "work": work, "n": result["jobs"], **figures, "others_cpu": watch.others()}

    def run(self, options, *arguments):
        command = [options.bursar, "bench", *arguments, "--json", "--baseline", "none", "--rounds", "1"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=peers.PATIENCE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            raise peers.Failed(str(why)) from why
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found = [line for line in lines if line.get("engine") == self.engine]
        if done.returncode != 0 or len(found) != 1:
            raise peers.Failed(complaint(done.stderr))
        return found[0]


DRAINS = tuple(work for work in peers.ALL if work.startswith("drain"))
ENGINES = [
    Bursar("postgres"),
    Bursar("sqlite"),
    Bursar("postgres", "bursar-worker", works=DRAINS, worker=True),
    Bursar("sqlite", "bursar-worker", works=DRAINS, worker=True),
]

SETTINGS = {
    "drain": "defaults; {callers} loops of lease(1000) and finish_all",
    "drain-worker": "a worker with a handler, concurrency {callers}",
    "enqueue-bulk": "defaults; {callers} enqueue_all",
    "enqueue": "defaults",
    "latency": "defaults; a worker",
}


def bench(work, worker):
    name = work.split("-finished")[0].split("-backlog")[0]
    return f"{name}-worker" if worker else name


def arguments(work, options, worker):
    yield bench(work, worker)
    if work == "enqueue":
        yield from ("--callers", str(options.callers), "--seconds", str(options.seconds))
    else:
        yield from ("--jobs", str(options.samples if work == "latency" else options.jobs))
    if work == "drain-finished":
        yield from ("--history", str(options.finished))
    if work == "drain-backlog":
        yield from ("--backlog", str(options.backlog))


def complaint(text):
    """Returns the detail if the text is a problem document, otherwise its last line."""
    first = (text.strip().splitlines() or ["the bench printed no result"])[-1]
    try:
        return json.loads(first)["detail"].splitlines()[0]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return first


def version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().removeprefix("bursar ")
