"""scripts/demo --inline: the appliance as a bump in the wire between workers and a server.

    worker i: eth0 ── s{i} :rack, bridge: uplink ── pas0 :appliance: pas1 ── eth0 :server
    neighbour: eth0 ── by ┘

Frames for other hosts pass between its two ports. A run is good if every worker has verified every
sum, frames of many kinds have arrived as they left, both ways, and TCP works with the kernel's offloads on.
How fast TCP passes, and how long an echo takes beside an allreduce, is measured and not judged: everything
shares the machine's cores. `inline_pings` has the echoes.
"""

import json
import os
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import configuration
import report
from configuration import Settings, Tables, cores, device, ring_slot
from inline_pings import Echoes, Pings
from netns import Network, ip, shown, switch
from options import Options
from process import Failure, Stop, run, say
from stage import Stage
from untouched import offloaded_tcp, pass_untouched
from verdict import Verdict
from workers import Load, Workers

SERVER = "10.77.0.200"
_NEIGHBOUR = "10.77.0.199"
_WINDOW = 512
_RING = 4096
_IPERF_SECONDS = 2
# Flows one after the other, of which the middle one counts, where nothing else runs meanwhile.
_FLOWS = 3
# The rate of a worker's link when allreduces fill it, and for how long they do.
_LINK_MBIT = 200
_FULL_LINK_SECONDS = 5.0
# Of small tensors more would fit on the link than workers can do in that time.
_MOST_ALLREDUCES = 2000
_START_SECONDS = 20.0
_LINK_SECONDS = 3.0
# A frame's header, with two VLAN tags.
_ETHERNET = 22
# Of DPDK's packet buffers.
_HEADROOM = 128
# The part of the allreduces during which pings are sent; TCP runs during the rest.
_PINGED = 0.6


@dataclass
class Outcome(Verdict):
    whole: report.Outcome
    untouched: list[str]
    kinds: int
    offloads: bool | None
    links: bool | None
    reference: str
    gbps: dict[str, float | None]
    echoes: dict[str, Echoes]
    # The part of a full link that the allreduces beside the echoes carried, without headers.
    link_share: float | None

    def __post_init__(self) -> None:
        self.problems += self.whole.problems
        self.problems += [f"did not pass as it was: {what}" for what in self.untouched]
        link = "the link to the workers does not follow that to the server"
        self.require(
            (self.offloads is not False, "TCP with the kernel's offloads does not pass"),
            (self.links is not False, link),
        )
        for name in (self.reference, "inline"):
            self.require((self.gbps[name], f"iperf3 carried nothing ({name})"))
        self.iperf3_ratio = _ratio(self.gbps["inline"], self.gbps[self.reference])
        self.p99_ms = {name: echo.wire for name, echo in self.echoes.items()}
        self.said_p99_ms = {name: echo.said for name, echo in self.echoes.items()}
        self.ping_p99_ratio = _ratio(self.p99_ms["allreduce"], self.p99_ms["idle"])
        self.ping_p99_ratio_unshaped = _ratio(self.p99_ms["unshaped"], self.p99_ms["idle"])
        self.ping_said_p99_ratio = _ratio(self.said_p99_ms["allreduce"], self.said_p99_ms["idle"])

    def text(self) -> str:
        rates = ", ".join(f"{name} {_number(value)}" for name, value in self.gbps.items())
        pings = ", ".join(f"{name} {_number(value)}" for name, value in self.p99_ms.items())
        return (
            f"{self.whole.text()}\n\n"
            f"{self.kinds - len(self.untouched)} of {self.kinds} kinds of frames passed as they were, "
            f"each both ways\n"
            f"iperf3, Gbit/s: {rates}; ratio {_number(self.iperf3_ratio)}\n"
            f"ping, p99, ms: {pings}; ratio {_number(self.ping_p99_ratio)} beside allreduces that fill their "
            f"links ({_number(self.link_share)} of them is payload), {_number(self.ping_p99_ratio_unshaped)} "
            f"beside such that fill the processors; by what ping says, with its own waiting for a processor, "
            f"{_number(self.ping_said_p99_ratio)} beside full links"
        )

    def told(self) -> dict[str, Any]:
        return {
            **self.whole.told(),
            "inline": True,
            "untouched": self.kinds - len(self.untouched),
            "untouched_wanted": self.kinds,
            "tcp_with_offloads": self.offloads,
            "link_state_passed": self.links,
            "reference": self.reference,
            "iperf3_gbps": self.gbps,
            "iperf3_ratio": self.iperf3_ratio,
            "ping_p99_ms": self.p99_ms,
            "ping_p99_ratio": self.ping_p99_ratio,
            "ping_p99_ratio_unshaped": self.ping_p99_ratio_unshaped,
            "ping_said_p99_ms": self.said_p99_ms,
            "ping_said_p99_ratio": self.ping_said_p99_ratio,
            "allreduce_link_share": self.link_share,
        }


class Wire(Network):
    """Workers in one rack, a server, and the appliance's two ports between."""

    def __init__(self, workers: int, mtu: int) -> None:
        super().__init__(workers, mtu, bridged=True)
        (self.rack,) = self.racks
        self.others = [f"{self.prefix}-srv", f"{self.prefix}-by"]
        self.server, self.neighbour = self.others

    @property
    def ports(self) -> int:
        """One to the workers, one to the server."""
        return 2

    def create(self) -> None:
        """Builds it, with checksums that are complete on the wire."""
        super().create()
        self.pair(self.server, "eth0", self.appliance, "pas1")
        self.own(self.server, SERVER, "eth0")
        self.pair(self.neighbour, "eth0", self.rack, "by")
        ip(f"-n {self.rack} link set by master bridge")
        self.own(self.neighbour, _NEIGHBOUR, "eth0")
        self.offloads("off")

    def shape(self, mbit: float) -> None:
        """Limits each worker's link to this rate each way. The neighbour's stays as it is."""
        # Frames longer than a burst do not pass at all.
        burst = max(6 << 10, 2 * (self.mtu + _ETHERNET))
        for rank, worker in enumerate(self.workers):
            for name, interface in ((worker, "eth0"), (self.rack, f"s{rank}")):
                self.limit_rate(name, interface, mbit, f"{burst}b", "256kb")

    def offloads(self, state: str) -> None:
        """Switches the offloads at every end of TCP."""
        ends = [(worker, "eth0") for worker in self.workers]
        for name, interface in (*ends, (self.rack, "uplink"), (self.server, "eth0")):
            switch(name, interface, state, "tx", "gso", "tso", "gro")


def demonstrate(options: Options, binary: Path, stop: Stop) -> Outcome:
    wire = Wire(options.workers, options.mtu)
    say(f"{options.workers} workers on one side, a server on the other, the appliance between")
    with Stage(binary, stop, wire, keep=options.keep) as stage:
        stage.child("iperf3-server", ["iperf3", "--server"], wire.server, seconds=1.0)
        gbps: dict[str, float | None] = {}
        reference = _reference(stage, wire, gbps)

        kernel = options.driver == "kernel"
        appliance = stage.appliance(wire, _tables(options, wire, stage.files), realtime=True)
        pings = stage.ping(wire)
        untouched, kinds = pass_untouched(wire, options.driver)
        offloads = offloaded_tcp(wire, SERVER) if kernel else None
        gbps["inline"] = _middle(stage, wire, "inline")
        pinging = Pings(wire.neighbour, SERVER, stage.files)
        stage.on_leaving(pinging.end)
        echoes = {"idle": pinging.idle(stop)}
        running = _Running(stage, wire, stage.workers(wire), pinging)
        gbps["allreduce"], echoes["unshaped"] = _fill_processors(options, running)
        results = running.workers.results()
        metrics = appliance.settled(stop)
        problems, echoes["allreduce"], share = _fill_links(options, running)
        links = _link_state_passes(wire, stop) if kernel else None
        whole = report.Outcome(options, results, metrics, {"by": "none"}, pings, appliance.stop())
        measured = (untouched, kinds, offloads, links, reference, gbps, echoes, share)
        return stage.judged(Outcome(whole, *measured, problems=problems))


def _reference(stage: Stage, wire: Wire, gbps: dict[str, float | None]) -> str:
    """The rate of TCP between the same two interfaces without any aggregation.

    Through dpdk-testpmd, which reads no frame.
    """
    name = "testpmd"
    main, core = cores()
    command = ["dpdk-testpmd", "-l", f"{main},{core}" if main != core else f"{main}", "--no-pci", "--no-huge"]
    command += ["-m", "512", "--no-shconf", "--no-telemetry", "--file-prefix", f"pas-{os.getpid()}"]
    for port in range(wire.ports):
        command += ["--vdev", device("af_packet", port, wire.mtu, _RING)]
    command += ["--", "--forward-mode=io", "--port-topology=paired", "--stats-period=1000"]
    # The driver wants room for a slot of its ring, whatever the MTU.
    command += ["--total-num-mbufs=16384", f"--mbuf-size={ring_slot(wire.mtu) + _HEADROOM}"]
    child = stage.child(name, command, wire.appliance)
    ping = ("ip", "netns", "exec", wire.workers[0], "ping", "-n", "-c1", "-W1", SERVER)

    def reaches() -> bool:
        if child.exit_code() is not None:
            raise Failure("dpdk-testpmd has ended", child.tail())
        return run(*ping, check=False).returncode == 0

    try:
        if not stage.stop.wait_for(reaches, _START_SECONDS):
            raise Failure("dpdk-testpmd does not forward", child.tail())
        gbps[name] = _middle(stage, wire, name)
    finally:
        child.stop(2.0, signal.SIGINT)
    return name


def _tables(options: Options, wire: Wire, files: Path) -> Tables:
    """The usual tables, but the appliance's ports are each other's peer."""
    settings = Settings.of(options, max(_WINDOW, options.in_flight), ring=_RING)
    tables = configuration.whole(wire, settings, files / "admin.sock")
    for port, peer in zip(tables["ports"], ("p1", "p0"), strict=True):
        port["peer"] = peer
    tables["dataplane"]["pass_link_state"] = True
    return tables


def _link_state_passes(wire: Wire, stop: Stop) -> bool:
    """Whether the workers' side loses its link with the server's, and gets it back."""

    def has_link() -> bool:
        return "LOWER_UP" in shown(wire.rack, "uplink")["flags"]

    ip(f"-n {wire.server} link set eth0 down")
    lost = stop.wait_for(lambda: not has_link(), _LINK_SECONDS)
    ip(f"-n {wire.server} link set eth0 up")
    return lost and stop.wait_for(has_link, _LINK_SECONDS)


def _middle(stage: Stage, wire: Wire, name: str) -> float | None:
    """Gbit/s of the middle one of a few flows; none if none ended in time."""
    flows = [_iperf3(stage, wire, f"{name}{flow}") for flow in range(_FLOWS)]
    carried = [flow for flow in flows if flow is not None]
    return round(statistics.median(carried), 4) if carried else None


def _iperf3(stage: Stage, wire: Wire, name: str) -> float | None:
    """Gbit/s that a TCP flow of a worker's carries to the server; none if it ended before its time."""
    command = ["iperf3", "--client", SERVER, "--time", _IPERF_SECONDS, "--json", "--connect-timeout", "2000"]
    child = stage.child(f"iperf3-{name}", command, wire.workers[0], seconds=1.0)
    end = time.monotonic() + _IPERF_SECONDS + 5
    while child.exit_code() is None and time.monotonic() < end:
        time.sleep(0.05)
    child.stop(1.0)
    try:
        said = json.loads(child.out.read_text())
        return round(float(said["end"]["sum_received"]["bits_per_second"]) / 1e9, 4)
    except (ValueError, KeyError):
        return None


@dataclass(frozen=True)
class _Running:
    """The processes that run beside the workers."""

    stage: Stage
    wire: Wire
    workers: Workers
    pings: Pings

    def work(self, load: Load, name: str, until: float, then: Callable[[], None]) -> Echoes:
        """Allreduces to their end, and echoes from when each rank has done one until `until` are done."""
        ranks = len(self.wire.workers)
        waited: list[Echoes] = []
        self.workers.start(load)

        def check() -> None:
            self.stage.check()
            done = self.workers.done()
            if not self.pings.begun and not waited and done >= ranks:
                self.pings.begin(name)
            if self.pings.begun and done >= until:
                waited.append(self.pings.end())
                then()

        self.stage.watch(self.workers, load.allreduces * ranks, check)
        left = self.pings.end()
        return (waited or [left])[0]


def _fill_processors(options: Options, running: _Running) -> tuple[float | None, Echoes]:
    """The allreduces that were asked for, as fast as possible: the rate of TCP beside them, and echoes."""
    load = Load.of(options, running.wire)
    carried: list[float | None] = []

    def flow() -> None:
        gbps = _iperf3(running.stage, running.wire, "allreduce")
        # Beside an allreduce only if there still was one.
        carried.append(gbps if running.workers.running() else None)

    echoes = running.work(load, "unshaped", load.allreduces * options.workers * _PINGED, flow)
    return (carried or [None])[0], echoes


def filling(size: int) -> int:
    """How many allreduces of this size fill a link for a few seconds, or can be done meanwhile."""
    fitting = round(_FULL_LINK_SECONDS * _LINK_MBIT * 1e6 / (size * 8))
    return min(max(4, fitting), _MOST_ALLREDUCES)


def _fill_links(options: Options, running: _Running) -> tuple[list[str], Echoes, float]:
    """Allreduces that fill the workers' links: errors, echoes beside them, and how full."""
    running.wire.shape(_LINK_MBIT)
    load = replace(Load.of(options, running.wire), allreduces=filling(options.bytes))
    last = (load.allreduces - 1) * options.workers
    echoes = running.work(load, "allreduce", last, lambda: None)
    results = running.workers.results()
    verified = [result["verified"] == load.allreduces for result in results]
    share = statistics.fmean(result["goodput_gbps"] for result in results) * 1e3 / _LINK_MBIT
    problems = [] if all(verified) else ["not every sum was right while links were full"]
    return problems, echoes, round(share, 3)


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(one / other, 3) if one and other else None


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3g}"
