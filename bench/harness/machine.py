"""What the figures were measured on: the machine, its disk, and the servers with the settings that matter."""

import os
import platform
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from harness import servers

# The median of an odd number is one of them.
FSYNCS = 51
PAGE = b"\7" * 4096
POSTGRES_SETTINGS = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size",
    "checkpoint_timeout", "max_connections",
)


def describe(data, running, chosen):
    """Told before the first round, and with every table."""
    engines = {peer.engine for peer in chosen}
    told = {
        "cores": os.cpu_count(),
        "cpu": field("/proc/cpuinfo", "model name") or platform.machine(),
        "kernel": platform.release(),
        "memory_mb": int((field("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "fsync_ms": round(fsync_ms(data), 3),
    }
    if "postgres" in engines:
        told["postgres"] = postgres(running)
    if "redis" in engines:
        told["redis"] = redis()
    return told


def render(told):
    """The head of the table."""
    lines = [f"machine: {told['cores']} cores, {told['cpu']}, kernel {told['kernel']}, {told['memory_mb']} MB of memory"]
    lines.append(f"disk: one fsync takes {told['fsync_ms']:.2f} ms")
    for name, title in (("postgres", "PostgreSQL"), ("redis", "Redis")):
        if name in told:
            settings = ", ".join(f"{key}={value}" for key, value in told[name]["settings"].items())
            lines.append(f"{title} {told[name]['version']}: {settings}")
    return "\n".join(lines)


def fsync_ms(folder):
    """What a page takes to be on the disk for good, median."""
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
    """Asked of the server itself."""
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
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v=(\S+)", said)
    return {"version": version.group(1) if version else said.strip(), "settings": dict(servers.REDIS_SETTINGS)}


def field(path, name):
    """A field of what the kernel tells in lines of `name: value`."""
    try:
        with open(path, encoding="utf-8") as text:
            for line in text:
                found, _, value = line.partition(":")
                if found.strip() == name:
                    return value.strip()
    except OSError:
        pass
    return None
