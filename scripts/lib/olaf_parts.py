"""Common parts of the demos of asynchronous updates: appliances, server, workers, loads, a verdict."""

import http.client
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from appliance import fetch
from configuration import UDP_PORT, Tables, base, telemetry
from metrics import Metrics
from netns import APPLIANCE_ADDRESS, Network
from options import OUTSTANDING, Options
from process import Child, Failure, run, say
from stage import Stage
from verdict import Verdict

FLOATS = 250
# Ethernet with preamble, checksum and gap, IPv4, UDP, Pascaline's header, floats, trailer.
FRAME_BITS = (14 + 24 + 20 + 8 + 22 + 4 * FLOATS + 16) * 8
# In the trailer that an update has anyway.
SEAL_BITS = 26 * 8
SERVER_TELEMETRY = ("127.0.0.1", 9465)
JOIN_SECONDS = 30.0
EXIT_SECONDS = 6.0
DISCIPLINES = ("fifo", "olaf")
# What Olaf's mean age must be of the FIFO's, at the highest load, if the FIFO loses so much: where little
# waits, the disciplines are alike.
AGE_SHARE = 0.6
CONGESTED_PCT = 30.0
# From this load on, in multiples of the line's rate, the FIFO has to lose something: this part at least of
# what does not fit on the line. Otherwise the load has not come about, and nothing was compared.
OVERLOAD = 1.5
LOST_PART = 0.5


@dataclass
class Figures:
    """What a run of one load and one discipline has shown; `more` is of one of the demos only."""

    lost_pct: float
    aom_ms: float
    jain: float
    more: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        ages = {"aom_ms": round(self.aom_ms, 2), "jain": round(self.jain, 4)}
        return {"lost_pct": round(self.lost_pct, 2), **ages, **self.more}


def compare(
    load: float, fifo: tuple[float, float], olaf: tuple[float, float], part: tuple[float, str]
) -> list[str]:
    """Compares Olaf's queue with the FIFO, and returns failures; each is a loss in percent and an age in ms.

    `load` is what was offered, in multiples of the line's rate, and `part` what Olaf may lose of what the
    FIFO loses. Where little is offered, and the FIFO loses nothing, there is nothing to show.
    """
    share, name = part
    found = []
    if load >= OVERLOAD and fifo[0] < (least := 100 * LOST_PART * (1 - 1 / load)):
        found.append(
            f"FIFO lost {fifo[0]:.1f} % at {load:g} x, less than {least:.1f} %: nothing was congested"
        )
    if fifo[0] > 0 and olaf[0] >= fifo[0] * share:
        found.append(f"Olaf lost {olaf[0]:.1f} %, more than {name} of FIFO's {fifo[0]:.1f} %")
    if fifo[0] >= CONGESTED_PCT and olaf[1] >= fifo[1] * AGE_SHARE:
        found.append(f"Olaf's models are {olaf[1]:.0f} ms old, FIFO's {fifo[1]:.0f} ms")
    return found


@dataclass
class Loads(Verdict):
    """All runs: for each load, FIFO and Olaf. Only the highest load is judged."""

    loads: dict[float, dict[str, Figures]]

    def compare(self, share: float, name: str) -> None:
        """`share` is what Olaf may lose of what the FIFO loses, in words `name`."""
        highest = max(self.loads)
        fifo, olaf = ((one.lost_pct, one.aom_ms) for one in self.loads[highest].values())
        self.problems += compare(highest, fifo, olaf, (share, name))

    def runs(self) -> list[tuple[float, str, Figures]]:
        """Each with its load and discipline."""
        return [(load, name, figures) for load, runs in self.loads.items() for name, figures in runs.items()]

    def by_load(self, key: str) -> dict[str, Any]:
        """The highest load, then all, each under this key."""
        told = {
            load: {name: one.to_json() for name, one in runs.items()} for load, runs in self.loads.items()
        }
        return {**told[max(told)], "loads": [{key: load, **runs} for load, runs in told.items()]}


class Run:
    """Appliances, a server and all workers, for one load and one discipline."""

    clusters: int
    server: Child

    def __init__(
        self, stage: Stage, networks: Sequence[Network], options: Options, load: float, discipline: str
    ) -> None:
        self.stage, self.networks, self.options = stage, networks, options
        self.load, self.discipline = load, discipline
        # The last worker's of the first network.
        self.server_namespace = networks[0].workers[-1]
        self.workers: list[Child] = []
        self.problems: list[str] = []

    def begin(self) -> None:
        raise NotImplementedError

    def read(self) -> Figures:
        """Reads the results while the load still lasts."""
        raise NotImplementedError

    def measure(self) -> Figures:
        with self.stage:
            self.begin()
            if not self.stage.stop.wait_for(self._running, JOIN_SECONDS):
                raise Failure("the workers' first updates do not arrive", self.server.tail())
            end = time.monotonic() + self.options.seconds
            while time.monotonic() < end:
                self.stage.stop.sleep(0.2)
                self._running()
            figures = self.read()
        if self.server.exit_code() != 0:
            self.problems.append(f"the parameter server ended with exit code {self.server.exit_code()}")
        return figures

    def _running(self) -> bool:
        self.stage.check(self.server, *self.workers)
        return clusters_heard(self.server_namespace) == self.clusters

    def ages(self) -> tuple[float, float]:
        """The mean Age-of-Model in ms over all clusters, and Jain's index of fairness."""
        said = scrape_server(self.server_namespace)
        ages = said.values("pascaline_aom_seconds")
        if len(ages) != self.clusters:
            self.problems.append(f"the server knows the age of {len(ages)} clusters")
        return 1000.0 * sum(ages) / max(1, len(ages)), said.values("pascaline_aom_jain")[0]

    def sealed(self, whose: str) -> Tables:
        """The keys of a job or parent whose packets are sealed with the key of this name, if they are."""
        if self.options.security == "none":
            return {}
        key = self.stage.files / f"{whose}.key"
        if not key.exists():
            run(str(self.stage.binary), "job", "key", "--new", str(key))
        return {"security": self.options.security, "key_file": str(key)}

    def worker(
        self, name: str, namespace: str, place: tuple[int, int, int], interval: float, sealed: Tables
    ) -> None:
        """Starts one that sends until it is ended, every `interval` seconds in the mean."""
        cluster, rank, ranks = place
        updates = int((self.options.seconds + JOIN_SECONDS) / interval) + 1
        words = f"worker olaf --poisson --json --appliance {APPLIANCE_ADDRESS}:{UDP_PORT} --job {1 + cluster}"
        words += f" --rank {rank} --ranks {ranks} --floats {FLOATS} --interval {1000 * interval:.3f}ms"
        words += f" --updates {updates} --outstanding {OUTSTANDING} --seed {self.options.seed}"
        words += " --security {security} --key {key_file}".format(**sealed) if sealed else ""
        self.workers.append(self.stage.pascaline(name, words, namespace))

    def start_server(self, *more: object) -> None:
        """Of the appliance whose files the first one are."""
        config = next(iter(self.stage.appliances.values())).config
        command = [self.stage.binary, "ps", "-c", config, *more]
        self.server = self.stage.child("ps", command, self.server_namespace)

    def tables(self, addresses: list[str], ports: list[Tables], jobs: list[Tables]) -> Tables:
        tables = base("demo", *addresses, drain="100ms")
        return {**tables, "ports": ports, "jobs": jobs, "telemetry": telemetry()}

    def queue(self, line: float, places: int) -> Tables:
        """That of a port; `line` is in updates per second."""
        bits = FRAME_BITS + (SEAL_BITS if self.options.sealed else 0)
        return {"discipline": self.discipline, "length": places, "rate": round(line * bits)}


def job(cluster: int, fan_in: int, **more: Any) -> Tables:
    """That of a cluster's workers, or of the leaves above them."""
    return {"id": 1 + cluster, "name": f"cluster{1 + cluster}", "fan_in": fan_in, "kind": "updates", **more}


def server(address: str) -> Tables:
    listen = f"{SERVER_TELEMETRY[0]}:{SERVER_TELEMETRY[1]}"
    return {"mode": "external", "address": address, "listen": listen}


def files(load: float, discipline: str) -> str:
    """The directory of a run's files."""
    return f"{load:g}-{discipline}"


def measure_all(
    stage: Stage, options: Options, run: type[Run]
) -> tuple[dict[float, dict[str, Figures]], list[str]]:
    """All loads with both disciplines, and the errors."""
    loads: dict[float, dict[str, Figures]] = {}
    problems: list[str] = []
    for load in options.loads:
        loads[load] = {}
        for discipline in DISCIPLINES:
            say(f"{load:g} x the line's rate, {discipline}")
            one = run(stage.part(files(load, discipline)), stage.networks, options, load, discipline)
            loads[load][discipline] = one.measure()
            problems += one.problems
    return loads, problems


def scrape_server(namespace: str) -> Metrics:
    return Metrics(fetch(namespace, SERVER_TELEMETRY, "/metrics")[1])


def clusters_heard(namespace: str) -> int:
    """Of how many clusters the server knows an age; none before it answers."""
    try:
        return len(scrape_server(namespace).values("pascaline_aom_seconds"))
    except (OSError, http.client.HTTPException):
        return 0


def combined(metrics: Metrics) -> int:
    """Updates that were combined with others in the queue."""
    return sum(metrics.total(f"pascaline_olaf_{what}_total") for what in ("aggregated", "replaced"))
