"""What every section needs to know."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import call_cost
import programs
from figure import Section
from process import Failure, Stop


@dataclass(frozen=True)
class Context:
    binary: Path
    # Logs and configurations of what is started; one directory per section.
    files: Path
    # Where peers are installed that are no Debian packages.
    peers: Path
    stop: Stop
    quick: bool
    # Install nothing and measure no peer that is no part of DPDK.
    alone: bool = False
    # Links' rates in Mbit/s for the allreduces; 0 for the default, which depends on the number of workers.
    mbit: int = 0
    workers: tuple[int, ...] = ()
    # A checkout of OmniReduce.
    omnireduce: Path | None = None
    # What `ends` measures calls of; none if it does not.
    calls: call_cost.Built | None = None

    @property
    def lab(self) -> Path:
        """The program with the benches."""
        return build.lab(self.binary)

    def say(self, text: str) -> None:
        print(f"bench: {text}", file=sys.stderr, flush=True)

    @contextmanager
    def attempt(self, section: Section, name: str) -> Iterator[None]:
        """What fails inside is told in the section, and leaves the rest of it."""
        self.stop.check()
        self.say(f"{section.name}: {name}")
        try:
            yield
        except Failure as failure:
            section.failures.append(f"{name}: {failure}")
            self.say(f"{name}: {failure.whole}")

    def ask_lab(self, name: str, words: str, seconds: float) -> dict[str, Any]:
        """The JSON object that `pascaline-lab` prints for these words."""
        self.stop.check()
        command = [str(self.lab), *words.split(), "--json"]
        return programs.json_of(name, command, self.files, self.stop, seconds)

    def pick(self, whole: int, quick: int) -> int:
        """One of two, for a whole report and a quick one."""
        return quick if self.quick else whole
