"""scripts/demo --neighbour: the time of a job's allreduces beside another job that never completes a PSN.

The workers do their allreduces in rounds: alone, beside a neighbour whose packets the appliance refuses at
the parse (their cost to link and machine in any case), and beside the neighbour at its worst. The ratios
are of the medians over all rounds.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import configuration
import flood
import metrics as m
import netns
import report
from configuration import JOB, Settings, device, policy_keys
from netns import Network
from options import Options
from process import Failure, Stop, say
from stage import Stage
from verdict import Verdict
from workers import Load

NUMBER = JOB + 16
_NAME = "neighbour"
_WINDOW = 512
_JOIN_SECONDS = 15.0
_STOP_SECONDS = 3.0
# The neighbours, in the order of a round. Every other round is reversed, so that a
# drift of the machine hits all alike.
ALONE, REFUSED, BESIDE = "alone", "refused", "beside"


class Street(Network):
    """The workers' links, and one more for the neighbour."""

    def __init__(self, workers: int, mtu: int) -> None:
        super().__init__(workers, mtu)
        self.neighbour = f"{self.prefix}-nb"
        self.others, self.port = [self.neighbour], self.ports

    def create(self) -> None:
        super().create()
        self.pair(self.neighbour, "eth0", self.appliance, f"pas{self.port}")
        self.own(self.neighbour, netns.worker_address(self.port), "eth0")


def with_neighbour(settings: Settings, network: Street) -> Settings:
    """With the neighbour's port and job: it uses the pool as the others do."""
    interface = device(settings.driver, network.port, network.mtu, settings.ring, settings.lcores)
    job = {"id": NUMBER, "name": _NAME, "fan_in": 2, "window": settings.window, **policy_keys(settings)}
    ports = [configuration.port(_NAME, interface, network.mtu)]
    return replace(settings, more=settings.more + configuration.dumps({"ports": ports, "jobs": [job]}))


@dataclass
class Outcome(Verdict):
    """The results of the rounds, without a verdict on the ratio."""

    options: Options
    seconds: dict[str, list[float]] = field(default_factory=lambda: {ALONE: [], REFUSED: [], BESIDE: []})
    # Packets per second.
    sent: dict[str, list[int]] = field(default_factory=lambda: {REFUSED: [], BESIDE: []})
    verified: int = 0
    wanted: int = 0
    mismatches: int = 0

    def add(self, kind: str, load: Load, results: list[dict[str, Any]]) -> None:
        """Adds the workers' times of a part of a round."""
        self.seconds[kind] += [max(times) for times in zip(*(w["seconds"] for w in results), strict=True)]
        self.wanted += load.allreduces
        self.verified += min(worker["verified"] for worker in results)
        self.mismatches += sum(worker["mismatches"] for worker in results)

    def judge(self, found: m.Metrics, appliance_exit: int) -> Outcome:
        self.metrics, self.accounting = found, m.Accounting.of(found)
        self.require_sums(self.verified, self.wanted, self.mismatches)
        self.require_order(self.accounting, appliance_exit)
        return self

    def median(self, kind: str) -> float:
        """Seconds."""
        return statistics.median(self.seconds[kind])

    def ratio(self, kind: str, to: str = ALONE) -> float:
        """Of medians."""
        return round(self.median(kind) / self.median(to), 3)

    def told(self) -> dict[str, Any]:
        return {
            "ratio": self.ratio(BESIDE),
            "control": self.ratio(REFUSED),
            "over_control": self.ratio(BESIDE, REFUSED),
            "mismatches": self.mismatches,
            "verified": self.verified,
            "allreduces": self.wanted,
            **self.options.named("policy", "workers", "lcores", "bytes", "neighbour_rate"),
            "seconds": {kind: round(self.median(kind), 6) for kind in self.seconds},
            "neighbour": self.options.neighbour_sends,
            "neighbour_sent_per_second": {kind: max(rates) for kind, rates in self.sent.items()},
            "drops": self.metrics.by_label(m.DROPPED, "reason"),
            "identity_holds": self.accounting.holds,
        }

    def text(self) -> str:
        names = {
            ALONE: "nothing",
            REFUSED: "packets refused at the parse",
            BESIDE: f"a neighbour's {self.options.neighbour_sends}",
        }
        rows = [
            [
                names[kind], f"{self.median(kind) * 1e3:.1f}",
                *([f"{self.ratio(kind):.2f}", max(self.sent[kind])] if kind in self.sent else ["", ""]),
            ]
            for kind in self.seconds
        ]  # fmt: skip
        return (
            f"{report.table(['beside', 'median ms', 'times', 'packets/s'], rows)}\n"
            f"{self.verified} of {self.wanted} allreduces verified by every worker, "
            f"{self.mismatches} mismatches; beside the neighbour {self.ratio(BESIDE, REFUSED):.2f} times "
            f"what packets take that are refused at the parse\n{report.drops(self.metrics)}"
        )


def demonstrate(options: Options, binary: Path, stop: Stop, network: Street, settings: Settings) -> Outcome:
    load, outcome = Load.of(options, network), Outcome(options)
    with Stage(binary, stop, network, keep=options.keep) as stage:
        appliance = stage.appliance(network, with_neighbour(settings, network))
        workers = stage.workers(network)
        for number in range(options.neighbour_rounds):
            order = (ALONE, REFUSED, BESIDE) if number % 2 == 0 else (BESIDE, REFUSED, ALONE)
            for kind in order:
                sends = {REFUSED: "refused", BESIDE: options.neighbour_sends}.get(kind)
                beside = sends and _Flood(stage, network, options, sends)
                workers.start(load)
                workers.wait(stop, stage.check, lambda _: None)
                results = workers.results()
                if beside:
                    outcome.sent[kind].append(beside.end())
                outcome.add(kind, load, results)
            told = [f"{kind} {outcome.median(kind) * 1e3:.1f} ms" for kind in outcome.seconds]
            say(f"  round {number + 1} of {options.neighbour_rounds}: {', '.join(told)}")
        found = appliance.settled(stop)
        return stage.judged(outcome.judge(found, appliance.stop()))


class _Flood:
    """The neighbour's packets, until `end`."""

    def __init__(self, stage: Stage, network: Street, options: Options, sends: str) -> None:
        arguments = [NUMBER, options.neighbour_rate, options.full_payload, _WINDOW, sends]
        command = [sys.executable, "-B", flood.__file__, *arguments]
        self._child = stage.child(_NAME, command, network.neighbour, seconds=_STOP_SECONDS)

        def joined() -> bool:
            if self._child.exit_code() is not None:
                raise Failure("the neighbour could not join", self._child.tail())
            return b"joined" in self._child.out.read_bytes()

        if not stage.stop.wait_for(joined, _JOIN_SECONDS):
            raise Failure(f"the neighbour has not joined after {_JOIN_SECONDS:.0f} s", self._child.tail())

    def end(self) -> int:
        """Packets per second that it has sent."""
        if self._child.exit_code() is not None:
            raise Failure("the neighbour ended by itself", self._child.tail())
        self._child.stop(_STOP_SECONDS)
        return int(self._child.said()["per_second"])
