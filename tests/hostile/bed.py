"""The bed: four workers, a parameter server and an attacker behind a bridge, as in a rack, and the appliance.

The attacker has a second link, straight to a port of the appliance: its frames there pass no switch.

    worker i: eth0 ─┐
    server:   eth0 ─┤ bridge ── pas0 :appliance: pas1 ── eth1 :attacker
    attacker: eth0 ─┘
"""

from __future__ import annotations

import os
from pathlib import Path

from configuration import Tables, cores, device, dumps, telemetry
from netns import APPLIANCE_ADDRESS as APPLIANCE_ADDRESS
from netns import worker_address as worker_address

from ..bed.appliance import TELEMETRY as TELEMETRY
from ..bed.appliance import Appliance
from ..bed.network import Network
from .frames import RANKS

PREFIX = "pashostile"
APPLIANCE_IPV6 = "2001:db8::fe"
ATTACKER_ADDRESS = "10.77.0.66"
SERVER_ADDRESS = "10.77.0.9"
# An address that no host has.
UNUSED = "10.77.0.99"
FIRST_PORT = 41000
SERVER_PORT = 16421
SERVER_TELEMETRY = ("127.0.0.1", 9465)
# The jobs of the configuration: as shipped; with `members`; in the shared pool; asynchronous; of
# 1,024 ranks; neighbours.
OPEN, LISTED, SHARED, ASYNCHRONOUS, WIDE, NEIGHBOUR, NEIGHBOUR_SHARED = 1, 2, 3, 4, 5, 6, 7
MTU = 1500


def worker_port(job: int, rank: int) -> int:
    """The UDP port that a worker sends from: a stranger would have to guess it."""
    return FIRST_PORT + 10 * job + rank


class Bed(Network):
    def __init__(self) -> None:
        super().__init__(PREFIX, mtu=MTU)

    def _build(self) -> None:
        self.at_appliance, self.bridge = self.host("app"), self.host("bri")
        self.server, self.attacker = self.host("srv"), self.host("att")
        self.workers = [self.host(f"w{rank}") for rank in range(RANKS)]
        self.appliance = self.at_appliance.name
        addresses = {worker_address(rank): worker for rank, worker in enumerate(self.workers)}
        addresses |= {SERVER_ADDRESS: self.server, ATTACKER_ADDRESS: self.attacker}
        ports = []
        for number, (address, host) in enumerate(addresses.items()):
            self.pair(host, "eth0", self.bridge, f"h{number}")
            host.address("eth0", f"{address}/24")
            ports.append(f"h{number}")
        self.pair(self.bridge, "uplink", self.at_appliance, "pas0")
        self.pair(self.attacker, "eth1", self.at_appliance, "pas1")
        self.bridge.bridge("rack", *ports, "uplink", br_mcast_snooping=0)

    def forget(self) -> None:
        """Deletes the learnt routes and neighbours of the workers' kernels."""
        for worker in self.workers:
            worker.forget()


def appliance(binary: Path, bed: Bed, files: Path, seals: dict[str, str]) -> Appliance:
    return Appliance(binary, bed, configuration(files / "admin.sock", seals), files)


def configuration(admin: Path, seals: dict[str, str]) -> str:
    """The appliance's TOML: as shipped, except for the cases' own settings.

    `seals` are the keys of jobs whose packets are sealed. Those to a parameter server are not, nor are
    updates, and neighbours have no key of others.
    """
    main, dataplane = cores()
    shared: Tables = {"kind": "shared", "shared": {"server": False}} if seals else {"kind": "dsa"}
    members = [worker_address(rank) for rank in range(RANKS)]
    host, port = SERVER_TELEMETRY
    return dumps(
        {
            "appliance": {
                "name": f"{PREFIX}-{os.getpid()}",
                "addresses": [APPLIANCE_ADDRESS, APPLIANCE_IPV6],
            },
            "dataplane": {"main_core": main, "cores": [dataplane], "float": True, "memory_mb": 512},
            "ports": [
                {"name": name, "device": device("af_packet", number, MTU), "mtu": MTU}
                for number, name in enumerate(("rack", "wire"))
            ],
            "pool": {"slots": 8192},
            "jobs": [
                {"id": OPEN, "name": "open", "fan_in": RANKS, **seals},
                {"id": LISTED, "name": "listed", "fan_in": RANKS, "members": members, **seals},
                {"id": SHARED, "name": "shared", "fan_in": RANKS, **shared, **seals},
                {"id": ASYNCHRONOUS, "name": "asynchronous", "fan_in": RANKS, "kind": "updates"},
                {"id": WIDE, "name": "wide", "fan_in": 1024, "window": 32, **seals},
                {"id": NEIGHBOUR, "name": "neighbour", "fan_in": 2},
                {"id": NEIGHBOUR_SHARED, "name": "neighbour-shared", "fan_in": 2, "kind": "dsa"},
            ],
            "admission": {"jobs": "1000-1999", "from": ["10.77.0.0/24"], "max_jobs": 16},
            "ps": {
                "mode": "external",
                "address": SERVER_ADDRESS,
                "port": SERVER_PORT,
                "listen": f"{host}:{port}",
            },
            "telemetry": telemetry(),
            "admin": {"listen": f"unix:{admin}"},
        }
    )
