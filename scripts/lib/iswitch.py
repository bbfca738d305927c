"""scripts/demo --mode iswitch: asynchronous training without a server; H of N gradients make an iteration.

Workers train towards known numbers. The last one takes more than twice as long for a
gradient. A run is good if all workers end with the same model, bit by bit, near the solution, if each
iteration has the gradients of at least H ranks, if the slow rank has missed iterations, and if no gradient
was staler than the bound when it was offered.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from configuration import JOB, UDP_PORT, Settings
from netns import APPLIANCE_ADDRESS, Network
from options import Options
from process import Stop, say
from stage import Stage
from verdict import Verdict

_ITERATIONS = 300
_FAST, _SLOW = "4ms", "10ms"


@dataclass
class Outcome(Verdict):
    """The workers' reports, rank by rank."""

    bound: int
    needed: int
    ranks: list[dict[str, Any]]
    appliance_exit: int

    def __post_init__(self) -> None:
        inside = sum(rank["contributed"] for rank in self.ranks)
        staler = [rank["rank"] for rank in self.ranks if rank["most_stale"] > self.bound]
        self.models = len({rank["checksum"] for rank in self.ranks})
        self.require(
            (self.models == 1, "the ranks have different models"),
            (all(rank["verified"] for rank in self.ranks), "a model is not near the solution"),
            (inside >= self.needed * _ITERATIONS, f"only {inside} gradients in {_ITERATIONS} iterations"),
            (not staler, f"ranks {staler} have offered gradients that are too stale"),
            (self.ranks[-1]["missed"] > 0, "the slow rank has missed nothing: nothing was asynchronous"),
            (not self.appliance_exit, "the appliance did not leave in good order"),
        )

    def text(self) -> str:
        keys = ("rank", "contributed", "missed", "stale", "most_stale", "error_max", "checksum")
        head = ("rank", "inside", "missed", "too stale", "most stale", "from solution", "model")
        rows = [
            [f"{rank[key]:.4f}" if key == "error_max" else rank[key] for key in keys] for rank in self.ranks
        ]
        return (
            f"{_ITERATIONS} iterations of {self.needed} of {len(self.ranks)} gradients, staleness at most "
            f"{self.bound}; rank {len(self.ranks) - 1} computes for {_SLOW}, the others for {_FAST}\n"
            f"{report.table(head, rows)}\n"
            f"{'✓' if self.good else '✗'} {self.models} model at {len(self.ranks)} ranks, bit by bit. "
            "Inside: gradients that are part of an iteration; missed: iterations without this rank's"
        )

    def told(self) -> dict[str, Any]:
        return {
            "iterations": _ITERATIONS,
            "needed": self.needed,
            "staleness": self.bound,
            "models": self.models,
            "verified": sum(rank["verified"] for rank in self.ranks),
            "ranks": self.ranks,
        }


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    workers = options.workers
    needed = max(1, workers - 1)
    network = Network(workers, options.mtu)
    with Stage(binary, stop, network, keep=options.keep) as stage:
        threshold = f"early = {{ threshold = {needed} }}\n"
        window = min(512, options.pool_slots // 2)
        settings = Settings.of(options, window, policy="iswitch", job_keys=threshold)
        appliance = stage.appliance(network, settings)
        say(f"{workers} workers; {needed} gradients make an iteration")
        words = (
            f"worker iswitch --json --appliance {APPLIANCE_ADDRESS}:{UDP_PORT} --job {JOB} --ranks {workers}"
        )
        words += f" --iterations {_ITERATIONS} --staleness {options.staleness} --seed {options.seed}"
        children = []
        for rank, namespace in enumerate(network.workers):
            compute = _SLOW if rank == workers - 1 else _FAST
            own = f"{words} --rank {rank} --compute {compute}"
            children.append(stage.pascaline(f"worker{rank}", own, namespace))
        stage.wait(children, options.timeout, "the workers")
        ranks = [child.said() for child in children]
        return stage.judged(Outcome(options.staleness, needed, ranks, appliance.stop()))
