"""Network namespaces: a small data centre inside one machine, removed afterwards.

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

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from process import Failure, run, say

APPLIANCE_ADDRESS = "10.77.0.254"
_APPLIANCE_IPV6 = "fd77::254"
NAMESPACES = Path("/run/netns")
_FILES = Path(tempfile.gettempdir())
KEPT = "kept"
# DPDK has 32 ports; over AF_XDP the 32nd does not open.
MOST_PORTS = 31
# Workers behind one port, where there are more than that.
RACK = 16

# The scripts that make a `Network` under the names that it has here; `bench` for the cost of calls.
_SCRIPTS = ("/lib/demo.py", "/lib/examples.py", "/lib/call_cost.py", "/bench.d/main.py")
_BRIDGE = "bridge"
_CLONE_NEWNET = 0x40000000
_T = TypeVar("_T")


def ip(words: str, *, check: bool = True) -> str:
    """Runs `ip` with these words, none of which has a blank; returns its output."""
    return run("ip", *words.split(), check=check).stdout


def worker_address(rank: int) -> str:
    return f"10.77.0.{rank + 1}"


def work_directory(pid: int, prefix: str = "pas") -> Path:
    """Where the run of a process keeps its files: found again by the process id, as the namespaces are."""
    return _FILES / f"{prefix}-{pid}-files"


class Network:
    """The namespaces of one run and the links between them."""

    def __init__(
        self,
        workers: int,
        mtu: int,
        *,
        middle: bool = False,
        ip6: bool = False,
        routed: bool = False,
        bridged: bool = False,
        prefix: str = "pas",
    ) -> None:
        self.prefix = prefix = f"{prefix}-{os.getpid()}"
        self.mtu = mtu
        self.ip6 = ip6
        self.appliance_address = _APPLIANCE_IPV6 if ip6 else APPLIANCE_ADDRESS
        self.appliance = f"{prefix}-app"
        self.middle = f"{prefix}-mid" if middle else None
        self.workers = [f"{prefix}-w{rank}" for rank in range(workers)]
        racks = -(-workers // RACK) if bridged or workers > MOST_PORTS else 0
        self.racks = [f"{prefix}-r{rack}" for rack in range(racks)]
        self.routers = [f"{prefix}-t{rank}" for rank in range(workers if routed else 0)]
        # Further parts of a kind of network.
        self.others: list[str] = []

    def address(self, rank: int) -> str:
        if self.routers:
            return f"fd78:{rank + 1}::2" if self.ip6 else f"10.78.{rank + 1}.2"
        return f"fd77::{rank + 1:x}" if self.ip6 else worker_address(rank)

    @property
    def namespaces(self) -> list[str]:
        middle = [self.middle] if self.middle else []
        return [self.appliance, *middle, *self.racks, *self.routers, *self.others, *self.workers]

    @property
    def ports(self) -> int:
        """Of the appliance: one per worker, or one per rack."""
        return len(self.racks) or len(self.workers)

    def create(self) -> None:
        """Builds everything. Parts built before a failure are removed by `destroy`."""
        for name in self.namespaces:
            self.add(name)
        for port, rack in enumerate(self.racks):
            self.pair(rack, "uplink", self.appliance, f"pas{port}")
            self.join(rack, "uplink")
            in_namespace(rack, forward_only)
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
                ip(f"-n {own} link set s{rank} master {_BRIDGE}")
            self.own(worker, self.address(rank), "eth0")
            if self.routers:
                ip(f"-n {worker} route add default via {self.address(rank).removesuffix('2')}1")

    def join(self, name: str, *ports: str, bridge: str = _BRIDGE) -> None:
        """Joins interfaces of a namespace by a bridge, which is there then, and up."""
        ip(f"-n {name} link add name {bridge} mtu {self.mtu} type bridge")
        for port in ports:
            ip(f"-n {name} link set {port} master {bridge}")
        ip(f"-n {name} link set {bridge} up")

    def _route(self, rank: int) -> None:
        """A worker's link to its router, and the router's to the appliance."""
        router, near = self.routers[rank], self.address(rank).removesuffix("2") + "1"
        self.pair(self.workers[rank], "eth0", router, "near")
        self.pair(router, "far", self.appliance, f"pas{rank}")
        self.own(router, near, "near")
        self.own(router, f"fd77::{rank + 1:x}" if self.ip6 else worker_address(rank), "far")
        if self.ip6:
            # Without a link-local address it asks for no neighbour of the packets that it forwards.
            for interface in ("near", "far"):
                self.own(router, "fe80::1", interface)
        in_namespace(router, route_packets)

    def own(self, name: str, address: str, interface: str) -> None:
        """Gives an interface an address that no other has: no duplicate address detection is needed."""
        ip(
            f"-n {name} addr add {address}/{'64' if ':' in address else '24'} dev {interface}"
            f"{' nodad' if ':' in address else ''}"
        )

    def limit_rate(self, name: str, interface: str, mbit: float, burst: str, queue: str) -> None:
        """Limits the rate at which an interface sends; `queue` bytes wait for it, the rest is lost."""
        shape = ("rate", f"{mbit:g}mbit", "burst", burst, "limit", queue)
        run("tc", "-n", name, "qdisc", "replace", "dev", interface, "root", "tbf", *shape)

    def lend(self, rank: int, to: int, name: str) -> None:
        """Moves a worker's interface to another's namespace, and takes the addresses off both.

        Their frames are not for the kernel.
        """
        worker, other = self.workers[rank], self.workers[to]
        ip(f"-n {worker} link set eth0 netns {other} name {name}")
        ip(f"-n {other} link set {name} up")
        ip(f"-n {other} addr flush dev eth0")

    def add(self, name: str) -> None:
        ip(f"netns add {name}")
        in_namespace(name, _with_ipv6 if self.ip6 and name != self.appliance else without_ipv6)
        ip(f"-n {name} link set lo up")

    def destroy(self) -> None:
        """Removes every namespace that exists; the links go with them."""
        for name in self.namespaces:
            if (NAMESPACES / name).exists():
                ip(f"netns del {name}")

    def ends(self) -> list[tuple[str, str]]:
        """Both ends of every link to the appliance that is not cut in two: the far ones first."""
        far = [(rack, "uplink") for rack in self.racks] or [(worker, "eth0") for worker in self.workers]
        return far + [(self.appliance, f"pas{port}") for port in range(self.ports)]

    def link(self, name: str, interface: str) -> dict[str, Any]:
        counted: dict[str, Any] = shown(name, interface)["stats64"]
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

    def pair(self, left: str, left_if: str, right: str, right_if: str, *, offloads: str = "off") -> None:
        """A veth pair between two namespaces, both ends up.

        Unless `offloads` are "on" or left alone (""), raw sockets see what a wire would carry: no packet
        larger than the MTU.
        """
        one, other = (f"mtu {self.mtu} netns {name}" for name in (left, right))
        ip(f"link add name {left_if} {one} type veth peer name {right_if} {other}")
        for name, interface in ((left, left_if), (right, right_if)):
            if offloads:
                switch(name, interface, offloads, "gso", "tso", "gro", "tx-udp-segmentation")
            ip(f"-n {name} link set {interface} up")


def switch(name: str, interface: str, state: str, *features: str) -> None:
    """Switches the offloads `on` or `off`."""
    words = [word for feature in features for word in (feature, state)]
    run("ip", "netns", "exec", name, "ethtool", "-K", interface, *words)


def shown(name: str, interface: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ip(f"-n {name} -s -j link show dev {interface}"))[0]
    return found


def remove(networks: Sequence[Network], files: Path, *, keep: bool = False) -> None:
    """Takes networks down and deletes a run's files, or prints where they are if they are to be kept."""
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
    libc = ctypes.CDLL(None, use_errno=True)
    with (NAMESPACES / name).open("rb") as handle:
        if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), name)


def _set(values: Mapping[str, str]) -> None:
    """Writes a kernel setting, if the kernel has it, in the namespace of this thread."""
    for path, value in values.items():
        place = Path("/proc/sys/net") / path
        if place.exists():
            place.write_text(value)


def without_ipv6() -> None:
    """Disables IPv6: neighbour discovery would change the packet counts."""
    _set({f"ipv6/conf/{scope}/disable_ipv6": "1" for scope in ("all", "default")})


def _with_ipv6() -> None:
    """Only the configured addresses, and no router solicitations."""
    values = {"accept_ra": "0", "router_solicitations": "0", "addr_gen_mode": "1"}
    for scope in ("all", "default"):
        _set({f"ipv6/conf/{scope}/{name}": value for name, value in values.items()})


def forward_only() -> None:
    """Keeps a bridge's frames out of a firewall's rules."""
    _set({f"bridge/bridge-nf-call-{table}": "0" for table in ("arptables", "iptables", "ip6tables")})


def route_packets() -> None:
    """Makes a router of the namespace that the thread is in."""
    _set({"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"})


def remove_leftovers(
    prefix: str = "pas", scripts: Sequence[str] = _SCRIPTS, *, also_kept: bool = False
) -> list[str]:
    """Removes what runs of these scripts left that were killed outright; returns the namespaces' names.

    A run is over if its process is; files kept on purpose stay unless `also_kept`.
    """
    removed = []
    for path in [*sorted(NAMESPACES.glob(f"{prefix}-*")), *_FILES.glob(f"{prefix}-*")]:
        match = re.fullmatch(rf"{prefix}-(\d+)(-\w+)?", path.name)
        if not match or not is_over(int(match[1]), scripts, also_kept=also_kept):
            continue
        if path.parent != NAMESPACES:
            shutil.rmtree(path, ignore_errors=True)
            continue
        # Only a run of such a script starts processes in a namespace of this name, and that run is over.
        for pid in ip(f"netns pids {path.name}").split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip(f"netns del {path.name}")
        removed.append(path.name)
    return removed


def is_over(pid: int, scripts: Sequence[str] = _SCRIPTS, *, also_kept: bool = False) -> bool:
    """Whether none of these scripts runs under this number."""
    if (work_directory(pid) / KEPT).exists() and not also_kept:
        return False
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    # Another program may have got the number since.
    return not any(script in command for script in scripts)
