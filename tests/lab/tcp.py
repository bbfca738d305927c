"""A job and a TCP flow on one link, under each congestion control.

    worker 0: eth0 ── w0 ┐                                     ┌ w1 ── eth0 :worker 1
    sender:   eth0 ── out ┤ near │ left ═ impair ═ right │ far ├ in ── eth0 :receiver
                          bridge                         bridge └ app ── pas0 :the appliance

Near and far are bridges of one namespace. Between them `pascaline-lab impair` is the link: its rate, its
queue, and its marks (ECN). Worker 0's contributions and the flow's segments meet in its queue; the results
come back the other way, as many as contributions got through.

The flow begins, then the job (PANAMA, section 7.3 and Figure 10). The share of each is measured behind the
link: at worker 0 and at the receiver, with Ethernet's framing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
from appliance import JOB
from netns import APPLIANCE_ADDRESS, worker_address
from process import Failure
from workers import Load, Workers

from ..bed.appliance import Appliance
from ..bed.network import Host, Network
from ..bed.process import Process, command
from .laboratory import Lab

CONTROLS = ("fixed", "panama", "dsa", "delay")
FLOWS = ("cubic", "bbr")
# BBR looks for the empty path each 10 s, and its part changes each time: a few of them make a mean.
_LONGER = {"cubic": 1, "bbr": 4}
# Of the link: frames that wait at most, and those between which more and more are marked. A step instead of
# this ramp hits packets that come in bunches, as TCP's do, several times as often (docs/congestion.md).
_QUEUE = 300
_MARKS = (80, 240)
# A fixed window that the queue holds: nothing is lost for it, and it never gives way.
_FIXED = 128
# As large as the segments of a flow at this MTU.
_MTU = 1500
_PAYLOAD = 1424
# Of a tensor: workers have it in memory, and its sum.
_MOST_BYTES = 512 << 20
# Before a payload Ethernet, IPv4, UDP, Pascaline; and Ethernet's preamble, check and gap, as impair counts.
_FRAMING = 24
_OVERHEAD = 14 + 20 + 8 + 22 + _FRAMING
_WINDOW = 512
_RECEIVER, _SENDER = "10.77.0.200", "10.77.0.199"
_RECEIVE = ("iperf3", "--server", "--one-off", "--forceflush")
_SEND = ("iperf3", "--client", _RECEIVER, "--interval", "0", "--congestion")
_READY_SECONDS = 10.0
_STOP_SECONDS = 2.0
# Of an allreduce, times what it takes at half of the link; the flow outlasts it.
_LATEST = 10
_OUTLASTS = 60
_STEP = 0.2
# The flow is alone for so long; of the time that both are there, this part is for them to settle.
_LEAD_SECONDS = 1.0
_SETTLES = 0.4
# How far from half a part may be, as a part of half.
_FAIR = 0.2


class Bottleneck(Network):
    """Two hosts on either side of a link that impair is, and the appliance on the far one."""

    def __init__(self) -> None:
        super().__init__("paslabtcp", mtu=_MTU)

    def _build(self) -> None:
        self.middle, at_appliance = self.host("mid"), self.host("app")
        self.appliance, self.appliance_address, self.ports = at_appliance.name, APPLIANCE_ADDRESS, 1
        self.pair(self.middle, "left", self.middle, "out-of-near")
        self.pair(self.middle, "right", self.middle, "into-far")
        self.pair(self.middle, "app", at_appliance, "pas0")
        self.near, self.far = self._worker(0), self._worker(1)
        self.workers = [self.near.name, self.far.name]
        self.sender, self.receiver = self._end("out", _SENDER), self._end("in", _RECEIVER)
        self.middle.bridge("near", "out-of-near", "w0", "out")
        self.middle.bridge("far", "into-far", "w1", "in", "app")
        for host in (self.sender, self.receiver):
            # Complete checksums: impair moves bytes, and knows nothing of what an interface would finish.
            host.run("ethtool", "-K", "eth0", "tx", "off")
            host.inside(_heed_marks)

    def address(self, rank: int) -> str:
        return worker_address(rank)

    def _worker(self, rank: int) -> Host:
        return self._end(f"w{rank}", self.address(rank))

    def _end(self, name: str, address: str) -> Host:
        host = self.host(name)
        self.pair(host, "eth0", self.middle, name)
        host.address("eth0", f"{address}/24")
        return host


def _heed_marks() -> None:
    """TCP asks for ECN and grants it, and each flow begins as if it were the first."""
    for switch in ("tcp_ecn", "tcp_no_metrics_save"):
        Path(f"/proc/sys/net/ipv4/{switch}").write_text("1")


def _received(host: Host) -> float:
    """Bits of its link that a host has received so far."""
    counted = host.counted("eth0")
    return 8.0 * (counted["rx_bytes"] + _FRAMING * counted["rx_packets"])


@dataclass(frozen=True)
class Sharing:
    controls: Sequence[str] = CONTROLS
    flows: Sequence[str] = FLOWS
    # For how long, at equal parts.
    seconds: int = 12
    # How often: the one in the middle counts.
    runs: int = 1
    # The file of the picture.
    picture: Path | None = None


@dataclass
class Sample:
    """A time, and the bits that the job and the flow had received by then."""

    at: float
    job: float
    flow: float


@dataclass
class Shared:
    control: str
    flow: str
    rate: float
    samples: list[Sample]
    # When the job's first and last results came.
    begins: float
    ends: float
    verified: bool

    def parts(self, since: Sample, until: Sample) -> tuple[float, float]:
        """Of the link, the job's and the flow's."""
        most = self.rate * (until.at - since.at)
        return (until.job - since.job) / most, (until.flow - since.flow) / most

    def settled(self) -> tuple[float, float]:
        """The same, once both have settled."""
        begins = self.begins + _SETTLES * (self.ends - self.begins)
        among = [sample for sample in self.samples if begins <= sample.at <= self.ends]
        if len(among) < 3:
            raise Failure(f"{self.control} beside {self.flow}: too short to tell: give more --seconds")
        return self.parts(among[0], among[-1])

    @property
    def off(self) -> float:
        """How far the job's part of what both got is from half, as a part of half."""
        job, flow = self.settled()
        return abs(2 * job / (job + flow) - 1)

    @property
    def within(self) -> bool:
        """Whether each has its share."""
        return self.off <= _FAIR

    def to_json(self) -> dict[str, Any]:
        job, flow = self.settled()
        return {
            "job": round(job, 3),
            "flow": round(flow, 3),
            "off": round(self.off, 3),
            "within_20_percent": self.within,
            "verified": self.verified,
        }

    def panel(self) -> dict[str, Any]:
        """For `pascaline-lab plot shares`."""
        job, flow = [], []
        for since, until in zip(self.samples, self.samples[1:], strict=False):
            at, parts = round(until.at - self.samples[0].at, 2), self.parts(since, until)
            job.append((at, round(parts[0], 3)))
            flow.append((at, round(parts[1], 3)))
        lines = [{"of": "job", "points": job}, {"of": self.flow, "points": flow}]
        return {"title": f"{self.control} beside {self.flow}", "lines": lines}


class Bed:
    """The network with what runs all the time: the link and the appliance."""

    def __init__(self, lab: Lab, sharing: Sharing, cleanup: ExitStack) -> None:
        self._lab, self._sharing, self._runs = lab, sharing, 0
        self._rate = lab.fabric.shape.mbit * 1e6
        self._network = network = Bottleneck()
        cleanup.callback(network.close)
        self._files = lab.files / f"tcp{sum(1 for _ in lab.files.glob('tcp*'))}"
        self._files.mkdir()
        self.marked = self.queue_full = 0
        line = command(
            build.lab(lab.binary),
            "impair",
            left="left",
            right="right",
            rate=f"{self._rate:.0f}",
            queue=_QUEUE,
            ecn_threshold=_MARKS[0],
            ecn_full=_MARKS[1],
        )
        # The link takes precedence over other processes.
        self._link = Process("impair", line, self._files, network.middle.name, realtime=True)
        cleanup.callback(self._end)
        if not lab.stop.wait_for(lambda: "ready" in self._link.err.read_text(), _READY_SECONDS):
            raise Failure("pascaline-lab impair does not get ready", self._link.tail())
        settings = lab.settings(fan_in=2, jobs=0, more=_jobs(network))
        self.appliance = Appliance(lab.binary, network, settings, self._files, realtime=True)
        cleanup.callback(self.appliance.stop)
        self.appliance.wait_ready(lab.stop)

    def _end(self) -> None:
        """Ends the link, and reads its counts."""
        if self._link.exit_code() is not None:
            return  # By itself: there are no counts, and `_watch` has failed.
        self._link.stop(_STOP_SECONDS)
        ways = self._link.said().values()
        self.marked, self.queue_full = (sum(way[key] for way in ways) for key in ("marked", "queue_full"))

    def share(self, control: str, flow: str) -> Shared:
        """A flow, then a job beside it until the job has ended."""
        self._runs += 1
        files = self._files / f"{control}-{flow}-{self._runs}"
        files.mkdir()
        with ExitStack() as cleanup:
            server = Process("receiver", _RECEIVE, files, self._network.receiver.name)
            cleanup.callback(server.stop, _STOP_SECONDS)
            if not self._lab.stop.wait_for(lambda: b"listening" in server.out.read_bytes(), _READY_SECONDS):
                raise Failure("iperf3 does not listen", server.tail())
            seconds = str(_LATEST * self._sharing.seconds * _LONGER[flow] + _OUTLASTS)
            client = Process("sender", [*_SEND, flow, "--time", seconds], files, self._network.sender.name)
            cleanup.callback(client.stop, _STOP_SECONDS)
            workers = Workers(self._lab.binary, self._network, files)  # type: ignore[arg-type]
            cleanup.callback(workers.stop)
            samples: list[Sample] = []
            self._watch(samples, lambda: samples[-1].at - samples[0].at >= _LEAD_SECONDS, client)
            load = self._load(control, flow)
            workers.start(load)
            self._watch(samples, workers.ended, client)
            results = workers.results()
        verified = all(
            worker["verified"] == load.allreduces and not worker["mismatches"] for worker in results
        )
        return Shared(control, flow, self._rate, samples, *_span(samples), verified)

    def _watch(self, samples: list[Sample], over: Callable[[], bool], client: Process) -> None:
        while True:
            job, tcp = self._network.near, self._network.receiver
            samples.append(Sample(time.monotonic(), _received(job), _received(tcp)))
            for child in (client, self._link):
                if child.exit_code() is not None:
                    raise Failure(f"{child.name} has ended by itself", child.tail())
            if over():
                return
            self._lab.stop.sleep(_STEP)

    def _load(self, control: str, flow: str) -> Load:
        """Takes the time that was asked for, at half of the link: one allreduce, unless it is very large."""
        seconds = self._sharing.seconds * _LONGER[flow]
        packets = seconds * self._rate / 2 / 8 / (_PAYLOAD + _OVERHEAD)
        allreduces = math.ceil(packets * _PAYLOAD / _MOST_BYTES)
        return Load(
            allreduces=allreduces,
            bytes=int(packets / allreduces) * _PAYLOAD,
            dtype="f32",
            payload=_PAYLOAD,
            in_flight=_FIXED if control == "fixed" else 0,
            seed=self._runs,
            deadline=_LATEST * seconds,
            job=JOB + CONTROLS.index(control),
        )


def whole_seconds(sharing: Sharing) -> int:
    """The same of all of them."""
    each = sum(sharing.seconds * _LONGER[flow] for flow in sharing.flows)
    return each * len(sharing.controls) * sharing.runs


def _jobs(network: Bottleneck) -> str:
    members = ", ".join(f'"{network.address(rank)}"' for rank in range(2))
    return "".join(
        f'[[jobs]]\nid = {JOB + number}\nname = "{control}"\nfan_in = 2\nwindow = {_WINDOW}\n'
        f'members = [{members}]\ncongestion = "{control}"\n'
        for number, control in enumerate(CONTROLS)
    )


def _span(samples: list[Sample]) -> tuple[float, float]:
    """From when to when a job's results came."""
    first, last = samples[0].job, samples[-1].job
    among = [sample.at for sample in samples if 0.02 < (sample.job - first) / (last - first) < 0.98]
    if not among:
        raise Failure("the job was over too soon to tell: give more --seconds")
    return among[0], among[-1]
