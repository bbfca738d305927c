"""scripts/demo --mode olaf --topology two-level: updates queue in each rack's appliance, then in the root.

Six clusters, each with two workers below each of two leaves, and a parameter server behind the root. The
leaf's port towards the root is shaped, and so is the root's towards the server; the workers offer a multiple
of what that one lets through, the same to FIFOs and to Olaf's queues:

    worker ── pas{c} :leaf r: up ═══ pas{1 + r} :root: pas0 ═══ server

When all has been measured the workers are ended, and once nothing waits any more, every contribution must be
accounted for: at each hop, and between them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import report
from appliance import Appliance
from configuration import Tables, device, port
from metrics import Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network, worker_address
from olaf_parts import CONGESTED_PCT, DISCIPLINES, Figures, Loads, Run, combined, job, measure_all, server
from options import Options
from process import Stop
from stage import Stage
from two_level import Rack, root_address

CLUSTERS = 6
# Of each cluster below each leaf.
WORKERS = 2
LEAVES = 2
PLACES = 5
# Updates per second that the root's port lets through, and each leaf's.
_ROOT_LINE, _LEAF_LINE = 40.0, 30.0
_DRAIN_SECONDS = 10.0
_FATES = ("departed", "full", "low_reward", "displaced", "superseded", "lapsed")


@dataclass
class Outcome(Loads):
    """All runs: for each load, FIFO and Olaf."""

    def __post_init__(self) -> None:
        self.compare(1 / 3, "a third")
        fifo, olaf = (self.loads[max(self.loads)][name] for name in DISCIPLINES)
        if fifo.lost_pct >= CONGESTED_PCT:
            self.require((olaf.more["hops"][-1]["combined"], "nothing was combined at the root"))
        for load, name, figures in self.runs():
            run, lost = f"{load:g} x, {name}", figures.more["lost_between"]
            for hop in figures.more["hops"]:
                self.require((not hop["missing"], f"{run}: {hop['hop']} misses {hop['missing']}"))
            self.require((not lost, f"{run}: {lost} were lost between the hops"))

    def text(self) -> str:
        head = ("offered", "queue", "hop", "came", "combined", "lost", "lost %", "mean AoM, ms", "Jain")
        rows = []
        for load, name, one in self.runs():
            for hop in one.more["hops"]:
                last = hop is one.more["hops"][-1]
                ends = (f"{one.aom_ms:.1f}", f"{one.jain:.3f}") if last else ("", "")
                counts = [hop[key] for key in ("hop", "came", "combined", "lost")]
                rows.append((f"{load:.1f} x", name, *counts, f"{hop['lost_pct']:.1f}", *ends))
        return (
            f"{CLUSTERS} clusters of {LEAVES * WORKERS} workers below {LEAVES} leaves, whose lines take "
            f"{_LEAF_LINE:.0f} updates/s each; the root's takes {_ROOT_LINE:.0f}; queues of {PLACES}; counts "
            f"of contributions\n{report.table(head, rows)}"
        )

    def told(self) -> dict[str, Any]:
        return {"topology": "two-level", **self.by_load("load")}


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    root = Network(1, options.mtu)
    racks = [Rack(leaf, CLUSTERS, root, first=1) for leaf in range(LEAVES)]
    with Stage(binary, stop, root, *racks, keep=options.keep) as stage:
        loads, problems = measure_all(stage, options, _Run)
        return stage.judged(Outcome(loads, problems=problems))


class _Run(Run):
    clusters = CLUSTERS

    @property
    def _racks(self) -> list[Rack]:
        return [network for network in self.networks if isinstance(network, Rack)]

    def begin(self) -> None:
        self.stage.appliance(
            self.networks[0], self._root_tables(), "root", self.stage.place("root"), ready=False
        )
        for rack in self._racks:
            place = self.stage.place(f"leaf{rack.number}")
            self.stage.appliance(rack, self._leaf_tables(rack), f"leaf {rack.number}", place, ready=False)
        for appliance in self.stage.appliances.values():
            appliance.wait_ready(self.stage.stop)
        self.start_server()
        interval = CLUSTERS * WORKERS * LEAVES / (self.load * _ROOT_LINE)
        for rack in self._racks:
            for cluster, namespace in enumerate(rack.workers):
                for rank in range(WORKERS):
                    name = f"worker{rack.number}-{cluster}-{rank}"
                    sealed = self.sealed(f"rack{rack.number}")
                    self.worker(name, namespace, (cluster, rank, WORKERS), interval, sealed)

    def read(self) -> Figures:
        """Reads the ages while the load lasts, and the counts when nothing waits any more."""
        ages = self.ages()
        appliances = self.stage.appliances
        # Killed, without a Leave: waiting updates belong to their generation.
        for one in self.workers:
            one.kill()
        if not self.stage.stop.wait_for(lambda: not any(map(_waiting, appliances.values())), _DRAIN_SECONDS):
            self.problems.append("updates still wait, although none is sent any more")
        # The leaves first, in their order.
        scrapes = {name: appliances[name].scrape() for name in [*list(appliances)[1:], "root"]}
        for name, scrape in scrapes.items():
            accounting = Accounting.of(scrape)
            if not accounting.holds:
                self.problems.append(f"the accounts of {name} do not add up: {accounting}")
        hops = [_hop(name, scrape) for name, scrape in scrapes.items()]
        offered, departed = (sum(hop[key] for hop in hops[:-1]) for key in ("came", "departed"))
        more = {"offered": offered, "lost_between": departed - hops[-1]["came"], "hops": hops}
        return Figures(100.0 * sum(hop["lost"] for hop in hops) / max(1, offered), *ages, more)

    def _port(self, number: int, name: str, line: float = 0.0) -> Tables:
        """A port, which has a rate if a line is given."""
        mtu = self.options.mtu
        more = {"queue": self.queue(line, PLACES)} if line else {}
        return port(name, device(self.options.driver, number, mtu), mtu, **more)

    def _root_tables(self) -> Tables:
        ports = [self._port(0, "server", _ROOT_LINE)]
        ports += [self._port(1 + leaf, f"leaf{leaf}") for leaf in range(LEAVES)]
        members = [rack.above for rack in self._racks]
        jobs = [job(c, LEAVES, members=members, **self.sealed("root")) for c in range(CLUSTERS)]
        tables = self.tables([APPLIANCE_ADDRESS, root_address(ip6=False)], ports, jobs)
        return tables | {"ps": server(worker_address(0))}

    def _leaf_tables(self, rack: Rack) -> Tables:
        ports = [self._port(cluster, f"p{cluster}") for cluster in range(CLUSTERS)]
        ports.append(self._port(CLUSTERS, "up", _LEAF_LINE))
        place = {
            "address": root_address(ip6=False),
            "rank": rack.number,
            "ranks": LEAVES,
            "mac": rack.shown()["address"],
        }
        parent = {**place, "port": "up", "from": rack.above, **self.sealed("root")}
        own = self.sealed(f"rack{rack.number}")
        jobs = [job(cluster, WORKERS, parent=parent, **own) for cluster in range(CLUSTERS)]
        return self.tables([APPLIANCE_ADDRESS, rack.above], ports, jobs)


def _waiting(appliance: Appliance) -> int:
    return appliance.scrape().total("pascaline_olaf_queue_depth")


def _hop(name: str, scrape: Metrics) -> dict[str, Any]:
    """A queue's accounts: accepted and combined contributions, and their fates."""
    fates = scrape.by_label("pascaline_olaf_contributions_total", "fate")
    came, lost = fates.get("accepted", 0), fates.get("full", 0)
    counts = {"came": came, "combined": combined(scrape), "lost": lost, "departed": fates.get("departed", 0)}
    # Those whose fate is unknown: 0 once nothing waits.
    missing = came - sum(fates.get(fate, 0) for fate in _FATES)
    return {"hop": name, **counts, "lost_pct": round(100.0 * lost / max(1, came), 2), "missing": missing}
