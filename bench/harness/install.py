"""Installs the peers into a folder that can be thrown away, at the versions of the lock files."""

import filecmp
import shutil
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent


class Failed(Exception):
    """Something that is needed cannot be had."""


def install(folder, chosen):
    """The peers that could not be installed, with the reason; the others are measured all the same."""
    missing = {}
    for kind, prepare in (("node", node), ("rust", rust)):
        peers = [peer for peer in chosen if peer.kind == kind]
        if not peers:
            continue
        try:
            prepare(folder, sorted({peer.driver for peer in peers}))
        except Failed as why:
            missing |= {peer.name: str(why) for peer in peers}
    return missing


def node(folder, _drivers):
    """Modules are looked for beside the file that names them, so the drivers are copied to where the peers are."""
    if shutil.which("npm") is None:
        raise Failed("npm is not installed")
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
    # No script of a package is run: what they build is optional. npm itself runs on the Node of the machine, which may
    # be older than the one the peers ask for and get. `npm ci` of newer versions wants optional packages of other platforms
    # in the lock file; `npm install` takes the versions of the lock file as well, and leaves it as it is.
    call(["npm", "install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], home)
    (home / "node_modules" / ".complete").touch()


def rust(folder, drivers):
    # The whole workspace is named, so that what is built does not depend on which peers are chosen.
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
