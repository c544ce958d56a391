"""Describes the machine, its disk, and the servers with their relevant settings."""

import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import servers

# Odd, so that the median is a sample.
FSYNCS = 51
PAGE = b"\7" * 4096
POSTGRES_SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size",
    "checkpoint_timeout", "max_connections",
)


def describe(data, running, chosen):
    """Returns the description printed before the first round and with every table."""
    engines = {peer.engine for peer in chosen}
    described = {
        "cores": os.cpu_count(),
        "cpu": field("/proc/cpuinfo", "model name") or platform.machine(),
        "kernel": platform.release(),
        "memory_mb": int((field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "fsync_ms": round(fsync_ms(data), 3),
    }
    if "postgres" in engines:
        described["postgres"] = postgres(running)
    if "redis" in engines:
        described["redis"] = redis()
    return described


def render(described):
    """Returns the text above the table."""
    lines = [f"machine: {described['cores']} cores, {described['cpu']}, kernel {described['kernel']}, {described['memory_mb']} MB of memory"]
    lines.append(f"disk: one fsync takes {described['fsync_ms']:.2f} ms")
    for name, title in (("postgres", "PostgreSQL"), ("redis", "Redis")):
        if name in described:
            settings = ", ".join(f"{key}={value}" for key, value in described[name]["settings"].items())
            lines.append(f"{title} {described[name]['version']}: {settings}")
    return "\n".join(lines)


def fsync_ms(folder):
    """Returns the median time to write and fsync a page, in milliseconds."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(FSYNCS):
            begun = time.perf_counter()
            file.write(PAGE)
            file.flush()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def postgres(running):
    """Returns the version and the settings of the server."""
    try:
        address = running.server()
        names = ",".join(f"'{name}'" for name in POSTGRES_SETTINGS)
        rows = servers.ask(address, f"SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({names}) ORDER BY 1")
        settings = dict(row.split("|", 1) for row in rows)
        return {"version": servers.ask(address, "SHOW server_version")[0], "settings": settings}
    except servers.Failed as why:
        return {"version": "none", "settings": {"why": str(why)}}


def redis():
    program = shutil.which("redis-server")
    if program is None:
        return {"version": "none", "settings": {"why": "redis-server is not installed"}}
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v=(\S+)", output)
    return {"version": version.group(1) if version else output.strip(), "settings": dict(servers.REDIS_SETTINGS)}


def field(path, name):
    """Returns a field of a file with lines of the form `name: value`."""
    try:
        with open(path, encoding="utf-8") as text:
            for line in text:
                found, _, value = line.partition(":")
                if found.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None
