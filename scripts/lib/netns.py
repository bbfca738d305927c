"""Network namespaces: a small data centre inside one machine, gone without a trace afterwards.

One namespace for the appliance, one per worker, a veth pair from each worker to the appliance. The
appliance's ends have no address: DPDK owns them. With `middle`, each pair is cut in two and both halves end
in a namespace between, where the frames can be tampered with:

    worker i: eth0 ── w{i} :middle: a{i} ── pas{i} :appliance

More workers than the appliance may have ports share them, as in racks: a namespace for each rack, with a
bridge that joins its workers' links and one to the appliance.

    worker i: eth0 ── s{i} :rack r, bridge: uplink ── pas{r} :appliance

With `routed`, a router of its own stands between each worker and the appliance:

    worker i: eth0 ── near :router i: far ── pas{i} :appliance
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from process import Failure, run, say

APPLIANCE_ADDRESS = "10.77.0.254"
_APPLIANCE_IPV6 = "fd77::254"
NAMESPACES = Path("/run/netns")
KEPT = "kept"
# DPDK has 32 ports; over AF_XDP the 32nd does not open.
MOST_PORTS = 31
# Workers behind one port, where there are more than that.
RACK = 16

_NAME = re.compile(r"pas-(\d+)-[a-z0-9]+")
# The scripts that make a `Network` under the names that it has here; `bench` for what calls cost.
_SCRIPTS = (
    b"/lib/demo.py",
    b"/lib/soak.py",
    b"/lib/examples.py",
    b"/lib/mistakes.py",
    b"/lib/call_cost.py",
    b"/lib/lab.py",
    b"/bench.d/main.py",
)
_BRIDGE = "bridge"
_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")


def worker_address(rank: int) -> str:
    """The address of a worker, without the prefix length."""
    return f"10.77.0.{rank + 1}"


def work_directory(pid: int) -> Path:
    """Where the run of a process keeps its files: found again by the process id, as the namespaces are."""
    return Path(tempfile.gettempdir()) / f"pas-{pid}-files"


class Network:
    """The namespaces of one run and the links between them."""

    def __init__(
        self,
        workers: int,
        mtu: int,
        *,
        middle: bool,
        ip6: bool = False,
        routed: bool = False,
        bridged: bool = False,
    ) -> None:
        prefix = f"pas-{os.getpid()}"
        self.mtu = mtu
        self.ip6 = ip6
        self.appliance_address = _APPLIANCE_IPV6 if ip6 else APPLIANCE_ADDRESS
        self.appliance = f"{prefix}-app"
        self.middle = f"{prefix}-mid" if middle else None
        self.workers = [f"{prefix}-w{rank}" for rank in range(workers)]
        racks = -(-workers // RACK) if bridged or workers > MOST_PORTS else 0
        self.racks = [f"{prefix}-r{rack}" for rack in range(racks)]
        self.routers = [f"{prefix}-t{rank}" for rank in range(workers if routed else 0)]

    def address(self, rank: int) -> str:
        """The address of a worker, without the prefix length."""
        if self.routers:
            return f"fd78:{rank + 1}::2" if self.ip6 else f"10.78.{rank + 1}.2"
        return f"fd77::{rank + 1:x}" if self.ip6 else worker_address(rank)

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        between = [*([self.middle] if self.middle else []), *self.racks, *self.routers]
        return [self.appliance, *between, *self.workers]

    @property
    def ports(self) -> int:
        """Of the appliance: one per worker, or one per rack."""
        return len(self.racks) or len(self.workers)

    def create(self) -> None:
        """Builds everything. What was built before a failure is removed by `destroy`."""
        for name in self.namespaces:
            self.add(name)
        for port, rack in enumerate(self.racks):
            run("ip", "-n", rack, "link", "add", "name", _BRIDGE, "mtu", str(self.mtu), "type", "bridge")
            run("ip", "-n", rack, "link", "set", _BRIDGE, "up")
            self._forward_only(rack)
            self.pair(rack, "uplink", self.appliance, f"pas{port}")
            run("ip", "-n", rack, "link", "set", "uplink", "master", _BRIDGE)
        for rank, worker in enumerate(self.workers):
            own = self.racks[rank // RACK] if self.racks else None
            far = (own, f"s{rank}") if own else (self.appliance, f"pas{rank}")
            if self.routers:
                self._route(rank)
            elif self.middle:
                self.pair(worker, "eth0", self.middle, f"w{rank}")
                self.pair(self.middle, f"a{rank}", *far)
            else:
                self.pair(worker, "eth0", *far)
            if own:
                run("ip", "-n", own, "link", "set", f"s{rank}", "master", _BRIDGE)
            self._own(worker, self.address(rank), "eth0")
            if self.routers:
                gateway = self.address(rank).removesuffix("2") + "1"
                run("ip", "-n", worker, "route", "add", "default", "via", gateway)

    def _forward_only(self, rack: str) -> None:
        """A switch has no firewall: where the kernel has one for bridges, it does not look at each packet."""
        for table in ("arptables", "iptables", "ip6tables"):
            word = f"net.bridge.bridge-nf-call-{table}=0"
            run("ip", "netns", "exec", rack, "sysctl", "-q", "-w", word, check=False)

    def _route(self, rank: int) -> None:
        """A worker's link to its router, and the router's to the appliance."""
        router, near = self.routers[rank], self.address(rank).removesuffix("2") + "1"
        self.pair(self.workers[rank], "eth0", router, "near")
        self.pair(router, "far", self.appliance, f"pas{rank}")
        self._own(router, near, "near")
        self._own(router, f"fd77::{rank + 1:x}" if self.ip6 else worker_address(rank), "far")
        if self.ip6:
            # What it forwards, it asks for from a link-local address, or not at all.
            for interface in ("near", "far"):
                self._own(router, "fe80::1", interface)
        in_namespace(router, route_packets)

    def _own(self, name: str, address: str, interface: str) -> None:
        """Gives an interface its address, which nobody else has: no time is lost by asking."""
        prefix, more = ("64", ["nodad"]) if self.ip6 else ("24", [])
        run("ip", "-n", name, "addr", "add", f"{address}/{prefix}", "dev", interface, *more)

    def limit_rate(self, name: str, interface: str, mbit: float, burst: str, queue: str) -> None:
        """Lets an interface send so many Mbit/s; `queue` bytes wait for it, the rest is lost."""
        shape = ("rate", f"{mbit:g}mbit", "burst", burst, "limit", queue)
        run("tc", "-n", name, "qdisc", "replace", "dev", interface, "root", "tbf", *shape)

    def lend(self, rank: int, to: int, name: str) -> None:
        """Moves a worker's interface to another's namespace, and takes the addresses off both.

        Their frames are for somebody beside the kernel.
        """
        worker, other = self.workers[rank], self.workers[to]
        run("ip", "-n", worker, "link", "set", "eth0", "netns", other, "name", name)
        run("ip", "-n", other, "link", "set", name, "up")
        run("ip", "-n", other, "addr", "flush", "dev", "eth0")

    def add(self, name: str) -> None:
        """Makes one namespace."""
        run("ip", "netns", "add", name)
        in_namespace(name, _with_ipv6 if self.ip6 and name != self.appliance else _without_ipv6)
        run("ip", "-n", name, "link", "set", "lo", "up")

    def destroy(self) -> None:
        """Removes every namespace that exists; the links go with them."""
        for name in self.namespaces:
            if (NAMESPACES / name).exists():
                run("ip", "netns", "del", name)

    def ends(self) -> list[tuple[str, str]]:
        """Both ends of every link to the appliance that is not cut in two: the far ones first."""
        far = [(rack, "uplink") for rack in self.racks] or [(worker, "eth0") for worker in self.workers]
        return far + [(self.appliance, f"pas{port}") for port in range(self.ports)]

    def link(self, name: str, interface: str) -> dict[str, Any]:
        """What the kernel has counted at an interface."""
        found = json.loads(run("ip", "-n", name, "-s", "-j", "link", "show", "dev", interface).stdout)
        counted: dict[str, Any] = found[0]["stats64"]
        return counted

    def ping(self, rank: int, tries: int) -> str:
        """The round trip time of one echo request from a worker to the appliance: ARP and ICMP work."""
        target = self.appliance_address
        command = ("ip", "netns", "exec", self.workers[rank], "ping", "-n", "-c1", "-W1", target)
        for _ in range(tries):
            done = run(*command, check=False)
            if done.returncode == 0:
                found = re.search(r"time=([\d.]+ ms)", done.stdout)
                return found.group(1) if found else "?"
        raise Failure(f"worker {rank} cannot ping the appliance at {target}", done.stdout.strip())

    def pair(self, left: str, left_if: str, right: str, right_if: str) -> None:
        """A veth pair between two namespaces, both ends up."""
        mtu = ("mtu", str(self.mtu))
        one, other = ("name", left_if, *mtu, "netns", left), ("name", right_if, *mtu, "netns", right)
        run("ip", "link", "add", *one, "type", "veth", "peer", *other)
        for name, interface in ((left, left_if), (right, right_if)):
            # Raw sockets must see what a wire would carry: no packet larger than the MTU.
            features = ("gso", "off", "tso", "off", "gro", "off", "tx-udp-segmentation", "off")
            run("ip", "netns", "exec", name, "ethtool", "-K", interface, *features)
            run("ip", "-n", name, "link", "set", interface, "up")


def remove(networks: Sequence[Network], files: Path, *, keep: bool = False) -> None:
    """Takes networks down and deletes a run's files, or says where they are if they are to be kept."""
    if keep and files.exists():
        (files / KEPT).touch()
        names = " ".join(name for network in networks for name in network.namespaces)
        say(f"kept: namespaces {names}, files {files}\nremove them: scripts/demo --cleanup")
        return
    for network in networks:
        network.destroy()
    shutil.rmtree(files, ignore_errors=True)


def in_namespace(name: str, action: Callable[[], _T]) -> _T:
    """Does something inside a namespace, in a thread that then ends, so that this one never leaves its own.

    Raises what the action raises. Cheaper than a process, and a socket made inside stays there for good.
    """

    def inside() -> _T:
        enter(name)
        return action()

    with ThreadPoolExecutor(max_workers=1) as one_thread:
        return one_thread.submit(inside).result()


def enter(name: str) -> None:
    """Moves the calling thread into a namespace, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    with (NAMESPACES / name).open("rb") as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), name)


def _without_ipv6() -> None:
    """Neighbour discovery of interfaces that nobody asked for would only blur the packet counts."""
    for scope in ("all", "default"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


def _with_ipv6() -> None:
    """Only the addresses that are given to it, and no word to routers."""
    for scope in ("all", "default"):
        for switch, value in (("accept_ra", "0"), ("router_solicitations", "0"), ("addr_gen_mode", "1")):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/{switch}").write_text(value)


def route_packets() -> None:
    """Makes a router of the namespace that the thread is in."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    switch = Path("/proc/sys/net/ipv6/conf/all/forwarding")
    if switch.exists():
        switch.write_text("1")


def remove_leftovers(*, also_kept: bool = False) -> list[str]:
    """Removes what runs left behind that were killed outright, and returns the names of the namespaces.

    A run is over if its process is; what was kept on purpose stays unless `also_kept`.
    """
    removed = []
    names = sorted(path.name for path in NAMESPACES.glob("pas-*")) if NAMESPACES.exists() else []
    for name in names:
        match = _NAME.fullmatch(name)
        if not match or not _is_over(int(match.group(1)), also_kept=also_kept):
            continue
        # Only a run of the demo starts processes in a namespace of this name, and that run is over.
        for pid in run("ip", "netns", "pids", name).stdout.split():
            _kill(int(pid))
        run("ip", "netns", "del", name)
        removed.append(name)
    for directory in Path(tempfile.gettempdir()).glob("pas-*-files"):
        match = _NAME.fullmatch(directory.name)
        if match and _is_over(int(match.group(1)), also_kept=also_kept):
            shutil.rmtree(directory, ignore_errors=True)
    return removed


def _is_over(pid: int, *, also_kept: bool) -> bool:
    if (work_directory(pid) / KEPT).exists() and not also_kept:
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True
    # Another program may have got the number since.
    return not any(script in command for script in _SCRIPTS)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
