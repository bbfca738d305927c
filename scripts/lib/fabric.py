"""A leaf-spine network of namespaces: switches that route, appliances beside them, workers below them.

    worker: eth0 ── w{i} :leaf: up{S} ── down{L} :spine S: app ── pas0 :its appliance
                         :leaf: app ── pas0 :the leaf's appliance

A leaf joins its workers and its appliance by a bridge, which is their router too. Leaves and spines are
linked each with each, and these links are shaped both ways. To an appliance at spine S everybody goes by way
of spine S; to other racks by a spine that the rack's number says.

Addresses: 10.80.L.0/24 is leaf L's rack (router .1, appliance .254, workers from .10; leaf 0 has one more
appliance, .253), 10.81.S.0/24 has the links of spine S, 10.82.S.0/24 is beside spine S (router .1, appliance
.254).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from netns import Network, in_namespace, route_packets
from process import run

_BRIDGE = "rack"
_FIRST_WORKER = 10
# Of the queue before a shaped link: more than all windows together, so that shaping delays and does not lose.
_QUEUE = "4mb"
_BURST = "16kb"


class Site(Network):
    """An appliance with one port, and the workers that it admits."""

    def __init__(self, name: str, namespace: str, address: str, router: str, mtu: int) -> None:
        super().__init__(0, mtu, middle=False)
        self.name = name
        self.appliance = namespace
        self.appliance_address = address
        # The MAC of the router beside it.
        self.router = router
        self.members: list[str] = []

    def address(self, rank: int) -> str:
        """That of a member."""
        return self.members[rank]

    @property
    def router_address(self) -> str:
        """That of the router beside it."""
        return self.appliance_address.rpartition(".")[0] + ".1"

    @property
    def ports(self) -> int:
        """One, to the switch beside it."""
        return 1


@dataclass(frozen=True)
class Shape:
    """How large the network is, and how fast the links between leaves and spines."""

    spines: int
    leaves: int
    workers: int
    mbit: int
    mtu: int = 1500


class Fabric(Network):
    """All of it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(0, shape.mtu, middle=False)
        prefix = f"pas-{os.getpid()}"
        self.shape = shape
        self.leaf_switches = [f"{prefix}-leaf{leaf}" for leaf in range(shape.leaves)]
        self.spine_switches = [f"{prefix}-spine{spine}" for spine in range(shape.spines)]
        self.leaves = [
            Site(f"leaf{leaf}", f"{prefix}-l{leaf}app", f"10.80.{leaf}.254", _mac(0, leaf), shape.mtu)
            for leaf in range(shape.leaves)
        ]
        self.spines = [
            Site(f"spine{spine}", f"{prefix}-s{spine}app", f"10.82.{spine}.254", _mac(1, spine), shape.mtu)
            for spine in range(shape.spines)
        ]
        # Beside leaf 0's own, for a part that another appliance has had.
        self.spare = Site("spare", f"{prefix}-l0spare", "10.80.0.253", _mac(0, 0), shape.mtu)
        for number in range(shape.workers):
            leaf = number * shape.leaves // shape.workers
            site = self.leaves[leaf]
            site.members.append(f"10.80.{leaf}.{_FIRST_WORKER + len(site.members)}")
            site.workers.append(f"{prefix}-w{number}")

    @property
    def sites(self) -> list[Site]:
        """All places with an appliance: leaves first."""
        return [*self.leaves, *self.spines, self.spare]

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        workers = [worker for leaf in self.leaves for worker in leaf.workers]
        appliances = [site.appliance for site in self.sites]
        return [*self.leaf_switches, *self.spine_switches, *appliances, *workers]

    def create(self) -> None:
        """Builds everything. What was built before a failure is removed by `destroy`."""
        for name in self.namespaces:
            self.add(name)
        for spine, switch in enumerate(self.spine_switches):
            self._beside(switch, "app", self.spines[spine])
            _address(switch, "app", f"10.82.{spine}.1/24", self.spines[spine].router)
        for leaf in range(self.shape.leaves):
            self._rack(leaf)
            for spine in range(self.shape.spines):
                self._cable(leaf, spine)
        for leaf, switch in enumerate(self.leaf_switches):
            for other in range(self.shape.leaves):
                if other != leaf:
                    via = f"10.81.{other % self.shape.spines}.{2 * leaf}"
                    run("ip", "-n", switch, "route", "add", f"10.80.{other}.0/24", "via", via)
        for switch in [*self.leaf_switches, *self.spine_switches]:
            in_namespace(switch, route_packets)

    def picture(self) -> str:
        """The network, in words."""
        racks = ", ".join(f"{leaf.name}: {len(leaf.workers)} workers" for leaf in self.leaves)
        shape = self.shape
        return f"{shape.spines} spines, each linked at {shape.mbit} Mbit/s to {shape.leaves} leaves ({racks})"

    def _rack(self, leaf: int) -> None:
        """A leaf's bridge with its appliance and its workers."""
        switch, site = self.leaf_switches[leaf], self.leaves[leaf]
        run("ip", "-n", switch, "link", "add", "name", _BRIDGE, "mtu", str(self.mtu), "type", "bridge")
        _address(switch, _BRIDGE, f"10.80.{leaf}.1/24", site.router)
        run("ip", "-n", switch, "link", "set", _BRIDGE, "up")
        beside = {"app": site, **({"spare": self.spare} if leaf == 0 else {})}
        for interface, at in beside.items():
            self._beside(switch, interface, at)
            run("ip", "-n", switch, "link", "set", interface, "master", _BRIDGE)
        for number, (worker, address) in enumerate(zip(site.workers, site.members, strict=True)):
            self.pair(worker, "eth0", switch, f"w{number}")
            run("ip", "-n", switch, "link", "set", f"w{number}", "master", _BRIDGE)
            run("ip", "-n", worker, "addr", "add", f"{address}/24", "dev", "eth0")
            run("ip", "-n", worker, "route", "add", "default", "via", f"10.80.{leaf}.1")

    def _beside(self, switch: str, interface: str, site: Site) -> None:
        self.pair(switch, interface, site.appliance, "pas0")

    def _cable(self, leaf: int, spine: int) -> None:
        """A shaped link between a leaf and a spine, and the routes that use it."""
        below, above = self.leaf_switches[leaf], self.spine_switches[spine]
        up, down = f"up{spine}", f"down{leaf}"
        self.pair(below, up, above, down)
        above_end, below_end = f"10.81.{spine}.{2 * leaf}", f"10.81.{spine}.{2 * leaf + 1}"
        run("ip", "-n", above, "addr", "add", f"{above_end}/31", "dev", down)
        run("ip", "-n", below, "addr", "add", f"{below_end}/31", "dev", up)
        run("ip", "-n", below, "route", "add", f"10.82.{spine}.0/24", "via", above_end)
        run("ip", "-n", above, "route", "add", f"10.80.{leaf}.0/24", "via", below_end)
        self._shape(leaf, spine, self.shape.mbit)

    def _shape(self, leaf: int, spine: int, mbit: float) -> None:
        ends = ((self.leaf_switches[leaf], f"up{spine}"), (self.spine_switches[spine], f"down{leaf}"))
        for name, interface in ends:
            self.limit_rate(name, interface, mbit, _BURST, _QUEUE)

    def shape_spine(self, spine: int, mbit: float) -> None:
        """Gives all links of a spine another rate."""
        for leaf in range(self.shape.leaves):
            self._shape(leaf, spine, mbit)

    def carried(self) -> dict[str, int]:
        """Bytes that each link between a leaf and a spine has carried so far, by its two ends, in order."""
        names = [(f"leaf{leaf}", f"spine{spine}") for leaf, spine in self._links()]
        counted = [self._both_ways(leaf, spine) for leaf, spine in self._links()]
        up = {f"{leaf}-{spine}": ways["tx"] for (leaf, spine), ways in zip(names, counted, strict=True)}
        down = {f"{spine}-{leaf}": ways["rx"] for (leaf, spine), ways in zip(names, counted, strict=True)}
        return up | down

    def _links(self) -> list[tuple[int, int]]:
        return [(leaf, spine) for leaf in range(self.shape.leaves) for spine in range(self.shape.spines)]

    def _both_ways(self, leaf: int, spine: int) -> dict[str, int]:
        counted: dict[str, Any] = self.link(self.leaf_switches[leaf], f"up{spine}")
        return {way: counted[way]["bytes"] for way in ("tx", "rx")}


def _mac(tier: int, number: int) -> str:
    return f"02:50:00:00:{tier:02x}:{number:02x}"


def _address(name: str, interface: str, address: str, mac: str) -> None:
    """Gives a router's interface an address and a MAC that configurations can name."""
    run("ip", "-n", name, "link", "set", interface, "address", mac)
    run("ip", "-n", name, "addr", "add", address, "dev", interface)
