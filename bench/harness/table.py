"""Summarizes rounds and renders the table."""

import statistics

# Other processes always use a little CPU.
QUIET = 0.1
TITLES = {
    "drain": "Drain empty jobs",
    "enqueue-bulk": "Enqueue in bulk",
    "enqueue": "Enqueue one by one, durably",
    "latency": "Latency from enqueueing to the start of the job, idle",
    "drain-sdk": "Drain empty jobs with workers of one concurrency",
    "drain-finished": "Drain with finished jobs kept",
    "drain-backlog": "Drain with a backlog",
}


def median(work, rounds):
    """Returns the median of each figure, and the range of the main one."""
    line = {name: rounds[0][name] for name in ("peer", "version", "engine")}
    line |= {"work": work, "n": rounds[0]["n"], "rounds": len(rounds)}
    for name in ("per_second", "p50_ms", "p99_ms"):
        values = [result[name] for result in rounds if result[name] is not None]
        line[name] = statistics.median(values) if values else None
    values = [result[figure(work)] for result in rounds]
    line |= {"spread": [min(values), max(values)], "others_cpu": max(result["others_cpu"] for result in rounds)}
    return {**line, "settings": rounds[0]["settings"]}


def figure(work):
    return "p50_ms" if work == "latency" else "per_second"


def render(lines):
    """Renders the table, best first. The column `Bursar` is Bursar's speedup on the same engine; Redis counts as PostgreSQL."""
    parts = []
    for work in dict.fromkeys(line["work"] for line in lines):
        rows = [row(line, lines) for line in ordered(line for line in lines if line["work"] == work)]
        parts.append(f"## {TITLES[work]}\n\n" + columns([HEAD, *rows]))
    disturbed = max((line.get("others_cpu") or 0 for line in lines), default=0)
    if disturbed > QUIET:
        parts.append(f"Other processes used {disturbed:.0%} of the CPU in one round. Measure again on an idle machine.")
    return "\n\n".join(parts)


HEAD = ["queue", "version", "engine", "per second", "slowest to fastest", "p50 ms", "p99 ms", "jobs", "Bursar", "settings"]


def ordered(lines):
    def key(line):
        value = line.get(figure(line["work"]))
        return (value is None, value if line["work"] == "latency" else -(value or 0))

    return sorted(lines, key=key)


def row(line, lines):
    if "why" in line:
        return [line["peer"], "", line["engine"], "", "", "", "", "", "", line["why"].splitlines()[0][:120]]
    spread = line.get("spread") or []
    show = milliseconds if line["work"] == "latency" else rate
    return [
        line["peer"], line.get("version") or "", line["engine"],
        rate(line.get("per_second")), " to ".join(show(value) for value in spread),
        milliseconds(line.get("p50_ms")), milliseconds(line.get("p99_ms")),
        rate(line.get("n")), ratio(line, lines), line.get("settings") or "",
    ]


def ratio(line, lines):
    if line["work"] == "drain-sdk":
        return sdk_ratio(line, lines)
    engine = "sqlite" if line["engine"] == "sqlite" else "postgres"
    same = (own for own in lines if own["peer"] == "bursar" and (own["work"], own["engine"]) == (line["work"], engine))
    own = next(same, {}).get(figure(line["work"]))
    if line["peer"].startswith("bursar") or not own:
        return ""
    other = line[figure(line["work"])]
    return f"{other / own if line['work'] == 'latency' else own / other:.2f}"


def sdk_ratio(line, lines):
    """Returns how many times faster the SDK of the same language is."""
    own = "bursar-python" if line["peer"] in ("procrastinate", "celery") else "bursar-typescript"
    found = next((other for other in lines if other["work"] == line["work"] and other["peer"] == own), {})
    if line["peer"].startswith("bursar") or not found.get("per_second"):
        return ""
    return f"{found['per_second'] / line['per_second']:.2f}"


def rate(value):
    return "" if value is None else f"{value:,.0f}"


def milliseconds(value):
    return "" if value is None else f"{value:.2f}"


def columns(rows):
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in [rows[0], rule, *rows[1:]])
