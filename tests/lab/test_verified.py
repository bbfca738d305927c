"""What the verifier proves of a queue, and what an appliance does with it.

    cluster c: eth0 ── pas{c} :appliance: pas{C} ── eth0 :server

The clusters, the queue and the line are those of clients/examples/verify/lab.toml, with the workers' phases
as chance has them. The file's queries have to be proven, and the ages in the server's log have to keep to
them, in each stretch as long as the file's horizon. With a FIFO in place of Olaf's queue they must not:
otherwise the bounds would say nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
from appliance import UDP_PORT
from configuration import base, device, dumps, port, telemetry
from metrics import Accounting
from netns import APPLIANCE_ADDRESS, worker_address
from olaf_parts import DISCIPLINES, EXIT_SECONDS, FLOATS, FRAME_BITS, JOIN_SECONDS, clusters_heard
from olaf_parts import SERVER_TELEMETRY as SERVER
from process import Failure

from ..bed.appliance import Appliance
from ..bed.network import Star
from ..bed.process import Process, command
from .controller import fleet
from .laboratory import Case, Lab, given

FILE = build.ROOT / "clients/examples/verify/lab.toml"
_VERIFY_SECONDS = 50.0
# For the queue to fill, and then a multiple of the horizon.
_LEAD_SECONDS, _HORIZONS = 2.0, 4
_MTU = 1500
_OUTSTANDING = 64
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}

# An update's arrival at the server, and the age of the model just before, in seconds.
Peak = tuple[float, float]


def _seconds(text: object) -> float:
    found = re.fullmatch(r"([0-9.]+)(us|ms|s)", str(text))
    if not found:
        raise Failure(f"{FILE}: {text!r} is not one time, such as 80ms")
    return float(found[1]) * _UNITS[found[2]]


@dataclass
class Scenario:
    horizon: float
    length: int
    service: float
    # Of each cluster: how many workers, and how often each of them sends.
    clusters: list[tuple[int, float]]
    queries: list[dict[str, Any]]

    @classmethod
    def read(cls) -> Scenario:
        whole = tomllib.loads(FILE.read_text())
        queue = whole["queue"]
        clusters = [(one.get("workers", 1), _seconds(one["period"])) for one in whole["clusters"]]
        return cls(
            _seconds(whole["horizon"]), queue["length"], _seconds(queue["service"]), clusters, whole["query"]
        )

    def broken(self, ages: list[list[Peak]]) -> list[str]:
        """The queries to which ages do not keep."""
        begins = max(peaks[0][0] for peaks in ages)
        ends = min(peaks[-1][0] for peaks in ages)
        stretches = []
        while begins + self.horizon <= ends:
            until = begins + self.horizon
            stretches.append([[age for at, age in peaks if begins <= at < until] for peaks in ages])
            begins = until
        if not stretches or not all(all(stretch) for stretch in stretches):
            raise Failure("a cluster's updates do not arrive for as long as the horizon")
        return [
            query["name"]
            for query in self.queries
            if not all(_keeps(query, stretch) for stretch in stretches)
        ]


def _keeps(query: dict[str, Any], stretch: list[list[float]]) -> bool:
    highest = query["measure"] == "highest"
    values = [max(ages) if highest else sum(ages) / len(ages) for ages in stretch]
    if "bound" in query:
        return max(values) <= _seconds(query["bound"])
    return max(values) - min(values) <= _seconds(query["difference"])


@given(needs="z3")
def test_verified(lab: Lab, case: Case) -> None:
    """The file's queries are proven; ages behind Olaf's queue keep to them, behind a FIFO they do not."""
    scenario = Scenario.read()
    limit = f"{_VERIFY_SECONDS:.0f}s"
    line = command(fleet(lab.binary), "verify", str(FILE), "--json", time_limit=limit)
    proof = subprocess.run(line, capture_output=True, text=True, timeout=2 * _VERIFY_SECONDS, check=False)
    case.demand(proof.returncode == 0, f"{FILE.name} is not proven: {proof.stderr or proof.stdout}")
    if not case.good:
        return
    case.figures = {"seconds_to_prove": round(json.loads(proof.stdout)["seconds"], 2)}
    with Star(len(scenario.clusters) + 1, "paslabver", mtu=_MTU) as network:
        for discipline in DISCIPLINES:
            ages = _Run(lab, network, scenario, discipline).measure(case)
            broken = scenario.broken(ages)
            case.figures[discipline] = {
                "highest_ms": [round(1000 * max(age for _, age in peaks), 1) for peaks in ages],
                "peak_ms": [round(1000 * sum(age for _, age in peaks) / len(peaks), 1) for peaks in ages],
                "broken": broken,
            }
            if discipline == "olaf":
                case.demand(not broken, f"behind Olaf's queue ages do not keep to what is proven: {broken}")
            else:
                case.demand(bool(broken), "behind a FIFO ages keep to the bounds as well: they say nothing")


class _Run:
    """An appliance, a server and the clusters' workers, with one discipline."""

    def __init__(self, lab: Lab, network: Any, scenario: Scenario, discipline: str) -> None:
        self._lab, self._network = lab, network
        self._scenario, self._discipline = scenario, discipline
        self._files = lab.files / f"verified-{discipline}"
        self._files.mkdir()

    def measure(self, case: Case) -> list[list[Peak]]:
        """Each cluster's peaks, once the queue has filled."""
        scenario, binary = self._scenario, str(self._lab.binary)
        server_at, log = self._network.workers[-1], self._files / "updates.jsonl"
        lasts = _LEAD_SECONDS + (_HORIZONS + 1) * scenario.horizon
        with ExitStack() as cleanup:
            appliance = Appliance(
                self._lab.binary, self._network, self._configuration(), self._files, realtime=True
            )
            cleanup.callback(appliance.stop)
            appliance.wait_ready(self._lab.stop)
            file = str(self._files / "appliance.toml")
            line = [binary, "ps", "-c", file, "--aom-log", str(log)]
            children = [Process("ps", line, self._files, server_at)]
            cleanup.callback(children[0].stop, EXIT_SECONDS)
            for cluster, (workers, period) in enumerate(scenario.clusters):
                for rank in range(workers):
                    children.append(self._worker(cluster, rank, workers, period, lasts))
                    cleanup.callback(children[-1].stop, EXIT_SECONDS)

            def running() -> bool:
                appliance.check_running()
                for child in children:
                    if child.exit_code() is not None:
                        raise Failure(f"{child.name} ended too early", child.tail())
                return clusters_heard(server_at) == len(scenario.clusters)

            if not self._lab.stop.wait_for(running, JOIN_SECONDS):
                raise Failure("the workers' first updates do not arrive", appliance.tail())
            self._lab.stop.sleep(lasts)
            running()
            for child in children[1:]:
                child.stop(EXIT_SECONDS)
            accounting = Accounting.of(appliance.settled(self._lab.stop))
        case.demand(accounting.holds, f"the appliance's accounts do not add up: {accounting}")
        return _ages(log, len(scenario.clusters))

    def _worker(self, cluster: int, rank: int, workers: int, period: float, lasts: float) -> Process:
        line = command(
            self._lab.binary,
            *("worker", "olaf"),
            appliance=f"{APPLIANCE_ADDRESS}:{UDP_PORT}",
            job=1 + cluster,
            rank=rank,
            ranks=workers,
            floats=FLOATS,
            interval=f"{1e6 * period:.0f}us",
            updates=int((lasts + JOIN_SECONDS) / period),
            outstanding=_OUTSTANDING,
            reward="steady",
        )
        name = f"worker{cluster}-{rank}"
        return Process(name, line, self._files, self._network.workers[cluster], realtime=True)

    def _configuration(self) -> str:
        scenario, last = self._scenario, len(self._scenario.clusters)
        ports = [port(f"p{number}", device("af_packet", number, _MTU), _MTU) for number in range(last + 1)]
        # Towards the server.
        rate = round(FRAME_BITS / scenario.service)
        ports[last]["queue"] = {"discipline": self._discipline, "length": scenario.length, "rate": rate}
        jobs = [
            {
                "id": 1 + cluster,
                "fan_in": workers,
                "kind": "updates",
                "members": [worker_address(cluster)] * workers,
            }
            for cluster, (workers, _) in enumerate(scenario.clusters)
        ]
        server = {"mode": "external", "address": worker_address(last), **telemetry(SERVER)}
        more = {"ports": ports, "jobs": jobs, "ps": server, "telemetry": telemetry()}
        return dumps(base("lab", APPLIANCE_ADDRESS, drain="100ms") | more)


def _ages(log: Path, clusters: int) -> list[list[Peak]]:
    """Each cluster's peaks: an update that is no newer than what is there changes nothing."""
    newest: dict[int, int] = {}
    peaks: list[list[Peak]] = [[] for _ in range(clusters)]
    for line in log.read_text().splitlines():
        update = json.loads(line)
        cluster, at, generated = update["job"] - 1, update["at_ns"], update["generated_ns"]
        before = newest.setdefault(cluster, generated)
        if generated > before:
            peaks[cluster].append((at / 1e9, (at - before) / 1e9))
            newest[cluster] = generated
    if not all(peaks):
        raise Failure("a cluster's updates do not arrive")
    since = max(of[0][0] for of in peaks) + _LEAD_SECONDS
    return [[peak for peak in of if peak[0] >= since] for of in peaks]
