"""scripts/demo --protocol switchml: allreduces by SwitchML's own UDP protocol, through the same appliance.

Workers register at the job's controller (gRPC) over a network of their own, as in a data centre, and send
packets of 64 or 256 integers. A run is good if every worker has verified every sum, and if the appliance
counted a result for each packet of the tensors, so that the sums were made there.
"""

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import configuration
import metrics as m
import netns
import report
from configuration import Settings, Tables
from metrics import Accounting, Metrics
from netns import Network
from options import Options
from process import Stop, say
from stage import Stage
from verdict import Verdict

_CONTROLLER = "10.88.0.254"
_PORT = 50099
_BRIDGE = "manage"


@dataclass
class Outcome(Verdict):
    options: Options
    ranks: list[dict[str, Any]]
    metrics: Metrics
    appliance_exit: int

    def __post_init__(self) -> None:
        options = self.options
        self.packet = _packet(options)
        self.verified = min(int(rank.get("verified", 0)) for rank in self.ranks)
        self.mismatches = self._sum("mismatches")
        self.results = self.metrics.total(m.RESULTS)
        # Results that the tensors take: with floats, exponents travel a window ahead.
        blocks = -(-options.bytes // self.packet)
        ahead = min(blocks, options.in_flight) if options.dtype == "f32" else 0
        self.packets = options.allreduces * (blocks + ahead)
        errors = [rank["error"] for rank in self.ranks if "error" in rank]
        made = f"the appliance made {self.results} results for {self.packets} packets"
        self.require((not errors, f"workers failed: {errors}"))
        self.require_sums(self.verified, options.allreduces, self.mismatches)
        self.require((self.results == self.packets, made))
        self.require_order(Accounting.of(self.metrics), self.appliance_exit)

    def _sum(self, key: str) -> int:
        return sum(int(rank.get(key, 0)) for rank in self.ranks)

    def text(self) -> str:
        options = self.options
        head = ("rank", "right", "wrong", "ms (median)", "sent", "again", "ignored")
        keys = ("packets_sent", "retransmissions", "ignored")
        rows = [
            (
                rank["rank"], rank["verified"], rank["mismatches"],
                f"{1000 * statistics.median(rank['seconds'] or [0]):.2f}", *(rank[key] for key in keys),
            )
            for rank in self.ranks
            if "verified" in rank
        ]  # fmt: skip
        return (
            f"{options.allreduces} allreduces of {options.bytes} bytes of {options.dtype} by "
            f"{options.workers} workers, SwitchML's packets of {self.packet} bytes, "
            f"{options.in_flight} under way\n{report.table(head, rows)}\n"
            f"the appliance made {self.results} results for {self.packets} packets of the tensors"
        )

    def told(self) -> dict[str, Any]:
        seconds = [value for rank in self.ranks for value in rank.get("seconds", [])]
        return {
            "protocol": "switchml",
            **self.options.named("workers", "allreduces", "bytes", "dtype"),
            "verified": self.verified,
            "mismatches": self.mismatches,
            "packet": self.packet,
            "seconds_per_allreduce": {"median": round(statistics.median(seconds or [0.0]), 6)},
            "results": self.results,
            "packets": self.packets,
            "results_sent": self.metrics.total(m.RESULTS_SENT),
            "drops": self.metrics.by_label(m.DROPPED, "reason"),
            "retransmissions": self._sum("retransmissions"),
            "ranks": self.ranks,
        }


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    network = Network(options.workers, options.mtu)
    with Stage(binary, stop, network, keep=options.keep) as stage:
        _manage(network)
        appliance = stage.appliance(network, _tables(options, network, stage.files))
        say(f"{options.workers} workers of SwitchML's protocol; their controller is {_CONTROLLER}:{_PORT}")
        words = f"worker switchml --json --controller {_CONTROLLER}:{_PORT} --ranks {options.workers}"
        words += f" --elements {options.bytes // 4} --iterations {options.allreduces} --dtype {options.dtype}"
        words += f" --packet {_packet(options)} --window {options.in_flight} --seed {options.seed}"
        children = [
            stage.pascaline(
                f"worker{rank}", f"{words} --rank {rank} --bind {netns.worker_address(rank)}", namespace
            )
            for rank, namespace in enumerate(network.workers)
        ]
        stage.wait(children, options.timeout, "the workers")
        ranks = [child.said() for child in children]
        metrics = appliance.settled(stop)
        return stage.judged(Outcome(options, ranks, metrics, appliance.stop()))


def _packet(options: Options) -> int:
    return options.payload or 1024


def _tables(options: Options, network: Network, files: Path) -> Tables:
    tables = configuration.whole(network, Settings.of(options, options.in_flight), files / "admin.sock")
    (job,) = tables["jobs"]
    del job["members"]
    job |= {"kind": "switchml", "switchml": {"controller": f"{_CONTROLLER}:{_PORT}"}}
    return tables


def _manage(network: Network) -> None:
    """A second network, of kernel addresses, between the workers and the appliance's host."""
    name = network.appliance
    for rank, worker in enumerate(network.workers):
        network.pair(worker, "mgmt0", name, f"mgmt{rank}")
        network.own(worker, f"10.88.0.{rank + 1}", "mgmt0")
    network.join(name, *(f"mgmt{rank}" for rank in range(len(network.workers))), bridge=_BRIDGE)
    network.own(name, _CONTROLLER, _BRIDGE)
