"""A leaf-spine network of namespaces: switches that route, appliances beside them, workers below them.

    worker: eth0 ── w{i} :leaf: up{S} ── down{L} :spine S: app ── pas0 :its appliance
                         :leaf: app ── pas0 :the leaf's appliance

A leaf joins its workers and its appliance by a bridge, which is their router too. Each leaf is linked to each
spine, and these links are shaped both ways. All traffic to an appliance at spine S goes by way of spine S; to
other racks by a spine that the rack's number determines.

Addresses: 10.80.L.0/24 is leaf L's rack (router .1, appliance .254, workers from .10; leaf 0 has one more
appliance, .253), 10.81.S.0/24 has the links of spine S, 10.82.S.0/24 is beside spine S (router .1, appliance
.254).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from netns import route_packets

from ..bed.network import Host, Network

BRIDGE = "rack"
_FIRST_WORKER = 10
# Of the queue before a shaped link: more than all windows together, so that shaping delays and does not lose.
_QUEUE = 4 << 20
_BURST = 16 << 10


@dataclass
class Site:
    """An appliance with one port, and the workers that it admits; attributes as of the demo's network."""

    name: str
    # The namespace of the appliance, and its address.
    appliance: str
    appliance_address: str
    # The MAC address of the router beside it.
    router: str
    mtu: int
    # Namespaces of workers; addresses of members.
    workers: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    ports: int = 1

    def address(self, rank: int) -> str:
        return self.members[rank]

    @property
    def router_address(self) -> str:
        return self.appliance_address.rpartition(".")[0] + ".1"


@dataclass(frozen=True)
class Shape:
    """How large the network is, and how fast the links between leaves and spines."""

    spines: int
    leaves: int
    workers: int
    mbit: int
    mtu: int = 1500

    def __str__(self) -> str:
        counts = [0] * self.leaves
        for number in range(self.workers):
            counts[number * self.leaves // self.workers] += 1
        racks = ", ".join(f"leaf{leaf}: {count} workers" for leaf, count in enumerate(counts))
        return f"{self.spines} spines, each linked at {self.mbit} Mbit/s to {self.leaves} leaves ({racks})"


class Fabric(Network):
    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        super().__init__("paslab", mtu=shape.mtu)

    def _build(self) -> None:
        shape = self.shape
        self.leaf_switches = [self.host(f"leaf{leaf}") for leaf in range(shape.leaves)]
        self.spine_switches = [self.host(f"spine{spine}") for spine in range(shape.spines)]
        self.leaves = [
            self._rack(leaf, switch, shape.workers) for leaf, switch in enumerate(self.leaf_switches)
        ]
        # Beside leaf 0's own, for a part that another appliance has had.
        self.spare = self._site("spare", "l0spare", self.leaf_switches[0], "spare", "10.80.0.253", _mac(0, 0))
        self.leaf_switches[0].set("spare", master=BRIDGE)
        self.spines = []
        for spine, switch in enumerate(self.spine_switches):
            address, mac = f"10.82.{spine}", _mac(1, spine)
            site = self._site(f"spine{spine}", f"s{spine}app", switch, "app", f"{address}.254", mac)
            switch.set("app", address=mac)
            switch.address("app", f"{address}.1/24")
            self.spines.append(site)
        for leaf, spine in self._links():
            self._cable(leaf, spine)
        for leaf, switch in enumerate(self.leaf_switches):
            for other in range(shape.leaves):
                if other != leaf:
                    switch.route(f"10.80.{other}.0/24", self.spine_side(leaf, other % shape.spines))
        for switch in (*self.leaf_switches, *self.spine_switches):
            switch.inside(route_packets)

    @property
    def sites(self) -> list[Site]:
        """All places with an appliance: leaves first."""
        return [*self.leaves, *self.spines, self.spare]

    def everyone(self, site: Site) -> Site:
        workers = [worker for leaf in self.leaves for worker in leaf.workers]
        ends = site.appliance, site.appliance_address, site.router
        return Site("everyone", *ends, self.mtu, workers)

    def _site(self, name: str, short: str, switch: Host, interface: str, address: str, mac: str) -> Site:
        host = self.host(short)
        self.pair(switch, interface, host, "pas0")
        return Site(name, host.name, address, mac, self.mtu)

    def _rack(self, leaf: int, switch: Host, workers: int) -> Site:
        """A leaf's bridge with its appliance and its workers."""
        rack, mac = f"10.80.{leaf}", _mac(0, leaf)
        site = self._site(f"leaf{leaf}", f"l{leaf}app", switch, "app", f"{rack}.254", mac)
        ports = ["app"]
        for number in range(workers):
            if number * self.shape.leaves // workers != leaf:
                continue
            worker, port = self.host(f"w{number}"), f"w{len(ports) - 1}"
            self.pair(worker, "eth0", switch, port)
            address = f"{rack}.{_FIRST_WORKER + len(ports) - 1}"
            worker.address("eth0", f"{address}/24")
            worker.route("default", f"{rack}.1")
            site.workers.append(worker.name)
            site.members.append(address)
            ports.append(port)
        switch.bridge(BRIDGE, *ports)
        switch.set(BRIDGE, address=mac)
        switch.address(BRIDGE, f"{rack}.1/24")
        return site

    def spine_side(self, leaf: int, spine: int) -> str:
        return f"10.81.{spine}.{2 * leaf}"

    def _cable(self, leaf: int, spine: int) -> None:
        """A shaped link between a leaf and a spine, and the routes that use it."""
        below, above = self.leaf_switches[leaf], self.spine_switches[spine]
        up, down = f"up{spine}", f"down{leaf}"
        self.pair(below, up, above, down)
        above_end, below_end = self.spine_side(leaf, spine), f"10.81.{spine}.{2 * leaf + 1}"
        above.address(down, f"{above_end}/31")
        below.address(up, f"{below_end}/31")
        below.route(f"10.82.{spine}.0/24", above_end)
        above.route(f"10.80.{leaf}.0/24", below_end)
        self._limit(leaf, spine, self.shape.mbit)

    def _limit(self, leaf: int, spine: int, mbit: float) -> None:
        self.leaf_switches[leaf].shape(f"up{spine}", mbit, _BURST, _QUEUE)
        self.spine_switches[spine].shape(f"down{leaf}", mbit, _BURST, _QUEUE)

    def shape_spine(self, spine: int, mbit: float) -> None:
        """Gives all links of a spine another rate."""
        for leaf in range(self.shape.leaves):
            self._limit(leaf, spine, mbit)

    def carried(self) -> dict[str, int]:
        """Bytes that each link between a leaf and a spine has carried so far, by its two ends, in order."""
        found = {}
        for leaf, spine in self._links():
            counted = self.leaf_switches[leaf].counted(f"up{spine}")
            found[f"leaf{leaf}-spine{spine}"] = counted["tx_bytes"]
            found[f"spine{spine}-leaf{leaf}"] = counted["rx_bytes"]
        return found

    def _links(self) -> list[tuple[int, int]]:
        return [(leaf, spine) for leaf in range(self.shape.leaves) for spine in range(self.shape.spines)]


def _mac(tier: int, number: int) -> str:
    return f"02:50:00:00:{tier:02x}:{number:02x}"
