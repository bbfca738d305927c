"""scripts/demo --topology two-level: an appliance for each rack, and a root above them.

Each rack is a network of its own: namespaces of its workers and of its appliance, the leaf, which has one
more link, to the root's namespace:

    worker i: eth0 ── pas{i} :leaf r: up ── pas{r} :root

A run is good if every worker has verified every sum over *all* workers, all accounts add up, and each link of
the root has carried one stream: as many packets each way as one worker sends, however many are below.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import metrics as m
import netns
import report
from appliance import Appliance, Settings, configuration, device
from metrics import Accounting
from netns import Network
from option_checks import full_payload
from options import Options
from process import Failure, Stop, say
from workers import Load, Workers

_WINDOW = 512
_RING = 4096
_PING_TRIES = 10
# Between the leaves and the root: of IPv4 and of IPv6.
_ABOVE = {False: "10.79.0.", True: "fd79::"}
_ROOT = {False: "254", True: "fe"}
# Beyond what each worker sends: a busy machine is late now and then, and something is sent again.
_MOST_STREAMS = 1.25
_AFTER_FAILURE = 2.0


@dataclass
class Outcome:
    """What the workers and the appliances said, and what the root's links have carried."""

    whole: report.Outcome
    links: list[dict[str, Any]]
    accounts: dict[str, Accounting]
    exits: dict[str, int]
    again: int
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.whole.options
        self.packets = options.allreduces * -(-options.bytes // full_payload(options))
        ways = [link[way] for link in self.links for way in ("up_packets", "down_packets")]
        self.streams = max(ways) / self.packets
        self.problems += self.whole.problems
        for name, accounting in self.accounts.items():
            if not accounting.holds:
                self.problems.append(f"the accounts of {name} do not add up: {accounting}")
        self.problems += [f"{name}'s exit code is {code}" for name, code in self.exits.items() if code]
        if min(ways) < self.packets:
            self.problems.append("a link of the root has carried less than one stream")
        if self.streams > _MOST_STREAMS and not self.whole.restarts:
            self.problems.append(f"a link of the root has carried {self.streams:.2f} streams")

    @property
    def good(self) -> bool:
        """Whether all is as it has to be."""
        return not self.problems

    def text(self) -> str:
        """The report for people."""
        head = ("leaf", "workers", "packets up", "MB up", "packets down", "MB down")
        rows = [
            (
                str(link["leaf"]),
                str(link["workers"]),
                str(link["up_packets"]),
                f"{link['up_bytes'] / 1e6:.1f}",
                str(link["down_packets"]),
                f"{link['down_bytes'] / 1e6:.1f}",
            )
            for link in self.links
        ]
        streams = (
            f"the root's links carried {self.streams:.3f} times the {self.packets} packets of one worker; "
            f"sums sent up again: {self.again}"
        )
        return "\n\n".join([self.whole.text(), report.table(head, rows), streams])

    def to_json(self) -> dict[str, Any]:
        """The contract of --json."""
        return {
            **self.whole.to_json(),
            "ok": self.good,
            "topology": "two-level",
            "leaves": len(self.links),
            "root_link_streams": round(self.streams, 4),
            "sums_sent_up_again": self.again,
            "links": self.links,
            "identity_holds": all(accounting.holds for accounting in self.accounts.values()),
            "problems": self.problems,
        }


class _Rack:
    """A leaf with its workers."""

    def __init__(self, number: int, workers: int, first: int, options: Options, root: Network) -> None:
        self.number, self.workers, self.first = number, workers, first
        self.network = Network(workers, options.mtu, middle=False, ip6=options.ip6)
        prefix = f"pas-{os.getpid()}"
        self.network.appliance = f"{prefix}-l{number}"
        self.network.workers = [f"{prefix}-l{number}w{rank}" for rank in range(workers)]
        self.root = root
        self.options = options

    @property
    def address(self) -> str:
        """With which the leaf speaks to the root."""
        return f"{_ABOVE[self.options.ip6]}{self.number + 1}"

    def create(self) -> None:
        """Builds the rack and its link to the root."""
        self.network.create()
        # The leaf's ports are numbered: the one that leads up is the one behind those of the workers.
        self.root.pair(self.network.appliance, f"pas{self.workers}", self.root.appliance, self._far)

    @property
    def _far(self) -> str:
        return f"pas{self.number}"

    def configuration(self, racks: int, files: Path) -> str:
        """The leaf's TOML: that of any appliance, with one more port and a parent."""
        options = self.options
        # The root's MAC is asked for: by ARP, or by neighbour discovery.
        parent = (
            f'parent = {{ address = "{_root_address(options)}", rank = {self.number}, ranks = {racks}, '
            f'port = "up", from = "{self.address}" }}'
        )
        settings = _settings(options, parent)
        text = configuration(self.network, settings, files / "admin.sock")
        up = device(options.driver, self.workers, options.mtu, _RING)
        port = f'[[ports]]\nname = "up"\ndevice = "{up}"\nmtu = {options.mtu}\n\n[pool]'
        text = text.replace("[pool]", port, 1)
        own = f'addresses = ["{self.network.appliance_address}"'
        return text.replace(own, f'{own}, "{self.address}"', 1)

    def link(self, before: dict[str, Any]) -> dict[str, Any]:
        """What the link to the root has carried."""
        now = self.counted()
        return {
            "leaf": self.number,
            "workers": self.workers,
            "up_packets": now["rx"]["packets"] - before["rx"]["packets"],
            "up_bytes": now["rx"]["bytes"] - before["rx"]["bytes"],
            "down_packets": now["tx"]["packets"] - before["tx"]["packets"],
            "down_bytes": now["tx"]["bytes"] - before["tx"]["bytes"],
        }

    def counted(self) -> dict[str, Any]:
        """What the kernel has counted at the root's end."""
        return self.root.link(self.root.appliance, self._far)


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    """One run, from nothing to nothing."""
    netns.remove_leftovers()
    # Without workers of its own: its ports lead to the leaves.
    root = Network(0, options.mtu, middle=False, ip6=options.ip6)
    shares = [len(range(leaf, options.workers, options.leaves)) for leaf in range(options.leaves)]
    racks = [_Rack(leaf, share, sum(shares[:leaf]), options, root) for leaf, share in enumerate(shares)]
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(netns.remove, [root, *(rack.network for rack in racks)], files, keep=options.keep)
        files.mkdir(mode=0o700)
        say(f"{options.workers} workers below {options.leaves} leaves, and a root above them")
        root.create()
        for rack in racks:
            rack.create()
            (files / f"leaf{rack.number}").mkdir()
        stop.check()
        top = Appliance(binary, root, _root_configuration(options, root, racks, files), files)
        leaves = []
        cleanup.callback(top.stop)
        for rack in racks:
            at = files / f"leaf{rack.number}"
            leaf = Appliance(binary, rack.network, rack.configuration(len(racks), at), at)
            cleanup.callback(leaf.stop)
            leaves.append(leaf)
        for appliance in (top, *leaves):
            appliance.wait_ready(stop)
        pings = [rack.network.ping(rank, _PING_TRIES) for rack in racks for rank in range(rack.workers)]
        before = [rack.counted() for rack in racks]
        results, restarts = _work(options, binary, (racks, leaves, top), files, (stop, cleanup))
        settled = [appliance.settled(stop) for appliance in (top, *leaves)]
        names = ["the root", *(f"leaf {rack.number}" for rack in racks)]
        links = [rack.link(counted) for rack, counted in zip(racks, before, strict=True)]
        exits = dict(zip(names, [appliance.stop() for appliance in (top, *leaves)], strict=True))
        whole = report.Outcome(
            options, results, settled[0], {"by": "none"}, pings, exits["the root"], restarts=restarts
        )
        accounts = {name: Accounting.of(found) for name, found in zip(names, settled, strict=True)}
        again = sum(found.total(m.SENT_UP_AGAIN) for found in settled[1:])
        outcome = Outcome(whole, links, accounts, exits, again)
        if not outcome.good:
            for name, appliance in zip(names, (top, *leaves), strict=True):
                say(f"[{name}]\n{appliance.tail()}")
        return outcome


def _work(
    options: Options,
    binary: Path,
    running: tuple[list[_Rack], list[Appliance], Appliance],
    files: Path,
    ending: tuple[Stop, ExitStack],
) -> tuple[list[dict[str, Any]], int]:
    """The workers' allreduces, and what happens to a leaf meanwhile."""
    racks, leaves, top = running
    stop, cleanup = ending
    groups = []
    for rack in racks:
        group = Workers(binary, rack.network, files / f"leaf{rack.number}")
        cleanup.callback(group.stop)
        group.start(Load.of(options, rack.network, first=rack.first, workers=options.workers))
        groups.append(group)
    wanted, restarts = options.allreduces * options.workers, 0
    progress = report.Progress(wanted)
    failing = 0.0
    while not all(group.ended() for group in groups):
        done = sum(group.done() for group in groups)
        progress.show(done)
        for appliance in (top, *leaves):
            appliance.check_running()
        if options.restart_appliance and not restarts and done >= wanted // 2:
            say("the first leaf is killed and started again")
            leaves[0].kill_and_restart(stop)
            restarts += 1
        if any(group.failed() for group in groups):
            failing += 0.05
            if failing > _AFTER_FAILURE:
                break
        stop.sleep()
    progress.close()
    try:
        found = [group.results() for group in groups]
    except Failure as failure:
        failure.log += "".join(f"\n[appliance]\n{appliance.tail()}" for appliance in (top, *leaves))
        raise
    for rack, results in zip(racks, found, strict=True):
        for worker in results:
            worker["rank"] += rack.first
    return [worker for results in found for worker in results], restarts


def _settings(options: Options, job_keys: str = "", fan_in: int = 0) -> Settings:
    return Settings(
        options.driver,
        options.pool_slots,
        max(_WINDOW, options.in_flight),
        order=options.order,
        job_keys=job_keys,
        ring=_RING,
        fan_in=fan_in,
    )


def _root_configuration(options: Options, root: Network, racks: list[_Rack], files: Path) -> str:
    """The root's TOML: its ranks are the leaves."""
    root.workers = [rack.network.appliance for rack in racks]
    try:
        text = configuration(root, _settings(options), files / "admin.sock")
    finally:
        root.workers = []
    members = ", ".join(f'"{root.address(rank)}"' for rank in range(len(racks)))
    leaves = ", ".join(f'"{rack.address}"' for rack in racks)
    text = text.replace(f"members = [{members}]", f"members = [{leaves}]", 1)
    own = f'addresses = ["{_root_address(options)}"'
    return text.replace(f'addresses = ["{root.appliance_address}"', own, 1)


def _root_address(options: Options) -> str:
    return _ABOVE[options.ip6] + _ROOT[options.ip6]
