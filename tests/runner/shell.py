"""Programs that a test runs: bounded in time, with their output in the test's log."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from process import Child

ROOT = Path(__file__).resolve().parents[2]
# Set in the environment of a run beside which other steps run: compilers and the like give way to those.
NICE = "PASCALINE_TEST_NICE"
# The exit code of a program that cannot run on this machine; the last line that it printed is the reason.
CANNOT_RUN = 77
_TAIL_LINES = 40
_COLUMNS = 200
# How long a program has to clean up after it was asked to end.
_GRACE_SECONDS = 20.0


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Shell:
    """Runs programs in the root of the repository."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self.environment = dict(environment)
        log.write_text("")

    def __call__(
        self,
        *command: object,
        seconds: float = 600,
        code: int | None = 0,
        environment: Mapping[str, str] | None = None,
    ) -> Done:
        """Runs a program. The test fails if it takes longer, or ends with another exit code (None: any)."""
        words = [*("nice", "-n", "19") * (NICE in os.environ), *(str(word) for word in command)]
        self._write(f"$ {' '.join(words)}\n")
        variables = {**self.environment, **(environment or {})}
        child = Child(self.log.stem, words, self.log.parent, environment=variables, place=ROOT)
        try:
            found = child.wait(seconds)
        finally:
            # With all its processes.
            child.stop(_GRACE_SECONDS)
        done = Done(-1 if found is None else found, _text(child.out), _text(child.err))
        self._write(done.err + done.out)
        for file in (child.out, child.err):
            file.unlink()
        if found is None:
            self._fail(f"not done after {seconds:g} s: {' '.join(words)}")
        if done.code == CANNOT_RUN and code != CANNOT_RUN:
            lines = done.text.splitlines()
            pytest.skip(lines[-1] if lines else "it cannot run here")
        if code is not None and done.code != code:
            self._fail(f"exit code {done.code}, not {code}: {' '.join(words)}")
        return done

    def json(self, *command: object, **options: Any) -> dict[str, Any]:
        """Runs a program whose last line is a JSON object, and returns that."""
        lines = self(*command, **options).out.splitlines()
        try:
            said = json.loads(lines[-1])
        except (IndexError, ValueError):
            said = None
        if not isinstance(said, dict):
            self._fail(f"the last line is no JSON object: {' '.join(map(str, command))}")
        return said

    def _write(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(text if not text or text.endswith("\n") else f"{text}\n")

    def _fail(self, why: str) -> None:
        shown = why if len(why) <= _COLUMNS else f"{why[:_COLUMNS]}…"
        pytest.fail(f"{shown} (see {self.log})", pytrace=False)


def holds(said: Mapping[str, Any], conditions: str) -> None:
    """Fails with those of the conditions, `;` between, that do not hold of a report, whose keys they name."""
    each = [condition.strip() for condition in conditions.split(";")]
    wrong = [condition for condition in each if condition and not eval(condition, {}, dict(said))]
    assert not wrong, f"{'; '.join(wrong)}: {said}"


@cache
def repository_files(*below: str) -> list[str]:
    """Existing files that are in the repository or would be added to it."""
    command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *below)
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    return "\n".join(f"  | {line}" for line in _text(log).splitlines()[-lines:])


def environment_of(target: Path) -> dict[str, str]:
    """The user's environment, with Rust and the tools of the tests in PATH."""
    places = (target / "tools/tests/bin", os.environ.get("PATH", os.defpath), Path.home() / ".cargo/bin")
    return {**os.environ, "PATH": os.pathsep.join(map(str, places)), "CARGO_TERM_COLOR": "never"}


def _text(file: Path) -> str:
    return file.read_text(errors="replace")
