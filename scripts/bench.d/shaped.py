"""A small data centre with slow links: a namespace per worker, a switch between, the appliance behind it.

    worker i: eth0 ──tbf──▶ w{i}┐
                    ◀──tbf──    ├─ bridge ─ a0 ── pas0 :appliance
                            ... ┘

Both directions of a worker's link are shaped at the end where frames enter it, so that a queue builds up
where it would at a real port. The appliance's own link is not shaped: it stands for the switch, whose ports
together are N times as fast as one.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

from netns import NAMESPACES, in_namespace
from process import Failure, run

PREFIX = "pasbench"
APPLIANCE = "10.88.0.254"
MTU = 1500
# What tbf counts of a frame: everything from the Ethernet header on, without preamble, checksum and gap.
ETHERNET = 14
# IPv4, UDP, Pascaline's header.
PASCALINE_HEADERS = ETHERNET + 20 + 8 + 22
# The longest multiple of 8 that a frame of 1,500 bytes has room for.
PAYLOAD = 1448

_NAME = re.compile(PREFIX + r"-(\d+)-[a-z0-9]+")
_FILES = re.compile(PREFIX + r"-(\d+)-\w+")
_QUEUE_MS = 50


def address(rank: int) -> str:
    """The address of a worker."""
    return f"10.88.0.{rank + 1}"


def burst(mbit: int) -> int:
    """The bucket in bytes: a few frames, at high rates a segmentation unit, which software would cut."""
    return 6 * 1024 if mbit < 500 else 64 * 1024


class Shaped:
    """The namespaces of one measurement. A context manager: whatever happens inside, they are removed.

    `mbit` is the rate of each worker's link and direction; 0 leaves the links as they are. Segmentation is
    off in front of the appliance, whose raw socket must see what a wire would carry; `offloads` turns it on,
    or off, everywhere.
    """

    def __init__(
        self,
        workers: int,
        mbit: int,
        *,
        veth_options: tuple[str, ...] = (),
        mtu: int = MTU,
        offloads: bool | None = None,
    ) -> None:
        prefix = f"{PREFIX}-{os.getpid()}"
        self.mbit = mbit
        self.mtu = mtu
        self._offloads = offloads
        self.appliance = f"{prefix}-app"
        self.switch = f"{prefix}-sw"
        self.workers = [f"{prefix}-w{rank}" for rank in range(workers)]
        self._veth_options = veth_options

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        return [self.appliance, self.switch, *self.workers]

    def __enter__(self) -> Shaped:
        try:
            self._create()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def destroy(self) -> None:
        """Removes every namespace that exists; the links go with them."""
        for name in self.namespaces:
            if (NAMESPACES / name).exists():
                run("ip", "netns", "del", name)

    def shaper(self, rank: int) -> dict[str, int]:
        """Frames that a worker's shapers, both directions, have dropped and passed on."""
        text = run(
            "ip", "netns", "exec", self.workers[rank], "tc", "-s", "qdisc", "show", "dev", "eth0"
        ).stdout
        text += run("ip", "netns", "exec", self.switch, "tc", "-s", "qdisc", "show", "dev", f"w{rank}").stdout
        found = re.findall(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+)", text)
        return {
            "sent": sum(int(sent) for sent, _ in found),
            "dropped": sum(int(dropped) for _, dropped in found),
        }

    def _create(self) -> None:
        for name in self.namespaces:
            run("ip", "netns", "add", name)
            in_namespace(name, _without_ipv6)
            run("ip", "-n", name, "link", "set", "lo", "up")
        in_namespace(self.switch, _without_filters)
        run("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "br0", "up")
        for rank, worker in enumerate(self.workers):
            self._plug(worker, "eth0", f"w{rank}")
            run("ip", "-n", worker, "addr", "add", f"{address(rank)}/24", "dev", "eth0")
            if self.mbit:
                _shape(worker, "eth0", self.mbit)
                _shape(self.switch, f"w{rank}", self.mbit)
        self._plug(self.appliance, "pas0", "a0")
        ends = [(self.switch, "a0"), (self.appliance, "pas0")]
        if self._offloads is not None:
            ends += [(worker, "eth0") for worker in self.workers]
            ends += [(self.switch, f"w{rank}") for rank in range(len(self.workers))]
        way = "on" if self._offloads else "off"
        names = ("gso", "tso", "gro", "tx-udp-segmentation")
        for namespace, interface in ends:
            features = [word for name in names for word in (name, way)]
            run("ip", "netns", "exec", namespace, "ethtool", "-K", interface, *features)

    def _plug(self, namespace: str, interface: str, port: str) -> None:
        one = ("name", interface, "mtu", str(self.mtu), "netns", namespace)
        other = ("name", port, "mtu", str(self.mtu), "netns", self.switch)
        run(
            "ip",
            "link",
            "add",
            *one,
            *self._veth_options,
            "type",
            "veth",
            "peer",
            *other,
            *self._veth_options,
        )
        run("ip", "-n", self.switch, "link", "set", port, "master", "br0")
        run("ip", "-n", self.switch, "link", "set", port, "up")
        run("ip", "-n", namespace, "link", "set", interface, "up")


def _shape(namespace: str, interface: str, mbit: int) -> None:
    limit = max(256 * 1024, mbit * 1000 * _QUEUE_MS // 8)
    try:
        run(
            "tc",
            "-n",
            namespace,
            "qdisc",
            "add",
            "dev",
            interface,
            "root",
            "tbf",
            "rate",
            f"{mbit}mbit",
            "burst",
            str(burst(mbit)),
            "limit",
            str(limit),
        )
    except Failure as failure:
        raise Failure(f"{failure}; this kernel needs sch_tbf to shape links", failure.log) from failure


def _without_ipv6() -> None:
    for scope in ("all", "default"):
        switch = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if switch.exists():
            switch.write_text("1")


def _without_filters() -> None:
    """A switch does not walk through a firewall's rules for each frame."""
    for protocol in ("iptables", "ip6tables", "arptables"):
        switch = Path(f"/proc/sys/net/bridge/bridge-nf-call-{protocol}")
        if switch.exists():
            switch.write_text("0")


def remove_leftovers() -> list[str]:
    """Removes namespaces and files of runs that were killed outright; returns the namespaces' names."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}-*"):
        match = _FILES.fullmatch(path.name)
        if match and not _runs(int(match.group(1))):
            shutil.rmtree(path, ignore_errors=True)
    for path in sorted(NAMESPACES.glob(f"{PREFIX}-*")) if NAMESPACES.exists() else []:
        match = _NAME.fullmatch(path.name)
        if match and not _runs(int(match.group(1))):
            run("ip", "netns", "del", path.name)
            removed.append(path.name)
    return removed


def _runs(pid: int) -> bool:
    try:
        return b"bench.d/" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
