"""The context of every section."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import build
import call_cost
import programs
from figure import Section
from process import Failure, Stop, say


@dataclass(frozen=True)
class Cores:
    """The time of all cores together since the system started, in the kernel's ticks."""

    # The time that was wanted, and the part of it that a virtual machine's neighbours took.
    wanted: int
    stolen: int

    @classmethod
    def now(cls) -> Self:
        """Until now, of the first line of /proc/stat (proc_stat(5)). The first numbers include guests."""
        first = Path("/proc/stat").read_text().partition("\n")[0]
        user, nice, system, _idle, _waiting, hard, soft, stolen = (int(word) for word in first.split()[1:9])
        return cls(user + nice + system + hard + soft + stolen, stolen)

    def share_since(self, before: Self) -> float:
        """The part of the wanted time since then that others took."""
        wanted = self.wanted - before.wanted
        return (self.stolen - before.stolen) / wanted if wanted > 0 else 0.0


@dataclass(frozen=True)
class Context:
    binary: Path
    # Logs and configurations of processes; one directory per section.
    files: Path
    # The directory of peers that are no Debian packages.
    peers: Path
    stop: Stop
    # From the command line.
    options: argparse.Namespace
    # The libraries whose calls `ends` measures, if any.
    calls: call_cost.Built | None = None

    @property
    def lab(self) -> Path:
        return build.lab(self.binary)

    def say(self, text: str) -> None:
        say(f"bench: {text}")

    @contextmanager
    def attempt(self, section: Section, name: str) -> Iterator[None]:
        """Reports a failure inside in the section, and keeps the rest of it."""
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
        return quick if self.options.quick else whole
