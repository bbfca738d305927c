"""scripts/demo --mode olaf --topology two-level: updates queue in each rack's appliance, then in the root.

Six clusters, each with two workers below each of two leaves, and a parameter server behind the root. The
leaf's port towards the root is shaped, and so is the root's towards the server; the workers offer a multiple
of what that one lets through, the same to FIFOs and to Olaf's queues:

    worker ── pas{c} :leaf r: up ═══ pas{1 + r} :root: pas0 ═══ server

When all has been measured the workers are ended, and once nothing waits any more, every contribution must be
accounted for: at each hop, and between them.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netns
from appliance import TELEMETRY, Appliance, device, tables
from metrics import Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network, worker_address
from olaf_parts import (
    CONGESTED_PCT,
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
from options import Options
from process import Child, Failure, Stop, run, say

CLUSTERS = 6
# Of each cluster below each leaf.
WORKERS = 2
LEAVES = 2
PLACES = 5
# Updates per second that the root's port lets through, and each leaf's.
_ROOT_LINE, _LEAF_LINE = 40.0, 30.0
_ROOT_ADDRESS = "10.79.0.254"
_DRAIN_SECONDS = 10.0
_FATES = ("departed", "full", "low_reward", "displaced", "superseded", "lapsed")
# What must hold at the highest load, of all that was offered.
_LOSS_SHARE = 1 / 3


@dataclass
class Hop:
    """A queue: what came, in contributions and by what has become of it, and what was combined in it."""

    name: str
    fates: dict[str, int]
    combined: int

    @property
    def came(self) -> int:
        """Contributions that came and were not rejected."""
        return self.fates.get("accepted", 0)

    @property
    def lost(self) -> int:
        """Those that found no room."""
        return self.fates.get("full", 0)

    @property
    def lost_pct(self) -> float:
        """The same in percent."""
        return 100.0 * self.lost / max(1, self.came)

    @property
    def missing(self) -> int:
        """Those of which nobody knows what has become: 0 once nothing waits."""
        return self.came - sum(self.fates.get(fate, 0) for fate in _FATES)

    def to_json(self) -> dict[str, Any]:
        """Its part of --json."""
        departed = self.fates.get("departed", 0)
        counts = {"came": self.came, "combined": self.combined, "lost": self.lost, "departed": departed}
        return {"hop": self.name, **counts, "lost_pct": round(self.lost_pct, 2), "missing": self.missing}


@dataclass
class Figures:
    """One run."""

    hops: list[Hop]
    between: int
    aom_ms: float
    jain: float

    @property
    def offered(self) -> int:
        """Contributions that came to the leaves."""
        return sum(hop.came for hop in self.hops[:-1])

    @property
    def lost_pct(self) -> float:
        """Of them, those that found no room at any hop."""
        return 100.0 * sum(hop.lost for hop in self.hops) / max(1, self.offered)

    def to_json(self) -> dict[str, Any]:
        """Its part of --json."""
        return {
            "offered": self.offered,
            "lost_pct": round(self.lost_pct, 2),
            "lost_between": self.between,
            "aom_ms": round(self.aom_ms, 2),
            "jain": round(self.jain, 4),
            "hops": [hop.to_json() for hop in self.hops],
        }


@dataclass
class Outcome:
    """All runs: for each load, FIFO and Olaf."""

    loads: dict[float, dict[str, Figures]]
    problems: list[str]

    def __post_init__(self) -> None:
        highest = max(self.loads)
        fifo, olaf = (self.loads[highest][name] for name in DISCIPLINES)
        self.problems += compare(
            highest, (fifo.lost_pct, fifo.aom_ms), (olaf.lost_pct, olaf.aom_ms), (_LOSS_SHARE, "a third")
        )
        if fifo.lost_pct >= CONGESTED_PCT and olaf.hops[-1].combined == 0:
            self.problems.append("nothing was combined at the root")
        for load, name, figures in self._runs():
            short = [hop for hop in figures.hops if hop.missing]
            self.problems += [f"{load:g} x, {name}: {hop.name} misses {hop.missing}" for hop in short]
            if figures.between:
                self.problems.append(f"{load:g} x, {name}: {figures.between} were lost between the hops")

    def _runs(self) -> list[tuple[float, str, Figures]]:
        return [(load, name, figures) for load, runs in self.loads.items() for name, figures in runs.items()]

    @property
    def good(self) -> bool:
        """Whether it went as it should."""
        return not self.problems

    def text(self) -> str:
        """The table."""
        lines = [
            f"{CLUSTERS} clusters of {LEAVES * WORKERS} workers below {LEAVES} leaves, whose lines take "
            f"{_LEAF_LINE:.0f} updates/s each; the root's takes {_ROOT_LINE:.0f}; queues of {PLACES}; counts "
            "of contributions",
            "offered  queue   hop        came  combined   lost   lost %  mean AoM, ms    Jain",
        ]
        for load, name, figures in self._runs():
            for hop in figures.hops:
                ends = f" {figures.aom_ms:13.1f} {figures.jain:7.3f}" if hop is figures.hops[-1] else ""
                lines.append(
                    f"{load:5.1f} x  {name:5} {hop.name:7} {hop.came:8} {hop.combined:9} {hop.lost:6} "
                    f"{hop.lost_pct:8.1f}{ends}"
                )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The object of --json: the highest load, then all."""
        told = {
            load: {name: one.to_json() for name, one in runs.items()} for load, runs in self.loads.items()
        }
        return {
            "ok": self.good,
            "topology": "two-level",
            **told[max(told)],
            "loads": [{"load": load, **runs} for load, runs in told.items()],
            "problems": self.problems,
        }


class _Bed:
    """The namespaces: a network for each rack, and one for root and server."""

    def __init__(self, mtu: int) -> None:
        prefix = f"pas-{os.getpid()}"
        self.root = Network(1, mtu, middle=False)
        self.racks = [Network(CLUSTERS, mtu, middle=False) for _ in range(LEAVES)]
        for leaf, rack in enumerate(self.racks):
            rack.appliance = f"{prefix}-l{leaf}"
            rack.workers = [f"{prefix}-l{leaf}w{cluster}" for cluster in range(CLUSTERS)]

    def create(self) -> None:
        """Builds them, and the links between them."""
        self.root.create()
        for leaf, rack in enumerate(self.racks):
            rack.create()
            self.root.pair(rack.appliance, f"pas{CLUSTERS}", self.root.appliance, f"pas{1 + leaf}")

    def mac(self, leaf: int) -> str:
        """Of the root's port towards a leaf."""
        shown = run("ip", "-n", self.root.appliance, "-j", "link", "show", f"pas{1 + leaf}").stdout
        address: str = json.loads(shown)[0]["address"]
        return address


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    """All runs, from nothing to nothing."""
    for name in netns.remove_leftovers():
        say(f"demo: removed {name}, which an earlier run left behind")
    bed = _Bed(options.mtu)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [bed.root, *bed.racks], files, keep=options.keep)
        files.mkdir(mode=0o700)
        bed.create()
        loads: dict[float, dict[str, Figures]] = {}
        problems: list[str] = []
        for load in options.loads:
            loads[load] = {}
            for discipline in DISCIPLINES:
                say(f"{load:g} x the root's line, {discipline}")
                place = files / f"{load:g}-{discipline}"
                place.mkdir()
                one = _Run(binary, bed, options, place, load, discipline)
                loads[load][discipline] = one.measure(stop)
                problems += one.problems
        return Outcome(loads, problems)


class _Run:
    """Three appliances, a server and all workers, for one load and one discipline."""

    def __init__(
        self, binary: Path, bed: _Bed, options: Options, files: Path, load: float, discipline: str
    ) -> None:
        self._binary = binary
        self._bed = bed
        self._options = options
        self._files = files
        self._load = load
        self._discipline = discipline
        self.problems: list[str] = []

    def measure(self, stop: Stop) -> Figures:
        """Runs the load, reads the ages while it lasts, and the counts when nothing waits any more."""
        with ExitStack() as cleanup:
            appliances = [self._appliance("root", self._bed.root, self._root())]
            cleanup.callback(appliances[0].stop)
            for leaf, rack in enumerate(self._bed.racks):
                appliances.append(self._appliance(f"leaf{leaf}", rack, self._leaf(leaf)))
                cleanup.callback(appliances[-1].stop)
            for appliance in appliances:
                appliance.wait_ready(stop)
            command = [str(self._binary), "ps", "-c", str(self._files / "root/appliance.toml")]
            server = Child("ps", command, self._files, self._bed.root.workers[0])
            cleanup.callback(server.stop, EXIT_SECONDS)
            places = [
                (leaf, c, rank) for leaf in range(LEAVES) for c in range(CLUSTERS) for rank in range(WORKERS)
            ]
            workers = [self._worker(*place) for place in places]
            for one in workers:
                cleanup.callback(one.stop, EXIT_SECONDS)

            def running() -> bool:
                for appliance in appliances:
                    appliance.check_running()
                for child in (server, *workers):
                    if child.exit_code() is not None:
                        raise Failure(f"{child.name} ended too early", child.tail())
                return clusters_heard(self._bed.root.workers[0]) == CLUSTERS

            if not stop.wait_for(running, JOIN_SECONDS):
                tails = "\n".join(appliance.tail() for appliance in appliances)
                raise Failure("the workers' first updates do not arrive", f"{server.tail()}\n{tails}")
            end = time.monotonic() + self._options.seconds
            while time.monotonic() < end:
                stop.sleep(0.2)
                running()
            ages = scrape_server(self._bed.root.workers[0])
            # Without a word: what waits belongs to their generation.
            for one in workers:
                one.kill()
            if not stop.wait_for(lambda: not any(map(_waiting, appliances)), _DRAIN_SECONDS):
                self.problems.append("updates still wait, although nobody sends any")
            return self._read(appliances, ages)

    def _read(self, appliances: list[Appliance], ages: Metrics) -> Figures:
        root, *leaves = [appliance.scrape() for appliance in appliances]
        names = [*(f"leaf {leaf}" for leaf in range(LEAVES)), "root"]
        hops = [_hop(name, scrape) for name, scrape in zip(names, [*leaves, root], strict=True)]
        for name, scrape in zip(names, [*leaves, root], strict=True):
            accounting = Accounting.of(scrape)
            if not accounting.holds:
                self.problems.append(f"the accounts of {name} do not add up: {accounting}")
        found = ages.values("pascaline_aom_seconds")
        if len(found) != CLUSTERS:
            self.problems.append(f"the server knows the age of {len(found)} clusters")
        departed = sum(hop.fates.get("departed", 0) for hop in hops[:-1])
        mean = 1000.0 * sum(found) / max(1, len(found))
        return Figures(hops, departed - hops[-1].came, mean, ages.values("pascaline_aom_jain")[0])

    def _appliance(self, name: str, network: Network, configuration: str) -> Appliance:
        place = self._files / name
        place.mkdir()
        return Appliance(self._binary, network, configuration, place)

    def _worker(self, leaf: int, cluster: int, rank: int) -> Child:
        interval = CLUSTERS * WORKERS * LEAVES / (self._load * _ROOT_LINE)
        name = f"worker{leaf}-{cluster}-{rank}"
        place = (name, self._files, self._bed.racks[leaf].workers[cluster])
        return worker(self._binary, self._options, place, (cluster, rank, WORKERS), interval)

    def _port(self, number: int, name: str, line: float = 0.0) -> str:
        """A port, which has a rate if a line is given."""
        of = device(self._options.driver, number, self._options.mtu)
        port = f'[[ports]]\nname = "{name}"\ndevice = "{of}"\nmtu = {self._options.mtu}\n'
        if not line:
            return port
        queue = f'discipline = "{self._discipline}"\nlength = {PLACES}\nrate = {round(line * FRAME_BITS)}'
        return f"{port}\n[ports.queue]\n{queue}\n"

    def _whole(self, own: list[str], ports: list[str], jobs: list[str], more: str = "") -> str:
        head = tables("demo", APPLIANCE_ADDRESS, 'drain = "100ms"')
        addresses = ", ".join(f'"{address}"' for address in own)
        head = head.replace(f'addresses = ["{APPLIANCE_ADDRESS}"]', f"addresses = [{addresses}]", 1)
        told = f'[telemetry]\nlisten = "{TELEMETRY[0]}:{TELEMETRY[1]}"\n'
        return "\n".join([head, *ports, *jobs, more, told])

    def _root(self) -> str:
        ports = [self._port(0, "server", _ROOT_LINE)]
        ports += [self._port(1 + leaf, f"leaf{leaf}") for leaf in range(LEAVES)]
        members = ", ".join(f'"10.79.0.{1 + leaf}"' for leaf in range(LEAVES))
        jobs = [_job(cluster, LEAVES, f"members = [{members}]") for cluster in range(CLUSTERS)]
        listen = f"{SERVER_TELEMETRY[0]}:{SERVER_TELEMETRY[1]}"
        server = f'[ps]\nmode = "external"\naddress = "{worker_address(0)}"\nlisten = "{listen}"\n'
        return self._whole([APPLIANCE_ADDRESS, _ROOT_ADDRESS], ports, jobs, server)

    def _leaf(self, leaf: int) -> str:
        ports = [self._port(cluster, f"p{cluster}") for cluster in range(CLUSTERS)]
        ports.append(self._port(CLUSTERS, "up", _LEAF_LINE))
        own = f"10.79.0.{1 + leaf}"
        parent = (
            f'parent = {{ address = "{_ROOT_ADDRESS}", rank = {leaf}, ranks = {LEAVES}, '
            f'mac = "{self._bed.mac(leaf)}", port = "up", from = "{own}" }}'
        )
        jobs = [_job(cluster, WORKERS, parent) for cluster in range(CLUSTERS)]
        return self._whole([APPLIANCE_ADDRESS, own], ports, jobs)


def _job(cluster: int, fan_in: int, more: str) -> str:
    return (
        f'[[jobs]]\nid = {1 + cluster}\nname = "cluster{1 + cluster}"\nfan_in = {fan_in}\nmode = "olaf"\n'
        f"{more}\n"
    )


def _waiting(appliance: Appliance) -> int:
    return appliance.scrape().total("pascaline_olaf_queue_depth")


def _hop(name: str, scrape: Metrics) -> Hop:
    fates = scrape.by_label("pascaline_olaf_contributions_total", "fate")
    combined = sum(scrape.total(f"pascaline_olaf_{what}_total") for what in ("aggregated", "replaced"))
    return Hop(name, fates, combined)
