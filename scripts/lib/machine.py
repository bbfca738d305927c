"""Whether this machine can run a demo at all: said before anything is built, made or started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from build import ROOT
from process import Failure, run

# Their numbers in the kernel: for links and addresses, raw sockets, namespaces.
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_ADMIN": 21}
# What a build from nothing leaves below the target directory, what a later one adds, and a run's files.
_BUILD_MB, _AGAIN_MB, _RUN_MB = 2000, 200, 64


class Unfit(Failure):
    """The machine cannot do what was asked for; nothing has been made."""


def check(*, build: bool) -> None:
    """Raises `Unfit` with what is missing. `build`: a build comes first."""
    if os.geteuid() == 0:
        _check_capabilities()
    else:
        _check_sudo()
    if build:
        target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
        needed = _AGAIN_MB if (target / "CACHEDIR.TAG").exists() else _BUILD_MB
        _check_disk(target, needed, "the build", "CARGO_TARGET_DIR puts it elsewhere")
    _check_disk(Path(tempfile.gettempdir()), _RUN_MB, "a run", "TMPDIR puts its files elsewhere")


def _check_sudo() -> None:
    needs = "network namespaces and raw ports need root"
    if not shutil.which("sudo"):
        raise Unfit(f"{needs}, and there is no sudo: run it as root")
    if _succeeds("sudo", "-n", "true"):
        return
    if not sys.stdin.isatty():
        raise Unfit(f"{needs}, and sudo asks for a password, for which there is no terminal: run it as root")
    # It asks now, and not after minutes of building.
    if not _succeeds("sudo", "-v", quiet=False):
        raise Unfit(f"{needs}, and sudo refuses: run it as root")


def _succeeds(*command: str, quiet: bool = True) -> bool:
    return subprocess.run(command, capture_output=quiet, check=False).returncode == 0


def _check_capabilities() -> None:
    status = dict(line.split(":\t", 1) for line in _status().splitlines() if ":\t" in line)
    effective = int(status.get("CapEff", "-1"), 16)
    missing = [name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1]
    if missing:
        rights = ", ".join(missing)
        raise Unfit(f"root lacks {rights} here: start the container with these rights (--privileged)")
    if refused := _namespace_refused():
        raise Unfit(f"root may not make network namespaces here: {refused}")


def _status() -> str:
    return Path("/proc/self/status").read_text()


def _namespace_refused() -> str:
    """Why no network namespace can be made, which user namespaces and profiles of containers forbid."""
    name = f"pas-{os.getpid()}-try"
    if not shutil.which("ip"):
        # scripts/setup installs it.
        return ""
    done = run("ip", "netns", "add", name, check=False)
    run("ip", "netns", "del", name, check=False)
    return done.stderr.strip() if done.returncode else ""


def _check_disk(place: Path, needed_mb: int, what: str, otherwise: str) -> None:
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free // 10**6
    if free < needed_mb:
        raise Unfit(f"{what} needs up to {needed_mb} MB, and {place} has {free} MB free: {otherwise}")
