"""Getting the machine and the program ready."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from process import Failure, Stop

ROOT = Path(__file__).resolve().parents[2]
_GRACE_SECONDS = 10.0
_ROOTS_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


def ready(stop: Stop, binary: Path | None, *, with_lab: bool = False) -> Path:
    """Runs scripts/setup and builds the release; returns the program.

    With `binary` it builds nothing, and needs no Rust. `with_lab` asks for pascaline-lab as well: see `lab`.
    """
    setup = [str(ROOT / "scripts/setup"), *(["--no-rust"] if binary else [])]
    _run(setup, stop, "scripts/setup failed")
    if binary:
        if with_lab:
            lab(binary.resolve())
        return binary.resolve()
    command = [
        cargo(),
        "build",
        "--release",
        "--locked",
        "-p",
        "pascaline",
        *(["-p", "pascaline-lab"] if with_lab else []),
    ]
    # Cargo says where it put the program; the target directory may be anywhere.
    messages = _run([*command, "--message-format=json-render-diagnostics"], stop, "the build failed")
    for line in reversed(messages.splitlines()):
        message = json.loads(line)
        if message.get("executable") and message.get("target", {}).get("name") == "pascaline":
            return Path(message["executable"])
    raise Failure("cargo built no program named pascaline")


def cargo() -> str:
    """The program, which rustup puts where PATH may not lead."""
    found = shutil.which("cargo") or shutil.which(Path.home() / ".cargo/bin/cargo")
    if not found:
        raise Failure("Rust is missing: install the toolchain that Cargo.toml names (rust-version)")
    return str(found)


def lab(binary: Path) -> Path:
    """The laboratory's program, beside the other."""
    found = binary.with_name("pascaline-lab")
    if not found.is_file():
        raise Failure(f"{found} is missing: build it with cargo build --release -p pascaline-lab")
    return found


def _run(command: list[str], stop: Stop, failure: str) -> str:
    """Runs a long command with its progress on our stderr and returns its stdout; a signal ends it too."""
    child = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    )
    try:
        while True:
            stop.check()
            try:
                output, _ = child.communicate(timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                continue
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait(_GRACE_SECONDS)
    if child.returncode != 0:
        raise Failure(failure)
    return output


def become_root(script: Path, arguments: list[str], binary: Path | None = None) -> None:
    """Starts the script again as root unless it is already; what it needs was built before, not as root."""
    if os.geteuid() == 0:
        return
    sudo = shutil.which("sudo")
    if not sudo:
        raise Failure("network namespaces and raw ports need root, and there is no sudo: run it as root")
    command = [sudo, "--", "env", *_handed_on(), sys.executable, "-B", str(script), *arguments]
    if binary:
        command += ["--binary", str(binary)]
    os.execv(sudo, command)


def _handed_on() -> list[str]:
    """What sudo would drop: where the user's programs and builds are. Root's own programs are needed, too."""
    path = os.environ.get("PATH", os.defpath).split(os.pathsep)
    path += [folder for folder in _ROOTS_PATH if folder not in path]
    target = os.environ.get("CARGO_TARGET_DIR")
    return [f"PATH={os.pathsep.join(path)}", *([f"CARGO_TARGET_DIR={target}"] if target else [])]
