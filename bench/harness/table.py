"""Sums up rounds, and writes the table."""

import statistics

# Others always take a little.
QUIET = 0.1
TITLES = {
    "drain": "Drain jobs that do nothing",
    "enqueue-bulk": "Enqueue in bulk",
    "enqueue": "Enqueue one at a time, durably",
    "latency": "From the call that enqueues to the start of the job, idle",
    "drain-finished": "Drain with done jobs kept",
    "drain-backlog": "Drain with jobs waiting behind",
}


def median(work, rounds):
    """The median of each figure over the rounds, with the least and the most of the one that counts."""
    line = {name: rounds[0][name] for name in ("peer", "version", "engine")}
    line |= {"work": work, "n": rounds[0]["n"], "rounds": len(rounds)}
    for name in ("per_second", "p50_ms", "p99_ms"):
        values = [told[name] for told in rounds if told[name] is not None]
        line[name] = statistics.median(values) if values else None
    values = [told[figure(work)] for told in rounds]
    line |= {"spread": [min(values), max(values)], "others_cpu": max(told["others_cpu"] for told in rounds)}
    return {**line, "settings": rounds[0]["settings"]}


def figure(work):
    return "p50_ms" if work == "latency" else "per_second"


def render(lines):
    """Best first. `Bursar` is how many times better Bursar is on the same engine, Redis counting as PostgreSQL."""
    parts = []
    for work in dict.fromkeys(line["work"] for line in lines):
        rows = [row(line, lines) for line in ordered(line for line in lines if line["work"] == work)]
        parts.append(f"## {TITLES[work]}\n\n" + columns([HEAD, *rows]))
    disturbed = max((line.get("others_cpu") or 0 for line in lines), default=0)
    if disturbed > QUIET:
        parts.append(f"The machine was busy with other things: in one round they took {disturbed:.0%} of it. Measure again.")
    return "\n\n".join(parts)


HEAD = ["queue", "version", "engine", "a second", "slowest to fastest", "p50 ms", "p99 ms", "jobs", "Bursar", "settings"]


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
    engine = "sqlite" if line["engine"] == "sqlite" else "postgres"
    same = (own for own in lines if own["peer"] == "bursar" and (own["work"], own["engine"]) == (line["work"], engine))
    own = next(same, {}).get(figure(line["work"]))
    if line["peer"].startswith("bursar") or not own:
        return ""
    other = line[figure(line["work"])]
    return f"{other / own if line['work'] == 'latency' else own / other:.2f}"


def rate(value):
    return "" if value is None else f"{value:,.0f}"


def milliseconds(value):
    return "" if value is None else f"{value:.2f}"


def columns(rows):
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    rule = ["-" * width for width in widths]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |" for row in [rows[0], rule, *rows[1:]])
