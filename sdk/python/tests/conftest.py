"""Fixtures: a real server for all tests, and a server that fails as a test says."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

import pytest

from bursar import AsyncClient, Client

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[3]
WAIT = 60.0
"""How long a test waits for a condition, in seconds."""


def program() -> str:
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    path = os.environ.get("BURSAR_BIN", f"{target}/debug/bursar")
    if not os.access(path, os.X_OK):
        raise RuntimeError(f"{path} does not exist: run `cargo build` or set BURSAR_BIN=PATH")
    return path


class Server:
    """A server on a database of its own."""

    def __init__(self, folder: Path, config: Path | None = None) -> None:
        self._folder = folder
        self._options = [] if config is None else ["--config", str(config)]
        self._process: subprocess.Popen[str] | None = None
        self.token = f"operator-{secrets.token_hex(24)}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        with (self._folder / "server.log").open("a") as log:
            self._process = subprocess.Popen(
                [
                    program(),
                    "serve",
                    "--database",
                    f"sqlite://{self._folder / 'bursar.db'}",
                    "--listen",
                    f"127.0.0.1:{self._port}",
                    *self._options,
                ],
                env={**os.environ, "BURSAR_OPERATOR_TOKEN": self.token},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("listening on "), (self._folder / "server.log").read_text()

    def kill(self) -> None:
        """Ends the server at once, like `kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def client(self) -> Client:
        return Client(self.url, token=self.token)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.url, token=self.token)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all tests; each test uses names of its own."""
    server = Server(tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that a test may kill."""
    server = Server(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return f"test-{uuid.uuid4().hex[:12]}"


def until(condition: Callable[[], T], what: str = "the condition") -> T:
    """Waits until a condition is true, and returns its value."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} was not met within {WAIT} s")


Reply = tuple[int, dict[str, str], bytes] | None
"""Status, headers and body of an answer; `None` closes the connection without one."""


class FakeServer:
    """A local server that answers with what a function returns, and records the requests."""

    def __init__(self, reply: Callable[[FakeRequest], Any]) -> None:
        self.requests: list[FakeRequest] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

            def _answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length) if length else self._chunks()
                request = FakeRequest(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
                outer.requests.append(request)
                answer = reply(request)
                if callable(answer):
                    answer(self)
                    self.close_connection = True
                    return
                if answer is None:
                    self.close_connection = True
                    return
                status, headers, content = answer
                self.send_response(status)
                for key, value in headers.items():
                    self.send_header(key, value)
                if status not in (204, 304):
                    self.send_header("content-length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD" and status not in (204, 304):
                    self.wfile.write(content)

            def _chunks(self) -> bytes:
                parts: list[bytes] = []
                if self.headers.get("transfer-encoding") == "chunked":
                    while size := int(self.rfile.readline(), 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                return b"".join(parts)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _answer

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, request: Any, client_address: Any) -> None:
                # A test that ends a connection early makes the handler fail.
                del request, client_address

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class FakeRequest:
    """A request that a fake server has received."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body


@pytest.fixture
def fake() -> Iterator[Callable[[Callable[[FakeRequest], Any]], FakeServer]]:
    """Makes servers that answer as the test says."""
    servers: list[FakeServer] = []

    def make(reply: Callable[[FakeRequest], Any]) -> FakeServer:
        servers.append(FakeServer(reply))
        return servers[-1]

    yield make
    for server in servers:
        server.close()
