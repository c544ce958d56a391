"""A Patroni pair with etcd and HAProxy, each PostgreSQL in a network namespace of its own.

    this process, in a namespace of its own: HAProxy, etcd, the Bursar servers and the load
      └ bridge ─ a: PostgreSQL and Patroni
               └ b: PostgreSQL and Patroni
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import throwaway

NETWORK = "10.77.0"
HUB = f"{NETWORK}.1"
ADDRESSES = {"a": f"{NETWORK}.2", "b": f"{NETWORK}.3"}
POSTGRES, PATRONI, ETCD, HAPROXY = 5432, 8008, 2379, 5000
DATABASE = f"postgres://postgres@127.0.0.1:{HAPROXY}/bursar"
SETTLE_S = 240
"""The longest wait for the pair to be in a state."""
CLONE_NEWNET = 0x4000_0000

PARAMETERS = {
    "max_connections": 100,
    "tcp_keepalives_idle": 30,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""The parameters of PostgreSQL."""

SETTINGS = {
    "ttl": 20,
    "loop_wait": 5,
    "retry_timeout": 5,
    "synchronous_mode": True,
    "synchronous_mode_strict": False,
    "primary_start_timeout": 0,
}
"""The settings of Patroni that decide what is lost and how long a failover takes; docs/operations.md explains them."""

BALANCER = """
global
    maxconn 500
    log stdout format raw local0 info

defaults
    mode tcp
    log global
    timeout connect 3s
    timeout check 2s
    timeout client 30m
    timeout server 30m
    option clitcpka
    option srvtcpka

listen postgres
    bind 127.0.0.1:{port}
    option httpchk OPTIONS /primary
    http-check expect status 200
    default-server inter 1s fall 3 rise 2 on-marked-down shutdown-sessions check port {check}
    server a {a}:{postgres}
    server b {b}:{postgres}
"""


class Broken(Exception):
    """The pair did not do what the proof needs, so that it shows nothing about Bursar."""


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise Broken(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def wait_for(what: str, ready: Callable[[], bool], within_s: float = SETTLE_S) -> None:
    until = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > until:
            raise Broken(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.1)


def own_network() -> None:
    """Moves this process, and so all that it starts, into a new network namespace without any other network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Broken(f"no network namespace: {os.strerror(ctypes.get_errno())}; run this as root")
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "pair", "type", "bridge")
    run("ip", "address", "add", f"{HUB}/24", "dev", "pair")
    run("ip", "link", "set", "pair", "up")


class Node:
    """A machine of the pair: a network namespace and a process namespace with Patroni and PostgreSQL."""

    def __init__(self, name: str, place: Path) -> None:
        self.name = name
        self.address = ADDRESSES[name]
        self.space = f"bursar-failover-{os.getpid()}-{name}"
        self.folder = place / name
        self.link = f"to-{name}"
        self.log = self.folder / "patroni.log"
        self._init: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Creates the namespace, connects it to the bridge and writes the settings of Patroni."""
        self.folder.mkdir()
        shutil.chown(self.folder, "postgres", "postgres")
        self._configure()
        run("ip", "netns", "add", self.space)
        run("ip", "link", "add", "eth0", "netns", self.space, "type", "veth", "peer", "name", self.link)
        run("ip", "link", "set", "dev", self.link, "master", "pair", "up")
        run("ip", "-n", self.space, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            run("ip", "-n", self.space, "link", "set", device, "up")

    def _configure(self) -> None:
        binaries = max(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])).parent
        trusted = ["local all all trust", f"host all all {NETWORK}.0/24 trust", f"host replication all {NETWORK}.0/24 trust"]
        # YAML accepts JSON.
        (self.folder / "patroni.json").write_text(json.dumps({
            "scope": "bursar",
            "name": self.name,
            "restapi": {"listen": f"{self.address}:{PATRONI}", "connect_address": f"{self.address}:{PATRONI}"},
            "etcd3": {"hosts": [f"{HUB}:{ETCD}"]},
            "bootstrap": {
                "dcs": SETTINGS | {"postgresql": {"use_pg_rewind": True, "use_slots": True}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"],
            },
            "postgresql": {
                "listen": f"{self.address}:{POSTGRES}",
                "connect_address": f"{self.address}:{POSTGRES}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(binaries),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": {"username": "postgres"}, "replication": {"username": "postgres"}},
                "parameters": PARAMETERS | {"unix_socket_directories": str(self.folder)},
                "pg_hba": trusted,
            },
        }, indent=2))

    def start(self) -> None:
        """Starts Patroni as process 1 of a new process namespace; the end of this process kills all of them."""
        command = [*guarded(), "ip", "netns", "exec", self.space, "unshare", "--pid", "--fork", "--mount-proc"]
        # The change of the user clears the signal that ends the child with its parent, so it is set again after it.
        command += [*guarded(), "--reuid", "postgres", "--regid", "postgres", "--init-groups"]
        command += ["patroni", str(self.folder / "patroni.json")]
        with self.log.open("ab") as log:
            self._init = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

    def kill(self) -> None:
        """Kills Patroni and PostgreSQL at once, as the loss of the machine would."""
        if self._init is not None:
            self._init.kill()
            self._init.wait()
            self._init = None

    def plug(self, on: bool) -> None:
        """Connects the machine to the bridge, or disconnects it from everything, without closing any connection."""
        run("ip", "link", "set", "dev", self.link, "up" if on else "down")

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a request to Patroni, and returns the answer: JSON or text."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}:{PATRONI}{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=60 if body else 3) as answer:
            text = answer.read().decode()
        with suppress(ValueError):
            return json.loads(text)
        return text

    def remove(self) -> None:
        self.kill()
        subprocess.run(["ip", "netns", "delete", self.space], capture_output=True, timeout=60, check=False)


class Pair:
    """Both machines."""

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes

    def members(self) -> dict[str, str]:
        """Returns the roles of the members that run, by name, as a machine that can be reached tells them."""
        for node in self.nodes.values():
            with suppress(OSError, ValueError, urllib.error.URLError):
                told = node.ask("GET", "/cluster")["members"]
                return {it["name"]: it["role"] for it in told if it["state"] in ("running", "streaming")}
        return {}

    def primary(self) -> str | None:
        """Returns the machine whose Patroni says that it is the primary, as HAProxy asks it."""
        for node in self.nodes.values():
            with suppress(OSError, urllib.error.URLError):
                node.ask("OPTIONS", "/primary")
                return node.name
        return None

    def wait_until_whole(self) -> None:
        """Waits until there are a primary and a synchronous standby, so that the next fault loses nothing."""
        wait_for("a primary and a synchronous standby", lambda: sorted(self.members().values()) == ["leader", "sync_standby"])

    def other(self, name: str) -> str:
        return next(it for it in self.nodes if it != name)

    def switch_over(self) -> None:
        primary = self.primary()
        if primary is None:
            raise Broken("there is no primary to switch over from")
        self.nodes[primary].ask("POST", "/switchover", {"leader": primary, "candidate": self.other(primary)})


@contextmanager
def pair(place: Path) -> Iterator[Pair]:
    """Runs the pair, and removes all of it at the end."""
    own_network()
    # PostgreSQL refuses to run as root, and its user must reach its folder.
    place.chmod(0o755)
    with ExitStack() as cleanup:
        etcd = f"http://{HUB}:{ETCD}"
        command = ["etcd", "--data-dir", str(place / "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd]
        cleanup.enter_context(throwaway.process([*guarded(), *command], place / "etcd.log"))
        nodes = {}
        for name in ADDRESSES:
            nodes[name] = node = Node(name, place)
            cleanup.callback(node.remove)
            node.create()
        both = Pair(nodes)
        for node in nodes.values():
            node.start()
        config = place / "haproxy.cfg"
        config.write_text(BALANCER.format(port=HAPROXY, check=PATRONI, postgres=POSTGRES, **ADDRESSES))
        cleanup.enter_context(throwaway.process([*guarded(), "haproxy", "-db", "-f", str(config)], place / "haproxy.log"))
        both.wait_until_whole()
        node = nodes[both.primary() or "a"]
        run("psql", "-q", "-X", "-h", node.address, "-U", "postgres", "-c", "CREATE DATABASE bursar")
        yield both


def guarded() -> list[str]:
    """Returns the beginning of a command that is killed if this process is."""
    return ["setpriv", "--pdeathsig", "KILL"]


def missing() -> list[str]:
    """Returns the programs that the proof needs and this machine does not have, as Debian's packages."""
    programs = {"patroni": "patroni", "etcd": "etcd-server", "haproxy": "haproxy", "ip": "iproute2", "psql": "postgresql"}
    return [package for program, package in programs.items() if shutil.which(program) is None]


def versions() -> dict[str, str]:
    return {
        "patroni": run("patroni", "--version").split()[-1],
        "etcd": run("etcd", "--version").splitlines()[0].split()[-1],
        "haproxy": run("haproxy", "-v").split()[2].split("-")[0],
        "postgresql": run("psql", "--version").split()[2],
    }


def interruptible() -> None:
    """Lets SIGTERM end this process like an interrupt does, so that all is cleaned up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
