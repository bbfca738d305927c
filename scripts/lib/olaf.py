"""scripts/demo --mode olaf: asynchronous updates queue before a narrow line, in a FIFO and in Olaf's queue.

Nine clusters of three workers and a parameter server, each cluster and the server in a namespace of its own.
The port towards the server is shaped; the workers offer a multiple of its rate, the same in both
runs. The results are read from the appliance's counters and the server's Age-of-Model at the end of each
run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
import report
from configuration import device, port
from netns import APPLIANCE_ADDRESS, Network, worker_address
from olaf_parts import (
    DISCIPLINES,
    Figures,
    Loads,
    Run,
    combined,
    files,
    job,
    measure_all,
    scrape_server,
    server,
)
from options import OUTSTANDING, Options
from process import Failure, Stop, run
from stage import Stage

CLUSTERS = 9
WORKERS = 3
PLACES = 8
# Updates per second that the shaped port lets through: few, so that two cores are enough for everything.
_LINE = 50.0
_LOG = "updates.jsonl"


@dataclass
class Outcome(Loads):
    """All runs, and where their picture is."""

    picture: Path

    def __post_init__(self) -> None:
        self.compare(1 / 5, "a fifth")

    def text(self) -> str:
        head = ("offered", "queue", "updates", "received", "aggregated", "lost %", "mean AoM, ms", "Jain")
        rows = [
            (
                f"{load:.1f} x", name, *(one.more[key] for key in ("updates", "received", "aggregated")),
                f"{one.lost_pct:.1f}", f"{one.aom_ms:.1f}", f"{one.jain:.3f}",
            )
            for load, name, one in self.runs()
        ]  # fmt: skip
        return (
            f"{CLUSTERS} clusters of {WORKERS} workers; the line takes {_LINE:.0f} updates/s, its queue "
            f"{PLACES}; a worker has up to {OUTSTANDING} unanswered updates "
            f"(--outstanding {OUTSTANDING}; its own default is 1)\n"
            f"{report.table(head, rows)}\nAge-of-Model over time: {self.picture}"
        )

    def told(self) -> dict[str, Any]:
        return {**self.by_load("offered"), "picture": str(self.picture)}


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    network = Network(CLUSTERS + 1, options.mtu)
    with Stage(binary, stop, network, keep=options.keep) as stage:
        loads, problems = measure_all(stage, options, _Run)
        picture = options.picture.resolve()
        picture.parent.mkdir(parents=True, exist_ok=True)
        load = max(loads)
        logs = [
            f"{name}, {load:g} x the line's rate={stage.files / files(load, name) / _LOG}"
            for name in DISCIPLINES
        ]
        run(str(build.lab(binary)), "plot", "aom", "--out", str(picture), *logs)
        return stage.judged(Outcome(loads, picture, problems=problems))


class _Run(Run):
    """One appliance, a namespace for each cluster, the last one for the server."""

    clusters = CLUSTERS

    def begin(self) -> None:
        mtu, driver, network = self.options.mtu, self.options.driver, self.networks[0]
        ports = [port(f"p{place}", device(driver, place, mtu), mtu) for place in range(CLUSTERS + 1)]
        ports[CLUSTERS]["queue"] = self.queue(_LINE, PLACES)
        jobs = [
            job(cluster, WORKERS, members=[worker_address(cluster)] * WORKERS, **self.sealed("job"))
            for cluster in range(CLUSTERS)
        ]
        tables = self.tables([APPLIANCE_ADDRESS], ports, jobs) | {"ps": server(worker_address(CLUSTERS))}
        self._appliance = self.stage.appliance(network, tables)
        self.start_server("--aom-log", self.stage.files / _LOG)
        interval = CLUSTERS * WORKERS / (self.load * _LINE)
        for cluster, namespace in enumerate(network.workers[:CLUSTERS]):
            for rank in range(WORKERS):
                place, sealed = (cluster, rank, WORKERS), self.sealed("job")
                self.worker(f"worker{cluster}-{rank}", namespace, place, interval, sealed)

    def read(self) -> Figures:
        appliance, said = self._appliance.scrape(), scrape_server(self.server_namespace)
        for scrape, prefix in ((appliance, "pascaline_olaf_"), (said, "pascaline_aom_")):
            if not scrape.names(prefix):
                self.problems.append(f"no metric begins with {prefix}")
        offered = appliance.total("pascaline_olaf_received_total")
        if not offered:
            raise Failure("no update has come to the queue")
        verdicts = said.by_label("pascaline_ps_updates_total", "verdict")
        lost = appliance.by_label("pascaline_olaf_dropped_total", "cause").get("full", 0)
        received = sum(verdicts.get(verdict, 0) for verdict in ("applied", "low_reward"))
        more = {"received": received, "aggregated": combined(appliance), "updates": offered}
        return Figures(100.0 * lost / offered, *self.ages(), more)
