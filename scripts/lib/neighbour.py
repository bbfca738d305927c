"""scripts/demo --neighbour: what a job's allreduces take beside another job that never completes a PSN.

The workers do their allreduces in rounds: beside nobody, beside a neighbour whose packets the appliance
refuses at the parse, which is what they cost link and machine anyway, and beside the neighbour at its worst.
The ratios are of the medians over all rounds.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flood
import metrics as m
import netns
import report
from appliance import JOB, UDP_PORT, Appliance, Settings, device, policy_keys
from netns import Network
from option_checks import full_payload
from options import Options
from process import Child, Failure, Stop, run, say
from workers import Load, Workers

NUMBER = JOB + 16
_NAME = "neighbour"
_WINDOW = 512
_JOIN_SECONDS = 15.0
_STOP_SECONDS = 3.0
# By whom the workers are accompanied, in the order of a round. Every other round goes backwards, so that a
# drift of the machine hits all alike.
ALONE, REFUSED, BESIDE = "alone", "refused", "beside"


class Street(Network):
    """The workers' links, and one more for the neighbour."""

    def __init__(self, workers: int, mtu: int) -> None:
        super().__init__(workers, mtu, middle=False)
        self.neighbour = f"pas-{os.getpid()}-nb"
        self.port = self.ports

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        return [*super().namespaces, self.neighbour]

    def create(self) -> None:
        """Builds everything."""
        super().create()
        self.pair(self.neighbour, "eth0", self.appliance, f"pas{self.port}")
        address = f"{netns.worker_address(self.port)}/24"
        run("ip", "-n", self.neighbour, "addr", "add", address, "dev", "eth0")


def with_neighbour(settings: Settings, network: Street) -> str:
    """The neighbour's port and job: it uses the pool as the others do."""
    return f"""\
[[ports]]
name = "{_NAME}"
device = "{device(settings.driver, network.port, network.mtu, settings.ring, settings.lcores)}"
mtu = {network.mtu}

[[jobs]]
id = {NUMBER}
name = "{_NAME}"
fan_in = 2
window = {settings.window}
{policy_keys(settings)}"""


@dataclass
class Outcome:
    """What the rounds showed."""

    options: Options
    metrics: m.Metrics
    seconds: dict[str, list[float]]
    verified: int
    wanted: int
    mismatches: int
    sent: dict[str, list[int]]
    appliance_exit: int
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.accounting = m.Accounting.of(self.metrics)
        if self.verified != self.wanted:
            self.problems.append(f"{self.verified} of {self.wanted} allreduces verified by all workers")
        if self.mismatches:
            self.problems.append(f"{self.mismatches} mismatches")
        if not self.accounting.holds:
            self.problems.append(f"the appliance's accounts do not add up: {self.accounting}")
        if self.appliance_exit != 0:
            self.problems.append(f"the appliance's exit code after SIGTERM is {self.appliance_exit}")

    @property
    def good(self) -> bool:
        """Whether all sums are exact and all is accounted for. What the ratio may be is for others to say."""
        return not self.problems

    def ratio(self, kind: str, to: str = ALONE) -> float:
        """Of medians."""
        return round(statistics.median(self.seconds[kind]) / statistics.median(self.seconds[to]), 3)

    def to_json(self) -> dict[str, Any]:
        """The contract of --json."""
        return {
            "ok": self.good,
            "ratio": self.ratio(BESIDE),
            "control": self.ratio(REFUSED),
            "over_control": self.ratio(BESIDE, REFUSED),
            "mismatches": self.mismatches,
            "verified": self.verified,
            "allreduces": self.wanted,
            "policy": self.options.policy,
            "workers": self.options.workers,
            "lcores": self.options.lcores,
            "bytes": self.options.bytes,
            "seconds": {kind: round(statistics.median(all_), 6) for kind, all_ in self.seconds.items()},
            "neighbour": self.options.neighbour_sends,
            "neighbour_rate": self.options.neighbour_rate,
            "neighbour_sent_per_second": {kind: max(rates) for kind, rates in self.sent.items()},
            "drops": self.metrics.by_label(m.DROPPED, "reason"),
            "identity_holds": self.accounting.holds,
            "problems": self.problems,
        }

    def text(self) -> str:
        """For people."""

        def median(kind: str) -> str:
            return f"{statistics.median(self.seconds[kind]) * 1e3:.1f}"

        rows = [
            ["nobody", median(ALONE), "", ""],
            [
                "packets refused at the parse",
                median(REFUSED),
                f"{self.ratio(REFUSED):.2f}",
                _most(self.sent[REFUSED]),
            ],
            [
                f"a neighbour's {self.options.neighbour_sends}",
                median(BESIDE),
                f"{self.ratio(BESIDE):.2f}",
                _most(self.sent[BESIDE]),
            ],
        ]
        drops = ", ".join(f"{reason} {n}" for reason, n in self.metrics.by_label(m.DROPPED, "reason").items())
        return "\n".join(
            [
                report.table(["beside", "median ms", "times", "packets/s"], rows),
                f"{self.verified} of {self.wanted} allreduces verified by every worker, "
                f"{self.mismatches} mismatches; beside the neighbour {self.ratio(BESIDE, REFUSED):.2f} times "
                "what packets take that are refused at the parse",
                f"  drops by reason: {drops or 'none'}",
            ]
        )


def _most(rates: list[int]) -> str:
    return str(max(rates))


def demonstrate(
    options: Options, binary: Path, stop: Stop, network: Street, settings: Settings, load: Load
) -> Outcome:
    """One run, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [network], files, keep=options.keep)
        files.mkdir(mode=0o700)
        network.create()
        settings = _extended(settings, network)
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        run = _Run(options, binary, network, files, appliance, stop, load)
        cleanup.callback(run.end)
        for number in range(options.neighbour_rounds):
            order = (ALONE, REFUSED, BESIDE) if number % 2 == 0 else (BESIDE, REFUSED, ALONE)
            for kind in order:
                run.once(kind)
            say(f"  round {number + 1} of {options.neighbour_rounds}: " + run.told())
        found = appliance.settled(stop)
        code = appliance.stop()
        return Outcome(options, found, run.seconds, run.verified, run.wanted, run.mismatches, run.sent, code)


def _extended(settings: Settings, network: Street) -> Settings:
    return Settings(**{**vars(settings), "more": settings.more + with_neighbour(settings, network)})


class _Run:
    def __init__(
        self,
        options: Options,
        binary: Path,
        network: Street,
        files: Path,
        appliance: Appliance,
        stop: Stop,
        load: Load,
    ) -> None:
        self._options, self._network, self._files, self._appliance = options, network, files, appliance
        self._stop, self._load = stop, load
        self._workers = Workers(binary, network, files)
        self._child: Child | None = None
        self.seconds: dict[str, list[float]] = {ALONE: [], REFUSED: [], BESIDE: []}
        self.sent: dict[str, list[int]] = {REFUSED: [], BESIDE: []}
        self.verified = self.wanted = self.mismatches = 0

    def once(self, kind: str) -> None:
        """The workers' allreduces once, beside this."""
        if kind != ALONE:
            self._begin("refused" if kind == REFUSED else self._options.neighbour_sends)
        self._workers.start(self._load)
        self._workers.wait(self._stop, self._appliance.check_running, _ignore)
        results = self._workers.results()
        if kind != ALONE:
            self.sent[kind].append(self._end())
        self.seconds[kind] += [max(times) for times in zip(*(w["seconds"] for w in results), strict=True)]
        self.wanted += self._load.allreduces
        self.verified += min(worker["verified"] for worker in results)
        self.mismatches += sum(worker["mismatches"] for worker in results)

    def told(self) -> str:
        """The medians so far."""
        return ", ".join(
            f"{kind} {statistics.median(all_) * 1e3:.1f} ms" for kind, all_ in self.seconds.items()
        )

    def end(self) -> None:
        """Ends what runs."""
        self._workers.stop()
        if self._child:
            self._child.stop(_STOP_SECONDS)

    def _begin(self, kind: str) -> None:
        options = self._options
        arguments = [UDP_PORT, NUMBER, options.neighbour_rate, full_payload(options), _WINDOW, kind]
        command = [sys.executable, "-B", flood.__file__, *map(str, arguments)]
        child = self._child = Child(_NAME, command, self._files, self._network.neighbour)

        def joined() -> bool:
            if child.exit_code() is not None:
                raise Failure("the neighbour could not join", child.tail())
            return b"joined" in child.out.read_bytes()

        if not self._stop.wait_for(joined, _JOIN_SECONDS):
            raise Failure(f"the neighbour has not joined after {_JOIN_SECONDS:.0f} s", child.tail())

    def _end(self) -> int:
        child, self._child = self._child, None
        if not child or child.exit_code() is not None:
            raise Failure("the neighbour ended by itself", child.tail() if child else "")
        child.stop(_STOP_SECONDS)
        rate: int = json.loads(child.out.read_text().splitlines()[-1])["per_second"]
        return rate


def _ignore(_done: int) -> None:
    pass
