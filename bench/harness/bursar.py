"""Bursar itself, measured by its own bench on the same servers and the same disk."""

import json
import subprocess

PATIENCE_SECONDS = 1_800


def measure(work, running, options):
    return [on_engine(work, engine, running, options) for engine in ("postgres", "sqlite")]


def on_engine(work, engine, running, options):
    line = {"peer": "bursar", "engine": engine, "work": work}
    bench = work.split("-finished")[0].split("-backlog")[0]
    with running.fresh(engine) as database:
        command = [options.bursar, "bench", bench, "--json", "--baseline", "none", "--rounds", str(options.rounds)]
        command += ["--database", database.split("?")[0]]
        if work == "enqueue":
            command += ["--callers", str(options.callers), "--seconds", str(options.seconds)]
        if work == "drain-finished":
            command += ["--history", str(options.finished)]
        if work == "drain-backlog":
            command += ["--backlog", str(options.backlog)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as why:
            return {**line, "why": f"not measured: {why}"}
    found = [told for told in objects(done.stdout) if told.get("bench") == bench and told.get("engine") == engine]
    if done.returncode != 0 or len(found) != 1:
        return {**line, "why": f"not measured: {complaint(done.stderr)}"}
    told = {name: found[0].get(name) for name in ("per_second", "p50_ms", "p99_ms", "spread")}
    return {**line, "version": version(options.bursar), "rounds": options.rounds, "settings": "defaults", **told}


def complaint(text):
    """The detail of a problem, if it is one."""
    first = (text.strip().splitlines() or ["it printed no figure"])[0]
    try:
        return json.loads(first)["detail"].splitlines()[0]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return first


def objects(text):
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().removeprefix("bursar ")
