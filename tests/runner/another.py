"""Steps that another process runs."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from build import handed_on
from tests.runner.part import Part
from tests.runner.shell import NICE, ROOT

_GRACE_SECONDS = 60.0


def words(part: Part, said: Path, more: Sequence[str]) -> list[str]:
    """The command of a process that runs a part, and leaves its outcomes in a file."""
    said.unlink(missing_ok=True)
    return [sys.executable, "-B", "-m", "tests.runner", "--part", part.value, "--said", str(said), *more]


def by_sudo(logs: Path, more: Sequence[str]) -> list[dict[str, Any]]:
    """The outcomes of the steps that need root."""
    said = logs / "as-root.json"
    command = ("sudo", "-n", "env", *handed_on(), *words(Part.ROOT, said, more))
    subprocess.run(command, cwd=ROOT, check=False)
    return _outcomes(said)


class Beside:
    """Steps that run while this process compiles, which then gives way to them."""

    def __init__(self, logs: Path, more: Sequence[str]) -> None:
        self._more = more
        self._said, self._log = logs / "beside.json", logs / "beside.log"
        self._child: subprocess.Popen[bytes] | None = None

    def before(self, title: str) -> None:
        """Begins after the tests of Rust; ends before those of programs and ports, which take both cores."""
        if title.startswith("rust/cargo: lints"):
            command = words(Part.BESIDE, self._said, self._more)
            with self._log.open("wb") as log:
                self._child = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            os.environ[NICE] = "1"
        elif not title.startswith(("static/", "scripts/", "rust/")):
            self.wait()

    def wait(self) -> None:
        """Waits for its end."""
        os.environ.pop(NICE, None)
        if self._child and self._child.poll() is None:
            print("(waiting for the steps that run beside these) ", end="", flush=True)
            self._child.wait()

    def outcomes(self) -> list[dict[str, Any]]:
        """Their outcomes; prints their progress."""
        if not self._child:
            return []
        self.wait()
        print(self._log.read_text(errors="replace"), flush=True)
        return _outcomes(self._said)

    def stop(self) -> None:
        """Has it clean up and end."""
        if self._child and self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
            try:
                self._child.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._child.kill()


def _outcomes(said: Path) -> list[dict[str, Any]]:
    if not said.exists():
        return [{"title": f"steps of another process: {said.stem}", "failures": ["ended without a report"]}]
    found: list[dict[str, Any]] = json.loads(said.read_text())
    return found
