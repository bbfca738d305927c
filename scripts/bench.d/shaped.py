"""A small data centre with slow links: a namespace per worker, a switch between, the appliance behind it.

    worker i: eth0 ──tbf──▶ w{i}┐
                    ◀──tbf──    ├─ bridge ─ a0 ── pas0 :appliance
                            ... ┘

Both directions of a worker's link are shaped at the end where frames enter it, so that a queue builds up
where it would at a real port. The appliance's own link is not shaped: it stands for the switch, whose ports
together are N times as fast as one.
"""

import re
from typing import Self

import netns
from netns import Network, forward_only, in_namespace
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

_QUEUE_MS = 50


def address(rank: int) -> str:
    return f"10.88.0.{rank + 1}"


def burst(mbit: int) -> int:
    """The bucket in bytes: a few frames, at high rates a segmentation unit, which software would cut."""
    return 6 * 1024 if mbit < 500 else 64 * 1024


class Shaped(Network):
    """The namespaces of one measurement. A context manager: they are removed in any case.

    `mbit` is the rate of each worker's link and direction; 0 leaves the links as they are. Segmentation is
    off in front of the appliance, whose raw socket must see what a wire would carry; `offloads` turns it on,
    or off, everywhere.
    """

    def __init__(
        self,
        workers: int,
        mbit: int,
        *,
        mtu: int = MTU,
        offloads: bool | None = None,
        prefix: str = PREFIX,
    ) -> None:
        super().__init__(workers, mtu, prefix=prefix)
        self.mbit, self._offloads = mbit, offloads
        self.switch = f"{self.prefix}-sw"
        self.racks, self.others = [], [self.switch]

    def __enter__(self) -> Self:
        try:
            self.create()
        except BaseException:
            self.destroy()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def shaper(self, rank: int) -> dict[str, int]:
        """Frames that a worker's shapers, both directions, have dropped and passed on."""
        ends = ((self.workers[rank], "eth0"), (self.switch, f"w{rank}"))
        said = "".join(run("tc", "-n", name, "-s", "qdisc", "show", "dev", it).stdout for name, it in ends)
        found = re.findall(r"Sent \d+ bytes (\d+) pkt \(dropped (\d+)", said)
        return {
            "sent": sum(int(sent) for sent, _ in found),
            "dropped": sum(int(dropped) for _, dropped in found),
        }

    def create(self) -> None:
        for name in self.namespaces:
            self.add(name)
        in_namespace(self.switch, forward_only)
        ways = {None: "", True: "on", False: "off"}
        way = ways[self._offloads]
        for rank, worker in enumerate(self.workers):
            self.pair(worker, "eth0", self.switch, f"w{rank}", offloads=way)
            self.own(worker, address(rank), "eth0")
            if self.mbit:
                self._shape(worker, "eth0")
                self._shape(self.switch, f"w{rank}")
        self.pair(self.appliance, "pas0", self.switch, "a0", offloads=way or "off")
        self.join(self.switch, *(f"w{rank}" for rank in range(len(self.workers))), "a0")

    def _shape(self, namespace: str, interface: str) -> None:
        queue = max(256 * 1024, self.mbit * 1000 * _QUEUE_MS // 8)
        try:
            self.limit_rate(namespace, interface, self.mbit, str(burst(self.mbit)), str(queue))
        except Failure as failure:
            raise Failure(f"{failure}; this kernel needs sch_tbf to shape links", failure.log) from failure


def remove_leftovers() -> list[str]:
    """Removes namespaces and files of runs that were killed outright; returns the namespaces' names."""
    return netns.remove_leftovers(PREFIX, ["bench.d/"])
