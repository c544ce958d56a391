"""Throwaway servers on free local ports. They are stopped by process id, even when this program is killed."""

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
# A shell that stops the server when its standard input closes, which happens however this program ends.
CLEANER = """
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
    """PostgreSQL starts on first use and serves the whole run. Redis is new for each round."""

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
        """Yields the URL of an empty database and removes it afterwards."""
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
        """Returns the URL of PostgreSQL, without a database."""
        if self.postgres is None:
            self.postgres, self.process = self.stack.enter_context(postgres(self.parent))
        return self.postgres


@contextlib.contextmanager
def postgres(parent):
    """Runs PostgreSQL with the settings of initdb, except for the number of connections."""
    bin_folder = postgres_programs()
    # PostgreSQL refuses to run as root.
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
    """Runs Redis so that each write is durable before its answer."""
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
    """Runs a server on `port`, in a session of its own, so that Ctrl-C reaches only this program."""
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", start_new_session=True, **user)
    cleaner = ["sh", "-c", CLEANER, "cleaner", folder, name, str(server.pid)]
    cleaner = subprocess.Popen(cleaner, stdin=subprocess.PIPE, start_new_session=True, cwd="/")
    try:
        wait_for(lambda: listens(server, port, folder))
        yield server.pid
    finally:
        server.terminate() if name == "redis-server" else server.send_signal(2)
        server.wait(WAIT_SECONDS)
        cleaner.stdin.close()
        cleaner.wait(WAIT_SECONDS)


def listens(server, port, folder):
    if server.poll() is not None:
        log = (folder / "log").read_text(errors="replace")[-500:]
        raise Failed(f"{server.args[0]} ended at once: {log}")
    with socket.create_connection(("127.0.0.1", port), timeout=1):
        return True


def wait_for(ready):
    end = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return ready()
        except (OSError, subprocess.CalledProcessError) as why:
            if time.monotonic() > end:
                raise Failed(f"the server does not answer: {why}") from why
            time.sleep(0.05)


def sql(server, statement):
    run([postgres_programs() / "psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-c", statement, f"{server}/postgres"])


def ask(server, statement):
    """Returns the rows of a query, with columns separated by `|`."""
    command = [postgres_programs() / "psql", "-q", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement]
    done = subprocess.run([*command, f"{server}/postgres"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(done.stderr.strip())
    return done.stdout.splitlines()


def postgres_programs():
    """Returns the folder of the newest installed version's programs."""
    versions = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if (path / "initdb").exists()]
    if not versions:
        raise Failed("PostgreSQL is not installed: run `make setup`")
    return max(versions, key=lambda path: int(path.parent.name))


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
