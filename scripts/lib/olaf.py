"""scripts/demo --mode olaf: asynchronous updates queue before a narrow line, in a FIFO and in Olaf's queue.

Nine clusters of three workers and a parameter server, each cluster and the server in a namespace of its own.
The port towards the server is shaped; the workers offer a multiple of what it lets through, the same in both
runs. What came of it is read off the appliance's counters and the server's Age-of-Model at the end of each
run.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import build
import netns
from appliance import TELEMETRY, Appliance, device, tables
from metrics import Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network, worker_address
from olaf_parts import (
    DISCIPLINES,
    EXIT_SECONDS,
    FRAME_BITS,
    JOIN_SECONDS,
    SERVER_TELEMETRY,
    clusters_heard,
    compare,
    scrape_server,
    worker,
)
from options import OUTSTANDING, Options
from process import Child, Failure, Stop, run, say

CLUSTERS = 9
WORKERS = 3
PLACES = 8
# Updates per second that the shaped port lets through: few, so that two cores are enough for everything.
_LINE = 50.0
# What must hold at the highest load.
_LOSS_SHARE = 1 / 5


@dataclass
class Figures:
    """One run."""

    offered: float
    received: int
    aggregated: int
    lost_pct: float
    aom_ms: float
    jain: float
    log: Path

    def to_json(self) -> dict[str, Any]:
        """The figures alone."""
        return {
            "received": self.received,
            "aggregated": self.aggregated,
            "lost_pct": round(self.lost_pct, 2),
            "aom_ms": round(self.aom_ms, 2),
            "jain": round(self.jain, 4),
            "updates": self.offered,
        }


@dataclass
class Outcome:
    """All runs: for each load, FIFO and Olaf."""

    loads: dict[float, dict[str, Figures]]
    picture: Path
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether it went as it should."""
        return not self.problems

    def judge(self) -> None:
        """Looks at the highest load."""
        highest = max(self.loads)
        fifo, olaf = (self.loads[highest][name] for name in DISCIPLINES)
        self.problems += compare(
            highest, (fifo.lost_pct, fifo.aom_ms), (olaf.lost_pct, olaf.aom_ms), (_LOSS_SHARE, "a fifth")
        )

    def text(self) -> str:
        """The table."""
        lines = [
            f"{CLUSTERS} clusters of {WORKERS} workers; the line takes {_LINE:.0f} updates/s, its queue "
            f"{PLACES}; a worker has up to {OUTSTANDING} unanswered updates "
            f"(--outstanding {OUTSTANDING}; its own default is 1)",
            "offered  queue   updates  received  aggregated   lost %  mean AoM, ms    Jain",
        ]
        for load, runs in self.loads.items():
            lines += [
                f"{load:5.1f} x  {name:5} {figures.offered:9.0f} {figures.received:9} {figures.aggregated:11}"
                f" {figures.lost_pct:8.1f} {figures.aom_ms:13.1f} {figures.jain:7.3f}"
                for name, figures in runs.items()
            ]
        return "\n".join([*lines, f"Age-of-Model over time: {self.picture}"])

    def to_json(self) -> dict[str, Any]:
        """The object of --json: the highest load, then all."""
        rows = [
            {"offered": load, **{name: figures.to_json() for name, figures in runs.items()}}
            for load, runs in self.loads.items()
        ]
        highest = {name: figures.to_json() for name, figures in self.loads[max(self.loads)].items()}
        return {
            "ok": self.good,
            **highest,
            "loads": rows,
            "picture": str(self.picture),
            "problems": self.problems,
        }


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    """All runs, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    network = Network(CLUSTERS + 1, options.mtu, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [network], files, keep=options.keep)
        files.mkdir(mode=0o700)
        network.create()
        loads: dict[float, dict[str, Figures]] = {}
        problems: list[str] = []
        for load in options.loads:
            loads[load] = {}
            for discipline in DISCIPLINES:
                say(f"{load:g} x the line's rate, {discipline}")
                place = files / f"{load:g}-{discipline}"
                place.mkdir()
                one = _Run(binary, network, options, place, load, discipline)
                loads[load][discipline] = one.measure(stop)
                problems += one.problems
        picture = options.picture.resolve()
        picture.parent.mkdir(parents=True, exist_ok=True)
        highest = loads[max(loads)]
        logs = [f"{name}, {max(loads):g} x the line's rate={highest[name].log}" for name in DISCIPLINES]
        run(str(build.lab(binary)), "plot", "aom", "--out", str(picture), *logs)
        outcome = Outcome(loads, picture, problems)
        outcome.judge()
        return outcome


class _Run:
    """An appliance, a server and all workers, for one load and one discipline."""

    def __init__(
        self, binary: Path, network: Network, options: Options, files: Path, load: float, discipline: str
    ) -> None:
        self._binary = binary
        self._network = network
        self._options = options
        self._files = files
        self._load = load
        self._discipline = discipline
        self._server_namespace = network.workers[CLUSTERS]
        self.problems: list[str] = []

    def measure(self, stop: Stop) -> Figures:
        """Runs the load, and reads what came of it while it still lasts."""
        with ExitStack() as cleanup:
            appliance = Appliance(self._binary, self._network, self._configuration(), self._files)
            cleanup.callback(appliance.stop)
            appliance.wait_ready(stop)
            log = self._files / "updates.jsonl"
            command = [
                str(self._binary),
                "ps",
                "-c",
                str(self._files / "appliance.toml"),
                "--aom-log",
                str(log),
            ]
            server = Child("ps", command, self._files, self._server_namespace)
            cleanup.callback(server.stop, EXIT_SECONDS)
            workers = [self._worker(cluster, rank) for cluster in range(CLUSTERS) for rank in range(WORKERS)]
            for one in workers:
                cleanup.callback(one.stop, EXIT_SECONDS)

            def running() -> bool:
                appliance.check_running()
                for child in (server, *workers):
                    if child.exit_code() is not None:
                        raise Failure(f"{child.name} ended too early", child.tail())
                return clusters_heard(self._server_namespace) == CLUSTERS

            if not stop.wait_for(running, JOIN_SECONDS):
                raise Failure(
                    "the workers' first updates do not arrive", f"{server.tail()}\n{appliance.tail()}"
                )
            end = time.monotonic() + self._options.seconds
            while time.monotonic() < end:
                stop.sleep(0.2)
                running()
            figures = self._read(appliance.scrape(), scrape_server(self._server_namespace), log)
        # The server has ended by now, and its log is whole.
        if server.exit_code() != 0:
            self.problems.append(f"the parameter server ended with exit code {server.exit_code()}")
        return figures

    def _read(self, appliance: Metrics, server: Metrics, log: Path) -> Figures:
        for scrape, prefix in ((appliance, "pascaline_olaf_"), (server, "pascaline_aom_")):
            if not scrape.names(prefix):
                self.problems.append(f"no metric begins with {prefix}")
        offered = appliance.total("pascaline_olaf_received_total")
        if not offered:
            raise Failure("no update has come to the queue")
        ages = server.values("pascaline_aom_seconds")
        counted = {"applied", "low_reward"}
        verdicts = server.by_label("pascaline_ps_updates_total", "verdict")
        if len(ages) != CLUSTERS:
            self.problems.append(f"the server knows the age of {len(ages)} clusters")
        if not Accounting.of(appliance).received:
            self.problems.append("the appliance has received nothing")
        lost = appliance.by_label("pascaline_olaf_dropped_total", "cause").get("full", 0)
        merged = sum(appliance.total(f"pascaline_olaf_{what}_total") for what in ("aggregated", "replaced"))
        return Figures(
            offered=offered,
            received=sum(count for verdict, count in verdicts.items() if verdict in counted),
            aggregated=merged,
            lost_pct=100.0 * lost / offered,
            aom_ms=1000.0 * sum(ages) / max(1, len(ages)),
            jain=server.values("pascaline_aom_jain")[0],
            log=log,
        )

    def _worker(self, cluster: int, rank: int) -> Child:
        interval = CLUSTERS * WORKERS / (self._load * _LINE)
        place = (f"worker{cluster}-{rank}", self._files, self._network.workers[cluster])
        return worker(self._binary, self._options, place, (cluster, rank, WORKERS), interval)

    def _configuration(self) -> str:
        mtu = self._network.mtu
        ports = "\n".join(
            f'[[ports]]\nname = "p{port}"\n'
            f'device = "{device(self._options.driver, port, mtu)}"\nmtu = {mtu}\n'
            for port in range(CLUSTERS + 1)
        )
        jobs = "\n".join(
            f'[[jobs]]\nid = {1 + cluster}\nname = "cluster{1 + cluster}"\n'
            f'fan_in = {WORKERS}\nmode = "olaf"\n'
            f"members = [{', '.join([f'{chr(34)}{worker_address(cluster)}{chr(34)}'] * WORKERS)}]\n"
            for cluster in range(CLUSTERS)
        )
        # The last port's table goes on: it is the one towards the server.
        whole = tables("demo", APPLIANCE_ADDRESS, 'drain = "100ms"')
        return f"""\
{whole}
{ports}
[ports.queue]
discipline = "{self._discipline}"
length = {PLACES}
rate = {round(_LINE * FRAME_BITS)}

{jobs}
[ps]
mode = "external"
address = "{worker_address(CLUSTERS)}"
listen = "{SERVER_TELEMETRY[0]}:{SERVER_TELEMETRY[1]}"

[telemetry]
listen = "{TELEMETRY[0]}:{TELEMETRY[1]}"
"""
