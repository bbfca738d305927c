"""scripts/demo --protocol switchml: allreduces by SwitchML's own UDP protocol, through the same appliance.

Workers register at the job's controller (gRPC) over a network of their own, as in a data centre, and send
packets of 64 or 256 integers. A run is good if every worker has verified every sum, and if the appliance
counted a result for each packet of the tensors, so that they cannot have come from elsewhere.
"""

from __future__ import annotations

import os
import statistics
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import metrics as m
import netns
from appliance import Appliance, Settings, configuration
from metrics import Accounting, Metrics
from netns import Network
from options import Options
from process import Child, Failure, Stop, run, say

MOST_WORKERS = 31
PACKETS = (256, 1024)
_CONTROLLER = "10.88.0.254"
_PORT = 50099
_EXIT_SECONDS = 6.0
_BRIDGE = "manage"


@dataclass
class Outcome:
    """What the workers and the appliance said."""

    options: Options
    ranks: list[dict[str, Any]]
    metrics: Metrics
    appliance_exit: int
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it went as it should."""
        return not self.problems

    @property
    def verified(self) -> int:
        """Allreduces that every worker has verified."""
        return min(int(rank.get("verified", 0)) for rank in self.ranks)

    @property
    def mismatches(self) -> int:
        """Sums that were wrong, over all workers."""
        return sum(int(rank.get("mismatches", 0)) for rank in self.ranks)

    @property
    def results(self) -> int:
        """That the appliance made."""
        return self.metrics.total(m.RESULTS)

    @property
    def packets(self) -> int:
        """Results that the tensors take: with floats, exponents travel a window ahead."""
        options = self.options
        blocks = -(-options.bytes // _packet(options))
        ahead = min(blocks, _window(options)) if options.dtype == "f32" else 0
        return options.allreduces * (blocks + ahead)

    def judge(self) -> None:
        """Says what is not as it has to be."""
        wanted, accounting = self.options.allreduces, Accounting.of(self.metrics)
        errors = [rank["error"] for rank in self.ranks if "error" in rank]
        checks = [
            (not errors, f"workers failed: {errors}"),
            (self.verified == wanted, f"{self.verified} of {wanted} allreduces verified by all workers"),
            (not self.mismatches, f"{self.mismatches} mismatches"),
            (
                self.results == self.packets,
                f"the appliance made {self.results} results for {self.packets} packets",
            ),
            (accounting.holds, f"the appliance's accounts do not add up: {accounting}"),
            (self.appliance_exit == 0, f"the appliance's exit code is {self.appliance_exit}"),
        ]
        self.problems += [problem for holds, problem in checks if not holds]

    def text(self) -> str:
        """The table."""
        options = self.options
        lines = [
            f"{options.allreduces} allreduces of {options.bytes} bytes of {options.dtype} by "
            f"{options.workers} workers, SwitchML's packets of {_packet(options)} bytes, "
            f"{_window(options)} under way",
            "rank  right  wrong  ms (median)    sent  again  ignored",
        ]
        lines += [
            f"{rank['rank']:4} {rank['verified']:6} {rank['mismatches']:6} "
            f"{1000 * statistics.median(rank['seconds'] or [0]):12.2f} {rank['packets_sent']:7} "
            f"{rank['retransmissions']:6} {rank['ignored']:8}"
            for rank in self.ranks
            if "verified" in rank
        ]
        lines.append(f"the appliance made {self.results} results for {self.packets} packets of the tensors")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The object of --json."""
        seconds = [value for rank in self.ranks for value in rank.get("seconds", [])]
        return {
            "ok": self.good,
            "protocol": "switchml",
            "workers": self.options.workers,
            "allreduces": self.options.allreduces,
            "verified": self.verified,
            "mismatches": self.mismatches,
            "bytes": self.options.bytes,
            "dtype": self.options.dtype,
            "packet": _packet(self.options),
            "seconds_per_allreduce": {"median": round(statistics.median(seconds or [0.0]), 6)},
            "results": self.results,
            "packets": self.packets,
            "results_sent": self.metrics.total(m.RESULTS_SENT),
            "drops": self.metrics.by_label(m.DROPPED, "reason"),
            "retransmissions": sum(int(rank.get("retransmissions", 0)) for rank in self.ranks),
            "ranks": self.ranks,
            "problems": self.problems,
        }


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    """One run, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    network = Network(options.workers, options.mtu, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [network], files, keep=options.keep)
        files.mkdir(mode=0o700)
        network.create()
        _manage(network)
        appliance = Appliance(binary, network, _configuration(options, network, files), files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        say(f"{options.workers} workers of SwitchML's protocol; their controller is {_CONTROLLER}:{_PORT}")
        children = [_worker(options, binary, network, files, rank) for rank in range(options.workers)]
        for child in children:
            cleanup.callback(child.stop, _EXIT_SECONDS)

        def ended() -> bool:
            appliance.check_running()
            return all(child.exit_code() is not None for child in children)

        if not stop.wait_for(ended, options.timeout):
            raise Failure("the workers do not come to an end", appliance.tail())
        ranks = [child.said() for child in children]
        metrics = appliance.settled(stop)
        outcome = Outcome(options, ranks, metrics, appliance.stop())
        outcome.judge()
        return outcome


def _packet(options: Options) -> int:
    return options.payload or 1024


def _window(options: Options) -> int:
    return options.in_flight


def _configuration(options: Options, network: Network, files: Path) -> str:
    keys = f'protocol = "switchml"\ncontroller = "{_CONTROLLER}:{_PORT}"\n'
    settings = Settings(options.driver, options.pool_slots, options.in_flight, lcores=options.lcores)
    text = configuration(network, settings, files / "admin.sock")
    lines = [line for line in text.splitlines() if not line.startswith("members = ")]
    at = next(place for place, line in enumerate(lines) if line.startswith("fan_in = "))
    return "\n".join([*lines[: at + 1], keys.rstrip(), *lines[at + 1 :], ""])


def _manage(network: Network) -> None:
    """A second network, of kernel addresses, between the workers and the appliance's host."""
    name = network.appliance
    run("ip", "-n", name, "link", "add", "name", _BRIDGE, "type", "bridge")
    run("ip", "-n", name, "addr", "add", f"{_CONTROLLER}/24", "dev", _BRIDGE)
    run("ip", "-n", name, "link", "set", _BRIDGE, "up")
    for rank, worker in enumerate(network.workers):
        network.pair(worker, "mgmt0", name, f"mgmt{rank}")
        run("ip", "-n", name, "link", "set", f"mgmt{rank}", "master", _BRIDGE)
        run("ip", "-n", worker, "addr", "add", f"10.88.0.{rank + 1}/24", "dev", "mgmt0")


def _worker(options: Options, binary: Path, network: Network, files: Path, rank: int) -> Child:
    words: dict[str, object] = {
        "--controller": f"{_CONTROLLER}:{_PORT}",
        "--rank": rank,
        "--ranks": options.workers,
        "--bind": netns.worker_address(rank),
        "--elements": options.bytes // 4,
        "--iterations": options.allreduces,
        "--dtype": options.dtype,
        "--packet": _packet(options),
        "--window": _window(options),
        "--seed": options.seed,
    }
    command = [str(binary), "worker", "switchml", "--json"]
    command += [word for option, value in words.items() for word in (option, str(value))]
    return Child(f"worker{rank}", command, files, network.workers[rank])
