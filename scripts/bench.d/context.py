"""What every section needs to know."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import build
import call_cost
from process import Stop


@dataclass(frozen=True)
class Context:
    """A run of scripts/bench."""

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
        """Tells whoever is waiting what happens now."""
        print(f"bench: {text}", file=sys.stderr, flush=True)

    def pick(self, whole: int, quick: int) -> int:
        """One of two, for a whole report and a quick one."""
        return quick if self.quick else whole
