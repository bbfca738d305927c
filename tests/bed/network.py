"""Namespaces, links and addresses by pyroute2, removed however the run ends."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil
from pyroute2 import IPRoute, NetNS, config, netns

from netns import APPLIANCE_ADDRESS, NAMESPACES, in_namespace, worker_address
from process import Failure, run

MTU = 1500
# Raw sockets must see what a wire would carry: no packet larger than the MTU.
_OFFLOADS = ("gso", "off", "tso", "off", "gro", "off", "tx-udp-segmentation", "off")
_T = TypeVar("_T")
# pyroute2 enters namespaces in child processes. They end by SIGTERM, so that our handlers must not be theirs;
# and on a busy machine they take longer than its 2 s.
config.disable_mp_signal = True
config.default_communicate_timeout = 20
config.default_create_socket_timeout = 60


class Host:
    def __init__(self, name: str) -> None:
        self.name = name
        netns.create(name)
        self.ip = NetNS(name)
        for scope in ("all", "default"):
            self.inside(partial(_write, Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1"))
        self.up("lo")

    def close(self) -> None:
        self.ip.close()
        if (NAMESPACES / self.name).exists():
            netns.remove(self.name)

    def inside(self, action: Callable[[], _T]) -> _T:
        """Calls a function inside, in a thread; sockets that it opens stay inside."""
        return in_namespace(self.name, action)

    def run(self, *command: str, check: bool = True, timeout: float = 20.0) -> str:
        """Runs a short command inside and returns what it printed on both outputs."""
        done = run("ip", "netns", "exec", self.name, *command, check=check, timeout=timeout)
        return done.stdout + done.stderr

    def index(self, interface: str) -> int:
        """The kernel's number of an interface."""
        found = self.ip.link_lookup(ifname=interface)
        if not found:
            raise Failure(f"{self.name} has no interface {interface}")
        return int(found[0])

    def set(self, interface: str, **changes: Any) -> None:
        """Changes an interface: `state="down"`, `mtu=9000`, `master=…`, `address=…` and so on."""
        if isinstance(master := changes.get("master"), str):
            changes["master"] = self.index(master)
        self.ip.link("set", index=self.index(interface), **changes)

    def up(self, interface: str) -> None:
        self.set(interface, state="up")

    def address(self, interface: str, address: str) -> None:
        """Gives an interface an address with its prefix length."""
        host, prefix = address.split("/")
        self.ip.addr("add", index=self.index(interface), address=host, prefixlen=int(prefix))

    def route(self, target: str, gateway: str) -> None:
        """Adds a route; `default` is every other target."""
        self.ip.route("add", dst=target, gateway=gateway)

    def bridge(self, name: str, *ports: str, **options: int) -> None:
        """Joins interfaces by a new bridge; options are the kernel's, such as `br_mcast_snooping=0`."""
        self.ip.link("add", ifname=name, kind="bridge", **options)
        # A switch has no firewall: that of the kernel for bridges would process each packet.
        for table in ("arptables", "iptables", "ip6tables"):
            self.inside(partial(_write, Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}"), "0"))
        for port in ports:
            self.set(port, master=name)
        self.up(name)

    def shape(self, interface: str, mbit: float, burst: int, queue: int) -> None:
        """Limits what an interface sends to this rate; at most `queue` bytes wait."""
        rate = f"{mbit:g}mbit"
        self.ip.tc("replace", "tbf", self.index(interface), 0, rate=rate, burst=burst, limit=queue)

    def mac(self, interface: str = "eth0") -> str:
        return str(self._link(interface).get_attr("IFLA_ADDRESS"))

    def counted(self, interface: str) -> dict[str, int]:
        """What the kernel has counted at an interface: `rx_packets`, `tx_bytes` and so on."""
        return dict(self._link(interface).get_attr("IFLA_STATS64"))

    def forget(self) -> None:
        """Deletes the kernel's learnt neighbours and routes."""
        for command in ("neigh flush all", "route flush cache"):
            self.run("ip", *command.split())

    def _link(self, interface: str) -> Any:
        return self.ip.get_links(self.index(interface))[0]


class Network:
    """The hosts of one run. Use it in a `with`: it is removed at the end."""

    def __init__(self, prefix: str, *, mtu: int = MTU) -> None:
        """Names of namespaces begin with `prefix` and the process id. Removes those of ended processes."""
        self.prefix = prefix
        self.mtu = mtu
        self.hosts: list[Host] = []
        remove_leftovers(prefix)
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        """Makes the hosts and links; attributes are set before."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def host(self, name: str) -> Host:
        """Adds a namespace; its full name is `PREFIX-PID-name`."""
        host = Host(f"{self.prefix}-{os.getpid()}-{name}")
        self.hosts.append(host)
        return host

    def pair(self, left: Host, left_if: str, right: Host, right_if: str) -> None:
        """Joins two hosts by a veth pair, both ends up, without segmentation offloads."""
        peer = {"ifname": right_if, "mtu": self.mtu, "net_ns_fd": right.name}
        with IPRoute() as here:
            here.link("add", ifname=left_if, kind="veth", mtu=self.mtu, net_ns_fd=left.name, peer=peer)
        for host, interface in ((left, left_if), (right, right_if)):
            host.run("ethtool", "-K", interface, *_OFFLOADS)
            host.up(interface)

    def close(self) -> None:
        while self.hosts:
            self.hosts.pop().close()


class Star(Network):
    """An appliance with one link to each worker; attributes as of the demo's network.

    worker i: eth0 ── pas{i} :appliance
    """

    def __init__(self, workers: int, prefix: str = "pastest", *, mtu: int = MTU) -> None:
        self.appliance_address = APPLIANCE_ADDRESS
        self.ports = workers
        super().__init__(prefix, mtu=mtu)
        self.appliance = self.at_appliance.name
        self.workers = [host.name for host in self.at_workers]

    def _build(self) -> None:
        self.at_appliance = self.host("app")
        self.at_workers = [self.host(f"w{rank}") for rank in range(self.ports)]
        for rank, worker in enumerate(self.at_workers):
            self.pair(worker, "eth0", self.at_appliance, f"pas{rank}")
            worker.address("eth0", f"{self.address(rank)}/24")

    def address(self, rank: int) -> str:
        """The address of a worker, without the prefix length."""
        return worker_address(rank)


def remove_leftovers(prefix: str) -> list[str]:
    """Removes namespaces under this prefix whose process has ended; returns their names."""
    removed = []
    for name in netns.listnetns():
        owner = re.fullmatch(rf"{re.escape(prefix)}-(\d+)-[\w-]+", name)
        if owner and not psutil.pid_exists(int(owner.group(1))):
            netns.remove(name)
            removed.append(name)
    return removed


def _write(switch: Path, value: str) -> None:
    """Writes a setting, if the kernel has it."""
    if switch.exists():
        switch.write_text(value)
