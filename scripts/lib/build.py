"""Prepares the machine and the program."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from process import Failure, Stop, Unable, run_long, say

ROOT = Path(__file__).resolve().parents[2]
# With less free space, a full disk is the likely reason of a failed build.
_LEAST_FREE = 200 << 20
# Options of `cargo build` alone.
_OF_BUILD = ("--release", "--profile", "demo")
# Capabilities without which there are no namespaces, veth pairs and raw ports, with their numbers.
_NEEDED = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13}
_ROOTS_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class Wanted:
    """The build that a script needs.

    Of the operator's program, `demo` leaves out parts that no demonstration uses. `release` is the build that
    is packaged and measured; otherwise it is the profile `demo`, which builds much faster.
    """

    demo: bool = False
    features: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    release: bool = False
    # Whether further programs are needed than for the demonstration: iperf3, Open MPI, etcd, z3, …
    tests: bool = False

    def command(self) -> list[str]:
        profile = ["--release"] if self.release else ["--profile", "demo"]
        features = ["--no-default-features"] if self.demo else []
        for name in self.features:
            features += ["--features", f"pascaline/{name}"]
        packages = [word for name in ("pascaline", *self.programs) for word in ("-p", name)]
        return [cargo(), "build", *profile, "--locked", *features, *packages]

    def setup(self) -> list[str]:
        return ["--peers"] if self.tests else ["--build"] if self.programs else []


EVERYTHING = Wanted(tests=True)


def ready(stop: Stop, binary: Path | None, wanted: Wanted = EVERYTHING) -> Path:
    """Runs scripts/setup and builds; returns the program. With `binary` nothing is built, without Rust."""
    root_is_possible()
    if binary:
        _setup(["--no-rust", *(["--peers"] if wanted.tests else [])], stop)
        for name in wanted.programs:
            beside(binary.resolve(), name)
        return binary.resolve()
    _setup(wanted.setup(), stop)
    if not wanted.release:
        say("building the profile `demo`: soon there, and no benchmark (cargo build --release is)")
    return cargo_made("pascaline", wanted.command(), stop, lambda: _why(wanted))


def cargo_made(
    name: str, command: list[str], stop: Stop, failure: str | Callable[[], str], place: Path = ROOT
) -> Path:
    """Has cargo build, and returns the program of this name, in the target directory."""
    words = [*command, "--message-format=json-render-diagnostics"]
    for line in reversed(run_long(words, stop, failure, place=place).splitlines()):
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return Path(message["executable"])
    raise Failure(f"cargo built no program named {name}")


def _setup(options: list[str], stop: Stop) -> None:
    command = [str(ROOT / "scripts/setup"), *options]
    run_long(command, stop, "scripts/setup failed", place=ROOT, may_ask=True)


def _why(wanted: Wanted) -> str:
    """Why a build may have failed, in addition to cargo's message."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()
    for place in (target, Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")):
        there = next(parent for parent in (place, *place.parents) if parent.exists())
        free = shutil.disk_usage(there).free
        if free < _LEAST_FREE:
            remedy = "make room, or let CARGO_TARGET_DIR name a folder on another disk"
            return (
                f"the build failed: {free >> 20} MB are free at {there}, a build takes about 1000: {remedy}"
            )
    needed = [word if word != "build" else "tree" for word in wanted.command() if word not in _OF_BUILD]
    if subprocess.run([*needed, "--offline"], cwd=ROOT, capture_output=True, check=False).returncode != 0:
        return (
            "the build failed: crates are missing and could not be downloaded: is there a network? "
            "After cargo fetch --locked, with a network, builds need none"
        )
    return "the build failed; what cargo said is above"


def cargo() -> str:
    """The program cargo; rustup may install it outside PATH."""
    found = shutil.which("cargo") or shutil.which(Path.home() / ".cargo/bin/cargo")
    if not found:
        raise Failure("Rust is missing: install the toolchain that Cargo.toml names (rust-version)")
    return str(found)


def lab(binary: Path) -> Path:
    return beside(binary, "pascaline-lab")


def fleet(binary: Path) -> Path:
    return beside(binary, "pascaline-fleet")


def beside(binary: Path, name: str) -> Path:
    found = binary.with_name(name)
    if not found.is_file():
        raise Failure(f"{found} is missing: build it with cargo build --release -p {name}")
    return found


def become_root(script: Path | str, arguments: list[str], binary: Path | None = None) -> None:
    """Starts a script or a module again as root unless it is; everything was built before."""
    if os.geteuid() == 0:
        return
    sudo = _sudo()
    program = [str(script)] if isinstance(script, Path) else ["-m", script]
    command = [sudo, "--", "env", *handed_on(), sys.executable, "-B", *program, *arguments]
    if binary:
        command += ["--binary", str(binary)]
    os.execv(sudo, command)


def root_is_possible() -> None:
    """Fails at once where a script could not become root later, with nothing made yet."""
    if os.geteuid() != 0:
        # Asks for a password here, not after a build of minutes.
        if subprocess.run([_sudo(), "--", "true"], check=False).returncode != 0:
            raise Unable("network namespaces and raw ports need root, and sudo refuses: run it as root")
        return
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    has = int(status["CapEff"], 16)
    lacks = [name for name, bit in _NEEDED.items() if not has >> bit & 1]
    if lacks:
        remedy = "run it on the host, or in a container with --privileged"
        raise Unable(
            f"root lacks {', '.join(lacks)} here, which network namespaces and raw ports need: {remedy}"
        )


def _sudo() -> str:
    found = shutil.which("sudo")
    if not found:
        raise Unable("network namespaces and raw ports need root, and there is no sudo: run it as root")
    return found


def handed_on() -> list[str]:
    """Variables that sudo would drop: paths of the user's programs and builds. Root's own are needed, too."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path += [folder for folder in _ROOTS_PATH if folder not in path]
    kept = [f"{name}={os.environ[name]}" for name in ("CARGO_TARGET_DIR", "PYTHONPATH") if name in os.environ]
    return [f"PATH={os.pathsep.join(path)}", *kept]
