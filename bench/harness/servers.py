"""Throwaway servers on free ports of the loopback, ended by their process ids, also when this program is killed."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

WAIT_SECONDS = 30
REDIS_SETTINGS = (("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction"))
# Waits until its input ends, which it does with the program that started it, however that ends.
KEEPER = """
folder=$1; name=$2; pid=$3
cat >/dev/null
if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$name" ]; then
    kill -INT "$pid" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -d "/proc/$pid" ] || break; sleep 0.2; done
fi
rm -rf "$folder"
"""


class Failed(Exception):
    """A server is not installed or does not start."""


class Servers:
    """PostgreSQL is started when it is first asked for, and serves the whole run. Redis is new for each round."""

    def __init__(self, parent):
        self.parent = parent
        self.stack = contextlib.ExitStack()
        self.postgres = None
        self.process = None
        self.databases = 0

    def __enter__(self):
        return self

    def __exit__(self, *why):
        return self.stack.__exit__(*why)

    @contextlib.contextmanager
    def fresh(self, engine):
        """The address of an empty database, gone afterwards."""
        if engine == "sqlite":
            with tempfile.TemporaryDirectory(prefix="sqlite-", dir=self.parent) as folder:
                yield f"sqlite://{folder}/jobs.db?mode=rwc"
        elif engine == "redis":
            with redis(self.parent) as address:
                yield address
        else:
            server = self.server()
            self.databases += 1
            name = f"round_{self.databases}"
            sql(server, f"CREATE DATABASE {name}")
            try:
                yield f"{server}/{name}"
            finally:
                sql(server, f"DROP DATABASE {name} WITH (FORCE)")
                sql(server, "CHECKPOINT")

    def server(self):
        """The address of PostgreSQL, without a database."""
        if self.postgres is None:
            self.postgres, self.process = self.stack.enter_context(postgres(self.parent))
        return self.postgres


@contextlib.contextmanager
def postgres(parent):
    """With the settings that initdb chooses, but for the number of connections."""
    bin_folder = postgres_programs()
    # It refuses to run as root.
    user = {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid} if os.getuid() == 0 else {}
    with server_folder("postgres-", parent, user) as folder:
        init = [bin_folder / "initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]
        run([*init, "-D", folder / "data"], cwd="/", **user)
        port = free_port()
        command = [bin_folder / "postgres", "-D", folder / "data", "-p", str(port), "-h", "127.0.0.1", "-k", folder]
        command += ["-c", "max_connections=200"]
        with serving(command, folder, port, "postgres", user) as process:
            address = f"postgres://postgres@127.0.0.1:{port}"
            wait_for(lambda: sql(address, "SELECT 1"))
            yield address, process


@contextlib.contextmanager
def redis(parent):
    """Each write is on disk before it is answered."""
    program = shutil.which("redis-server")
    if program is None:
        raise Failed("redis-server is not installed")
    with server_folder("redis-", parent, {}) as folder:
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        command += [part for name, value in REDIS_SETTINGS for part in (f"--{name}", value)]
        with serving(command, folder, port, "redis-server", {}):
            yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def server_folder(prefix, parent, user):
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        if user:
            shutil.chown(folder, user["user"], user["group"])
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving(command, folder, port, name, user):
    """A server that listens on `port`; its group is its own, so that an interrupt from the keyboard reaches us first."""
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True, **user)
    keeper = ["sh", "-c", KEEPER, "keeper", folder, name, str(server.pid)]
    keeper = subprocess.Popen(keeper, stdin=subprocess.PIPE, start_new_session=True, cwd="/")
    try:
        wait_for(lambda: listens(server, port, folder))
        yield server.pid
    finally:
        server.terminate() if name == "redis-server" else server.send_signal(2)
        server.wait(WAIT_SECONDS)
        keeper.stdin.close()
        keeper.wait(WAIT_SECONDS)


def listens(server, port, folder):
    if server.poll() is not None:
        said = (folder / "log").read_text(errors="replace")[-500:]
        raise Failed(f"a server ended at once: {said}")
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def wait_for(ready):
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return ready()
        except (OSError, subprocess.CalledProcessError) as why:
            if time.monotonic() > end:
                raise Failed(f"a server does not answer: {why}") from why
            time.sleep(0.05)


def sql(server, statement):
    run([postgres_programs() / "psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-c", statement, f"{server}/postgres"])


def ask(server, statement):
    """The rows of an answer, columns apart by `|`."""
    command = [postgres_programs() / "psql", "-q", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
    done = subprocess.run([*command, f"{server}/postgres"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return done.stdout.splitlines()


def postgres_programs():
    """Those of the newest version that is installed."""
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if not versions:
        raise Failed("PostgreSQL is not installed: make setup")
    return max(versions, key=lambda path: int(path.parent.name))


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
