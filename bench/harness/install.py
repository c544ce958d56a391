"""Installs the peers into a disposable folder, with the versions of the lock files."""

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent


class Failed(Exception):
    """A requirement cannot be installed."""


def install(folder, chosen):
    """Installs the peers; returns those that failed, with the reason. The others are still measured."""
    missing = {}
    for kind, prepare in (("node", node), ("rust", rust), ("python", python)):
        peers = [peer for peer in chosen if peer.kind == kind]
        if not peers:
            continue
        try:
            prepare(folder, sorted({peer.driver for peer in peers}))
        except Failed as why:
            missing |= {peer.name: str(why) for peer in peers}
    return missing


def node(folder, drivers):
    """Copies the drivers next to the installed packages, because Node resolves modules from the importing file."""
    if shutil.which("npm") is None:
        raise Failed("npm is not installed")
    if "bursar-typescript" in drivers:
        call([BENCH.parent / "sdk" / "typescript" / "install"], BENCH)
        call(["npm", "run", "--silent", "build"], BENCH.parent / "sdk" / "typescript")
    home = folder / "node"
    home.mkdir(exist_ok=True)
    for name in ("peers", "measure"):
        shutil.copytree(BENCH / name, home / name, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.rs", "*.toml"))
    files = ("package.json", "package-lock.json")
    same = all((home / name).exists() and filecmp.cmp(BENCH / name, home / name, shallow=False) for name in files)
    if same and (home / "node_modules" / ".complete").exists():
        return
    for name in files:
        shutil.copy(BENCH / name, home / name)
    # Package scripts do not run: what they build is optional. npm runs on the Node of the machine, which may be older than
    # the Node that the peers get. Newer versions of `npm ci` require optional packages of other platforms in the lock file;
    # `npm install` uses the locked versions as well and does not change the file.
    call(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], home)
    (home / "node_modules" / ".complete").touch()


def python(folder, _drivers):
    home = folder / "python"
    installed = home / "requirements.txt"
    if installed.exists() and filecmp.cmp(BENCH / "requirements.txt", installed, shallow=False):
        return
    shutil.rmtree(home, ignore_errors=True)
    call([sys.executable, "-m", "venv", home], BENCH)
    call([home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "-r", BENCH / "requirements.txt"], BENCH)
    shutil.copy(BENCH / "requirements.txt", installed)


def rust(folder, drivers):
    # Build with the features of the whole workspace, so that the result does not depend on the chosen peers.
    programs = [part for driver in drivers for part in ("--bin", f"peer-{driver}")]
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--workspace", *programs]
    call([*command, "--target-dir", folder / "rust"], BENCH)


def call(command, cwd):
    print("installing: " + " ".join(str(part) for part in command[:3]), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as why:
        raise Failed(str(why)) from why
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
