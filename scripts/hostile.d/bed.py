"""The bed: four workers, a parameter server and an attacker behind a bridge, as in a rack, and the appliance.

The attacker has a second link, a wire to a port of the appliance that is its own: what it sends there no
switch has seen.

    worker i: eth0 ─┐
    server:   eth0 ─┤ bridge ── pas0 :appliance: pas1 ── eth1 :attacker
    attacker: eth0 ─┘
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

import private
from appliance import TELEMETRY, Appliance, cores, device
from netns import APPLIANCE_ADDRESS, Network, worker_address
from process import run

PREFIX = "pashostile"
RANKS = 4
APPLIANCE_IPV6 = "2001:db8::fe"
ATTACKER_ADDRESS = "10.77.0.66"
SERVER_ADDRESS = "10.77.0.9"
# An address that nobody has.
NOBODY = "10.77.0.99"
FIRST_PORT = 41000
SERVER_PORT = 16421
SERVER_TELEMETRY = ("127.0.0.1", 9465)
# The jobs of the configuration: as shipped; with `members`; in the shared pool; asynchronous; of
# 1,024 ranks; neighbours.
OPEN, LISTED, SHARED, ASYNCHRONOUS, WIDE, NEIGHBOUR, NEIGHBOUR_SHARED = 1, 2, 3, 4, 5, 6, 7
MTU = 1500


def worker_port(job: int, rank: int) -> int:
    """The UDP port that a worker sends from: the attacker is told, which a stranger would have to guess."""
    return FIRST_PORT + 10 * job + rank


class Bed(Network):
    """The namespaces and links."""

    def __init__(self) -> None:
        super().__init__(RANKS, MTU, middle=False)
        private.rename(self, PREFIX)
        owner = self.appliance.removesuffix("-app")
        self.bridge, self.server, self.attacker = f"{owner}-bri", f"{owner}-srv", f"{owner}-att"

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        return [self.appliance, self.bridge, self.server, self.attacker, *self.workers]

    def create(self) -> None:
        """Builds everything. What was built before a failure is removed by `destroy`."""
        for name in self.namespaces:
            self.add(name)
        run("ip", "-n", self.bridge, "link", "add", "name", "rack", "type", "bridge", "mcast_snooping", "0")
        hosts = {worker: worker_address(rank) for rank, worker in enumerate(self.workers)}
        hosts |= {self.server: SERVER_ADDRESS, self.attacker: ATTACKER_ADDRESS}
        for number, (name, address) in enumerate(hosts.items()):
            self.pair(name, "eth0", self.bridge, f"h{number}")
            run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        self.pair(self.bridge, "uplink", self.appliance, "pas0")
        self.pair(self.attacker, "eth1", self.appliance, "pas1")
        for port in [f"h{number}" for number in range(len(hosts))] + ["uplink"]:
            run("ip", "-n", self.bridge, "link", "set", port, "master", "rack")
        run("ip", "-n", self.bridge, "link", "set", "rack", "up")

    def forget(self) -> None:
        """Empties what the workers' kernels have learnt of routes and neighbours."""
        for name in self.workers:
            run("ip", "-n", name, "route", "flush", "cache")
            run("ip", "-n", name, "neigh", "flush", "all")

    def mac(self, namespace: str, interface: str = "eth0") -> str:
        """The MAC address of an interface."""
        words = run("ip", "-n", namespace, "-o", "link", "show", "dev", interface).stdout.split()
        return words[words.index("link/ether") + 1]


def appliance(binary: Path, bed: Bed, files: Path) -> Appliance:
    """Starts the appliance of the bed."""
    return Appliance(binary, bed, configuration(files / "admin.sock"), files)


def configuration(admin: Path) -> str:
    """The appliance's TOML: as shipped where it is not the matter of a case."""
    main, dataplane = cores()
    ports = "\n".join(
        f'[[ports]]\nname = "{name}"\ndevice = "{device("af_packet", number, MTU)}"\nmtu = {MTU}\n'
        for number, name in enumerate(("rack", "wire"))
    )
    return f"""\
[appliance]
name = "{PREFIX}-{os.getpid()}"
addresses = ["{APPLIANCE_ADDRESS}", "{APPLIANCE_IPV6}"]

[dataplane]
main_core = {main}
cores = [{dataplane}]
float = true
memory_mb = 512

{ports}
[pool]
slots = 8192

{_jobs()}
[ps]
mode = "external"
address = "{SERVER_ADDRESS}"
port = {SERVER_PORT}
listen = "{SERVER_TELEMETRY[0]}:{SERVER_TELEMETRY[1]}"

[telemetry]
listen = "{TELEMETRY[0]}:{TELEMETRY[1]}"

[admin]
listen = "unix:{admin}"
"""


def _jobs() -> str:
    """As shipped; with `members`; in the shared pool; asynchronous; with many ranks; formed by Joins."""
    members = ", ".join(f'"{worker_address(rank)}"' for rank in range(RANKS))
    return f"""\
[[jobs]]
id = {OPEN}
name = "open"
fan_in = {RANKS}

[[jobs]]
id = {LISTED}
name = "listed"
fan_in = {RANKS}
members = [{members}]

[[jobs]]
id = {SHARED}
name = "shared"
fan_in = {RANKS}
profile = "dsa"

[[jobs]]
id = {ASYNCHRONOUS}
name = "asynchronous"
fan_in = {RANKS}
mode = "olaf"

[[jobs]]
id = {WIDE}
name = "wide"
fan_in = 1024
window = 32

[[jobs]]
id = {NEIGHBOUR}
name = "neighbour"
fan_in = 2

[[jobs]]
id = {NEIGHBOUR_SHARED}
name = "neighbour-shared"
fan_in = 2
profile = "dsa"

[admission]
jobs = "1000-1999"
from = ["10.77.0.0/24"]
max_jobs = 16
"""
