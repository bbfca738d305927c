"""Pascaline's programs: built when a test asks for one, and only once."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.runner.shell import ROOT

# Optimised where it matters, and built in a third of the release's time: that is for packages and benches.
PROFILE = "demo"
# All at once: which features a dependency has depends on what is built with it.
_OPTIMISED = ("-p", "pascaline", "-p", "pascaline-fleet", "-p", "pascaline-lab")
# As for the tests of Rust, which have built everything but the programs themselves.
_FOR_TESTS = ("--workspace", "--bins", "--tests")


class Programs:
    def __init__(self, target: Path, environment: Mapping[str, str], profile: str = PROFILE) -> None:
        self._target = target
        self._environment = environment
        self._profile = profile
        self._directory: Path | None = None

    @property
    def directory(self) -> Path:
        """Where they are. `scripts/test --programs DIR` uses those of another build."""
        if self._directory is None:
            given = os.environ.get("PASCALINE_PROGRAMS")
            self._directory = Path(given).resolve() if given else self._build()
        return self._directory

    def get(self, name: str) -> Path:
        """One of them."""
        found = self.directory / name
        if not found.is_file():
            pytest.fail(f"there is no {found}", pytrace=False)
        return found

    def _build(self) -> Path:
        wanted = _FOR_TESTS if self._profile == "dev" else _OPTIMISED
        command = ("cargo", "build", "--locked", "--profile", self._profile, *wanted)
        done = subprocess.run(
            command, cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.fail(f"{' '.join(command)}\n{done.stderr[-4000:]}", pytrace=False)
        built = self._target / ("debug" if self._profile == "dev" else self._profile)
        return built if self._profile == "dev" else self._apart(built)

    def _apart(self, built: Path) -> Path:
        """Their own directory: the build of a demonstration would replace them, with fewer features."""
        kept = self._target / "programs"
        kept.mkdir(exist_ok=True)
        for package in _OPTIMISED[1::2]:
            # Another process may be running the one that is there.
            fresh = kept / f".{package}-{os.getpid()}"
            shutil.copy2(built / package, fresh)
            fresh.replace(kept / package)
        return kept
