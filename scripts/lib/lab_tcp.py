"""scripts/lab --case tcp: a job and a TCP flow on one link, under each congestion control.

    worker 0: eth0 ── w0 ┐                                     ┌ w1 ── eth0 :worker 1
    sender:   eth0 ── out ┤ near │ left ═ impair ═ right │ far ├ in ── eth0 :receiver
                          bridge                         bridge └ app ── pas0 :the appliance

Near and far are bridges of one namespace. Between them `pascaline-lab impair` is the link: its rate, its
queue, and its marks (ECN). Worker 0's contributions and the flow's segments meet in its queue; the results
come back the other way, as many as contributions got through.

The flow begins, then the job (PANAMA, section 7.3 and Figure 10). What each gets is what comes out of the
link: read at worker 0 and at the receiver, with Ethernet's framing.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import build
from appliance import JOB, Appliance
from laboratory import Case, Lab, Sharing
from metrics import Accounting
from netns import Network, in_namespace
from process import Child, Failure, run
from workers import Load, Workers

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
# How far from half a part may be, as a part of half; and the part of what both got that is starving.
_FAIR = 0.2
_STARVED = 0.1
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class Bottleneck(Network):
    """Two hosts on either side of a link that impair is, and the appliance on the far one."""

    def __init__(self) -> None:
        super().__init__(2, _MTU, middle=True)
        # Beside the names of the leaf-spine network.
        prefix = f"pas-{os.getpid()}-tcp"
        self.appliance, self.middle = f"{prefix}app", f"{prefix}mid"
        self.workers = [f"{prefix}w0", f"{prefix}w1"]
        self.sender, self.receiver = f"{prefix}out", f"{prefix}in"

    @property
    def namespaces(self) -> list[str]:
        """All names, whether they exist yet or not."""
        return [*super().namespaces, self.sender, self.receiver]

    @property
    def ports(self) -> int:
        """One, on the far side."""
        return 1

    def create(self) -> None:
        """Builds everything. What was built before a failure is removed by `destroy`."""
        for name in self.namespaces:
            self.add(name)
        middle = str(self.middle)
        for bridge in ("near", "far"):
            run("ip", "-n", middle, "link", "add", "name", bridge, "type", "bridge")
            run("ip", "-n", middle, "link", "set", bridge, "up")
        self.pair(middle, "left", middle, "out-of-near")
        self.pair(middle, "right", middle, "into-far")
        for interface, bridge in (("out-of-near", "near"), ("into-far", "far")):
            run("ip", "-n", middle, "link", "set", interface, "master", bridge)
        self._host(self.workers[0], "w0", "near", self.address(0))
        self._host(self.workers[1], "w1", "far", self.address(1))
        self._host(self.sender, "out", "near", _SENDER)
        self._host(self.receiver, "in", "far", _RECEIVER)
        self.pair(middle, "app", self.appliance, "pas0")
        run("ip", "-n", middle, "link", "set", "app", "master", "far")
        for name in (self.sender, self.receiver):
            # Complete checksums: impair moves bytes, and knows nothing of what an interface would finish.
            run("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx", "off")
            in_namespace(name, _heed_marks)

    def _host(self, name: str, interface: str, bridge: str, address: str) -> None:
        middle = str(self.middle)
        self.pair(name, "eth0", middle, interface)
        run("ip", "-n", middle, "link", "set", interface, "master", bridge)
        run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")


def _heed_marks() -> None:
    """TCP asks for ECN and grants it, and each flow begins as if it were the first."""
    for switch in ("tcp_ecn", "tcp_no_metrics_save"):
        Path(f"/proc/sys/net/ipv4/{switch}").write_text("1")


def _received(name: str) -> float:
    """What has come in at a host so far, in bits of its link."""
    text = in_namespace(name, lambda: Path("/proc/thread-self/net/dev").read_text())
    for line in text.splitlines():
        interface, _, counted = line.partition(":")
        if interface.strip() == "eth0":
            octets, packets = (int(word) for word in counted.split()[:2])
            return 8.0 * (octets + _FRAMING * packets)
    raise Failure(f"{name} has lost its interface")


@dataclass
class Sample:
    """When, and what had come to the job and to the flow by then, in bits."""

    at: float
    job: float
    flow: float


@dataclass
class Shared:
    """How a job and a flow shared the link."""

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
        """Whether each has what it should."""
        return self.off <= _FAIR

    def to_json(self) -> dict[str, Any]:
        """Its figures."""
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


def tcp(lab: Lab, case: Case) -> None:
    """Each control beside each kind of TCP flow. Without a control Cubic starves."""
    sharing = lab.sharing
    known = _AVAILABLE.read_text().split()
    for flow in sharing.flows:
        if flow not in known:
            raise Failure(f"this kernel has no TCP of kind {flow}: load tcp_{flow}, or say --flow cubic")
    with ExitStack() as cleanup:
        bed = _Bed(lab, cleanup)
        done = [
            _middle([bed.share(control, flow) for _ in range(sharing.runs)])
            for flow in sharing.flows
            for control in sharing.controls
        ]
        accounting = Accounting.of(bed.appliance.settled(lab.stop))
    case.figures = {f"{one.control}_{one.flow}": one.to_json() for one in done}
    case.figures |= {"marked": bed.marked, "queue_full": bed.queue_full}
    case.demand(accounting.holds, f"the appliance's accounts do not add up: {accounting}")
    for one in done:
        _judge(one, case)
    if sharing.picture:
        panels = lab.files / "shares.json"
        panels.write_text(json.dumps([one.panel() for one in done]))
        picture = str(sharing.picture.resolve())
        run(str(build.lab(lab.binary)), "plot", "shares", "--out", picture, str(panels))


def _middle(runs: list[Shared]) -> Shared:
    """The run whose job got neither most nor least. All of them must have summed right."""
    middle = sorted(runs, key=lambda run: run.settled()[0])[len(runs) // 2]
    middle.verified = all(run.verified for run in runs)
    return middle


def _judge(one: Shared, case: Case) -> None:
    """What has to hold. The other figures are told only: docs/congestion.md says why."""
    what = f"{one.control} beside {one.flow}"
    case.demand(one.verified, f"{what}: not every worker has verified every sum")
    job, flow = one.settled()
    if (one.control, one.flow) == ("fixed", "cubic"):
        case.demand(flow < _STARVED * (job + flow), f"{what}: the flow does not starve, it has {flow:.2f}")
    elif (one.control, one.flow) == ("delay", "cubic"):
        case.demand(one.within, f"{what}: not within 20 % of half: {job:.2f} and {flow:.2f}")


class _Bed:
    """The network with what runs all the time: the link and the appliance."""

    def __init__(self, lab: Lab, cleanup: ExitStack) -> None:
        self._lab, self._rate, self._runs = lab, lab.fabric.shape.mbit * 1e6, 0
        self._network = network = Bottleneck()
        self._files = lab.files / "tcp"
        self._files.mkdir()
        self.marked = self.queue_full = 0
        cleanup.callback(network.destroy)
        network.create()
        options = {"--left": "left", "--right": "right", "--rate": f"{self._rate:.0f}", "--queue": _QUEUE}
        options |= {"--ecn-threshold": _MARKS[0], "--ecn-full": _MARKS[1]}
        words = [str(word) for pair in options.items() for word in pair]
        command = [str(build.lab(lab.binary)), "impair", *words]
        # A link is on time, whoever else wants the processors.
        self._link = Child("impair", command, self._files, network.middle, realtime=True)
        cleanup.callback(self._end)
        if not lab.stop.wait_for(lambda: "ready" in self._link.err.read_text(), _READY_SECONDS):
            raise Failure("pascaline-lab impair does not get ready", self._link.tail())
        settings = lab.settings(fan_in=2, jobs=0, more=_jobs(network))
        self.appliance = Appliance(lab.binary, network, settings, self._files, realtime=True)
        cleanup.callback(self.appliance.stop)
        self.appliance.wait_ready(lab.stop)

    def _end(self) -> None:
        """Ends the link, and reads what it did."""
        if self._link.exit_code() is not None:
            return  # By itself: it has said nothing, and `_watch` has failed.
        self._link.stop(_STOP_SECONDS)
        ways = self._link.said().values()
        self.marked, self.queue_full = (sum(way[key] for way in ways) for key in ("marked", "queue_full"))

    def share(self, control: str, flow: str) -> Shared:
        """A flow, then a job beside it until the job has ended."""
        self._runs += 1
        files = self._files / f"{control}-{flow}-{self._runs}"
        files.mkdir()
        with ExitStack() as cleanup:
            server = Child("receiver", _RECEIVE, files, self._network.receiver)
            cleanup.callback(server.stop, _STOP_SECONDS)
            if not self._lab.stop.wait_for(lambda: b"listening" in server.out.read_bytes(), _READY_SECONDS):
                raise Failure("iperf3 does not listen", server.tail())
            seconds = str(_LATEST * _seconds(self._lab, flow) + _OUTLASTS)
            client = Child("sender", [*_SEND, flow, "--time", seconds], files, self._network.sender)
            cleanup.callback(client.stop, _STOP_SECONDS)
            workers = Workers(self._lab.binary, self._network, files)
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

    def _watch(self, samples: list[Sample], over: Callable[[], bool], client: Child) -> None:
        """Takes samples until it is over."""
        while True:
            job, tcp = self._network.workers[0], self._network.receiver
            samples.append(Sample(time.monotonic(), _received(job), _received(tcp)))
            for child in (client, self._link):
                if child.exit_code() is not None:
                    raise Failure(f"{child.name} has ended by itself", child.tail())
            if over():
                return
            self._lab.stop.sleep(_STEP)

    def _load(self, control: str, flow: str) -> Load:
        """Takes the time that was asked for, at half of the link: one allreduce, unless it is very large."""
        seconds = _seconds(self._lab, flow)
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


def _seconds(lab: Lab, flow: str) -> int:
    """What an allreduce takes at half of the link."""
    return lab.sharing.seconds * _LONGER[flow]


def whole_seconds(sharing: Sharing) -> int:
    """The same of all of them."""
    each = sum(sharing.seconds * _LONGER[flow] for flow in sharing.flows)
    return each * len(sharing.controls) * sharing.runs


def _jobs(network: Network) -> str:
    """One for each control."""
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
