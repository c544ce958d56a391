"""Throwaway processes for the proofs: a Bursar server on the loopback address, and how to end what was started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TOKEN = "operator-token-of-one-throwaway-run"
START_S = 60


def bursar() -> Path:
    """Returns the program to test: BURSAR, or the most optimized build."""
    candidates = [TARGET / profile / "bursar" for profile in ("dist", "release", "debug")]
    if "BURSAR" in os.environ:
        candidates = [Path(os.environ["BURSAR"])]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.resolve()
    sys.exit("there is no bursar program: run `cargo build --profile dist`, or set BURSAR=PATH")


@contextmanager
def folder() -> Iterator[Path]:
    """Makes a folder on a disk, not on a file system in memory."""
    path = Path(tempfile.mkdtemp(prefix="bursar-proof-", dir=os.environ.get("TMPDIR", "/var/tmp")))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def process(command: list[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(env or {})})
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


class Server:
    """A running server."""

    def __init__(self, url: str, pid: int) -> None:
        self.url = url
        self.pid = pid

    def memory_mib(self, name: str = "VmHWM") -> float:
        """Returns a memory figure of the server; VmHWM is the peak since its start."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"the status has no {name}")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a JSON request and returns the answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}"} | ({"Content-Type": "application/json"} if data else {})
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.code} {error.read().decode()}") from None


@contextmanager
def server(place: Path, env: Mapping[str, str] | None = None, database: str | None = None) -> Iterator[Server]:
    """Runs a server on the database; default: a new SQLite file in the folder. The log is in the folder too."""
    log = place / "server.log"
    command = [str(bursar()), "serve", "--listen", "127.0.0.1:0", "--database", database or f"sqlite://{place}/bursar.db"]
    with process(command, log, {"BURSAR_OPERATOR_TOKEN": TOKEN, **(env or {})}) as child:
        until = time.monotonic() + START_S
        while True:
            lines = log.read_text().splitlines()
            url = next((line.split()[-1] for line in lines if line.startswith("listening on http")), None)
            if url:
                break
            if child.poll() is not None or time.monotonic() > until:
                sys.exit("the server did not start:\n" + "\n".join(lines))
            time.sleep(0.05)
        yield Server(url, child.pid)
