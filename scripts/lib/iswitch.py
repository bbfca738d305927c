"""scripts/demo --mode iswitch: asynchronous training without a server; H of N gradients make an iteration.

Workers train towards numbers that all of them know. The last one takes more than twice as long for a
gradient. A run is good if all workers end with the same model, bit by bit, near the solution, if each
iteration has the gradients of at least H ranks, if the slow rank has missed iterations, and if no gradient
was staler than the bound when it was offered.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import netns
from appliance import JOB, UDP_PORT, Appliance, Settings
from netns import APPLIANCE_ADDRESS, Network
from options import Options
from process import Child, Failure, Stop, say

_ITERATIONS = 300
_FAST, _SLOW = "4ms", "10ms"
_EXIT_SECONDS = 6.0


@dataclass
class Outcome:
    """What the workers said, rank by rank."""

    bound: int
    needed: int
    ranks: list[dict[str, Any]]
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it went as it should."""
        return not self.problems

    def judge(self) -> None:
        """Compares the ranks."""
        inside = sum(rank["contributed"] for rank in self.ranks)
        staler = [rank["rank"] for rank in self.ranks if rank["most_stale"] > self.bound]
        checks = [
            (len({rank["checksum"] for rank in self.ranks}) == 1, "the ranks have different models"),
            (all(rank["verified"] for rank in self.ranks), "a model is not near the solution"),
            (inside >= self.needed * _ITERATIONS, f"only {inside} gradients in {_ITERATIONS} iterations"),
            (not staler, f"ranks {staler} have offered gradients that are too stale"),
            (self.ranks[-1]["missed"] > 0, "the slow rank has missed nothing: nothing was asynchronous"),
        ]
        self.problems += [problem for holds, problem in checks if not holds]

    def text(self) -> str:
        """The table."""
        lines = [
            f"{_ITERATIONS} iterations of {self.needed} of {len(self.ranks)} gradients, staleness at most "
            f"{self.bound}; rank {len(self.ranks) - 1} computes for {_SLOW}, the others for {_FAST}",
            "rank   inside  missed  too stale  most stale  from solution  model",
        ]
        lines += [
            f"{rank['rank']:4} {rank['contributed']:8} {rank['missed']:7} {rank['stale']:10} "
            f"{rank['most_stale']:11} {rank['error_max']:14.4f}  {rank['checksum']}"
            for rank in self.ranks
        ]
        models = len({rank["checksum"] for rank in self.ranks})
        lines.append(
            f"{'✓' if self.good else '✗'} {models} model at {len(self.ranks)} ranks, bit by bit. Inside: "
            "gradients that are part of an iteration; missed: iterations without this rank's"
        )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The object of --json."""
        return {
            "ok": self.good,
            "iterations": _ITERATIONS,
            "needed": self.needed,
            "staleness": self.bound,
            "models": len({rank["checksum"] for rank in self.ranks}),
            "verified": sum(rank["verified"] for rank in self.ranks),
            "ranks": self.ranks,
            "problems": self.problems,
        }


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    """One run, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    workers = options.workers
    needed = max(1, workers - 1)
    network = Network(workers, options.mtu, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [network], files, keep=options.keep)
        files.mkdir(mode=0o700)
        network.create()
        settings = Settings(
            options.driver, options.pool_slots, min(512, options.pool_slots // 2), "iswitch",
            job_keys=f"threshold = {needed}\n",
        )  # fmt: skip
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        say(f"{workers} workers; {needed} gradients make an iteration")
        children = [_worker(options, binary, network, files, rank) for rank in range(workers)]
        for child in children:
            cleanup.callback(child.stop, _EXIT_SECONDS)

        def ended() -> bool:
            appliance.check_running()
            return all(child.exit_code() is not None for child in children)

        if not stop.wait_for(ended, options.timeout):
            raise Failure("the workers do not come to an end", appliance.tail())
        outcome = Outcome(options.staleness, needed, [child.said() for child in children])
        outcome.judge()
        if appliance.stop() != 0:
            outcome.problems.append("the appliance did not leave in good order")
        return outcome


def _worker(options: Options, binary: Path, network: Network, files: Path, rank: int) -> Child:
    slow = rank == options.workers - 1
    words: dict[str, object] = {
        "--appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}",
        "--job": JOB,
        "--rank": rank,
        "--ranks": options.workers,
        "--iterations": _ITERATIONS,
        "--staleness": options.staleness,
        "--compute": _SLOW if slow else _FAST,
        "--seed": options.seed,
    }
    command = [str(binary), "worker", "iswitch", "--json"]
    command += [word for option, value in words.items() for word in (option, str(value))]
    return Child(f"worker{rank}", command, files, network.workers[rank])
