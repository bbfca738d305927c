"""Streams as pcap files, replayed into real DPDK ports: every frame has to be counted under the right name."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pascaline_malformed
import private
from generators import Interface, Sent
from metrics import RECEIVED, Accounting
from netns import Network, in_namespace
from pascaline_layers import HEADER
from pascaline_malformed import counter
from pascaline_streams import (
    HEADER_AT,
    Load,
    Stream,
    again,
    frames,
    gradients_per_job,
    gradients_per_rank,
    updates,
)
from process import Child, Failure, Stop, run
from runner import Appliance, Report, join, leave
from runner import run as run_load
from scapy.utils import RawPcapReader, RawPcapWriter

_PREFIX = "pastrex"
_METRICS = ("127.0.0.1", 9464)
_READY_SECONDS = 30.0
_EXIT_SECONDS = 8.0
_CATCH_UP_SECONDS = 10.0
# Frames between two looks at the appliance's counter: far less than the port's ring holds.
_AHEAD = 32
_RANKS = 4
_APPLIANCE = "10.77.0.254"
_APPLIANCE_IPV6 = "2001:db8::fe"
# DPDK gives the first pcap port this MAC address.
_PCAP_MAC = "02:70:63:61:70:00"
_EACH = 25
# What the appliance does with an update of a synchronous job; docs/protocol.md, section 15.
_UPDATES_ARE = "unhandled_kind"


class _Bench:
    """An appliance with one port in a namespace of its own, and a namespace for the sender."""

    def __init__(self, binary: Path, stop: Stop, files: Path) -> None:
        self._binary, self._stop, self._files = binary, stop, files
        self.network = Network(1, 1500, middle=False)
        private.rename(self.network, _PREFIX)
        self._child: Child | None = None

    def start(self, device: str) -> None:
        """Starts the appliance on a DPDK device and waits until it is ready."""
        config = self._files / "appliance.toml"
        config.write_text(_configuration(device))
        command = [str(self._binary), "run", "-c", str(config)]
        self._child = Child("appliance", command, self._files, self.network.appliance)
        if not self._stop.wait_for(self._healthy, _READY_SECONDS):
            raise Failure(f"the appliance is not ready after {_READY_SECONDS:.0f} s", self.log())

    def reachable(self) -> str:
        """Gives the sender a link to the appliance's metrics, apart from the port; returns the address."""
        app, sender = self.network.appliance, self.network.workers[0]
        run(
            "ip",
            "link",
            "add",
            "name",
            "m0",
            "netns",
            app,
            "type",
            "veth",
            "peer",
            "name",
            "m0",
            "netns",
            sender,
        )
        for name, address in ((app, "192.0.2.1"), (sender, "192.0.2.2")):
            run("ip", "-n", name, "addr", "add", f"{address}/30", "dev", "m0")
            run("ip", "-n", name, "link", "set", "m0", "up")
        return "192.0.2.1"

    def end(self) -> None:
        """Ends it; it must say that every packet is accounted for."""
        if self._child:
            code, log = self._child.stop(_EXIT_SECONDS), self.log()
            self._child = None
            if code != 0:
                raise Failure(f"the appliance ended with exit code {code}", log)

    def kill(self) -> None:
        """Whatever happened, nothing stays behind."""
        if self._child:
            self._child.stop(_EXIT_SECONDS)
        self.network.destroy()

    def log(self) -> str:
        """The end of the appliance's log."""
        return self._child.tail() if self._child else ""

    def mac(self) -> str:
        """The MAC address of its port, as it logs it."""
        found = re.search(r"mac=([0-9a-f:]{17})", re.sub(r"\x1b\[[0-9;]*m", "", self.log()))
        return found.group(1) if found else "none"

    def appliance(self) -> Appliance:
        """Its metrics."""

        def fetch() -> str:
            # Whoever waits for something looks here: also for a signal.
            self._stop.check()
            return self._get("/metrics")[1]

        return Appliance(fetch)

    def received(self) -> int:
        """Packets that it has received."""
        return self.appliance().scrape().total(RECEIVED)

    def catch_up(self, received: int) -> None:
        """Waits until it has received so many packets."""
        if not self._stop.wait_for(lambda: self.received() >= received, _CATCH_UP_SECONDS):
            raise Failure(f"of {received} frames only {self.received()} have arrived", self.log())

    def _healthy(self) -> bool:
        if self._child and self._child.exit_code() is not None:
            raise Failure("the appliance ended by itself", self.log())
        try:
            return self._get("/healthz")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, str]:
        def request() -> tuple[int, str]:
            connection = http.client.HTTPConnection(*_METRICS, timeout=5)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        return in_namespace(self.network.appliance, request)


@contextlib.contextmanager
def _bench(binary: Path, stop: Stop) -> Iterator[tuple[_Bench, Path]]:
    private.remove_leftovers(_PREFIX, "check.py")
    files = private.directory(_PREFIX)
    with contextlib.ExitStack() as cleanup:
        bench = _Bench(binary, stop, files)
        # Before they exist: whatever happens from here on, they are removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(bench.kill)
        files.mkdir(mode=0o700)
        bench.network.create()
        yield bench, files
        bench.end()


def _configuration(device: str) -> str:
    cores = sorted(os.sched_getaffinity(0))
    return f"""\
[appliance]
name = "{_PREFIX}"
addresses = ["{_APPLIANCE}", "{_APPLIANCE_IPV6}"]

[dataplane]
main_core = {cores[0]}
cores = [{cores[-1]}]
float = true
hugepages = "no"
memory_mb = 96

[[ports]]
name = "p0"
device = "{device}"

[pool]
slots = 4096

[[jobs]]
id = 1
fan_in = {_RANKS}

[[jobs]]
id = 2
fan_in = {_RANKS}

[telemetry]
listen = "0.0.0.0:{_METRICS[1]}"
"""


def _write(streams: list[Stream], file: Path) -> int:
    """Writes what the streams send to a pcap file; returns the number of frames."""
    with contextlib.closing(RawPcapWriter(str(file), linktype=1, sync=True)) as writer:
        count = 0
        for due, frame in frames(streams):
            # Scapy writes the header with the first packet.
            writer.write_header(frame) if count == 0 else None
            writer.write_packet(frame, sec=int(due), usec=round(due % 1 * 1e6) % 1_000_000)
            count += 1
    return count


def _read(file: Path) -> list[bytes]:
    with contextlib.closing(RawPcapReader(str(file))) as reader:
        return [frame for frame, _ in reader]


class _Replay(Interface):
    """Sends streams by way of a pcap file, and no faster than the appliance takes them."""

    def __init__(self, bench: _Bench, file: Path) -> None:
        super().__init__("eth0", self._keep_step)
        self._bench, self._file = bench, file
        self._before = 0

    def send(self, streams: list[Stream], seconds: float | None) -> Sent:
        """Writes, reads back, sends."""
        count = _write(streams, self._file)
        replayed = _read(self._file)
        if len(replayed) != count:
            raise Failure(f"the pcap file holds {len(replayed)} frames of {count}")
        self._before = self._bench.received()
        return self.replay(((0.0, frame) for frame in replayed), seconds)

    def _keep_step(self, sent: int) -> None:
        if sent % _AHEAD:
            return
        self._bench.catch_up(self._before + sent)


def pcap_port(binary: Path, stop: Stop) -> str:
    """All that needs no member, from a pcap file that DPDK itself reads, as fast as it can."""
    load = Load(
        destination_mac=_PCAP_MAC,
        appliance=_APPLIANCE,
        appliance_ipv6=_APPLIANCE_IPV6,
        ranks=_RANKS,
        psns=_EACH,
    )
    memberless = {"unknown-job", "rank-out-of-range", "no-service", "not-for-us"}
    cases = pascaline_malformed.MALFORMED + tuple(
        case for case in pascaline_malformed.REFUSED if case.name in memberless
    )
    wanted = Counter({counter(case.reason): 0 for case in cases})
    for case in cases:
        wanted[counter(case.reason)] += _EACH
    with _bench(binary, stop) as (bench, files):
        count = _write(pascaline_malformed.streams(load, cases, 1), files / "in.pcap")
        bench.start(f"net_pcap0,rx_pcap={files / 'in.pcap'},tx_pcap={files / 'out.pcap'}")
        if bench.mac() != _PCAP_MAC:
            raise Failure(
                f"the port's MAC address is {bench.mac()}, the file is for {_PCAP_MAC}", bench.log()
            )
        bench.catch_up(count)
        metrics = bench.appliance().settled()
        accounting = Accounting.of(metrics)
        dropped = metrics.by_label("pascaline_dropped_packets_total", "reason")
    _same("received", accounting.received, count)
    _same("dropped by reason", dropped, dict(wanted))
    _same(
        "absorbed, answered, forwarded",
        (accounting.absorbed, accounting.answered, accounting.forwarded),
        (0, 0, 0),
    )
    return f"{count} frames, {len(wanted)} reasons, every one counted"


def veth_port(binary: Path, stop: Stop) -> str:
    """Joined ranks, gradients of both layouts, repetitions, updates, and all that must be refused, over a veth pair."""
    with _bench(binary, stop) as (bench, files):
        bench.start("net_af_packet0,iface=pas0")
        load = Load(appliance=_APPLIANCE, appliance_ipv6=_APPLIANCE_IPV6, ranks=_RANKS, payload=256, pps=1e6)
        load = replace(load, destination_mac=bench.mac(), jobs=range(1, 3), session=os.getpid() + 1)
        replay = in_namespace(bench.network.workers[0], lambda: _Replay(bench, files / "streams.pcap"))
        with contextlib.closing(replay):
            appliance = bench.appliance()
            load = join(appliance, replay, load)
            counted = _loads(appliance, replay, load)
            leave(replay, load)
            members = appliance.scrape().by_label("pascaline_job_members", "job")
            _same("ranks that are still members", members, {})
    return f"{counted} frames, every one counted"


def runner_over_an_interface(binary: Path, stop: Stop) -> str:
    """The command as an operator types it: its JSON, its table, and its word about a job that is not there."""
    with _bench(binary, stop) as (bench, _):
        url = f"http://{bench.reachable()}:{_METRICS[1]}/metrics"
        bench.start("net_af_packet0,iface=pas0")
        wanted = {"offered": 200, "received": 200, "aggregated": 200, "results": 50, "results_sent": 200}
        gradients = ("gradients", "--psns", "50", "--destination-mac", bench.mac())
        found = json.loads(_run_command(bench, "--metrics", url, "--json", *gradients, code=0))
        _same("the runner's JSON", {name: found[name] for name in wanted}, wanted)
        table = _run_command(bench, "--metrics", url, *gradients, "--layout", "job", "--jobs", "2", code=0)
        _same("a table that balances", "every received packet is accounted for" in table, True)
        refusal = _run_command(bench, "--metrics", url, *gradients, "--jobs", "9", code=2)
        _same("a job that is not there", "job 9 is not configured" in refusal, True)
    return "3 runs"


def _run_command(bench: _Bench, *arguments: str, code: int) -> str:
    inside = ("ip", "netns", "exec", bench.network.workers[0], sys.executable, "-B")
    command = (str(Path(__file__).with_name("run")), "--interface", "eth0", *arguments)
    done = run(*inside, *command, check=False, timeout=60)
    if done.returncode != code:
        raise Failure(
            f"scripts/trex/run ended with {done.returncode}, wanted {code}", done.stdout + done.stderr
        )
    return done.stdout + done.stderr


def _loads(appliance: Appliance, replay: _Replay, load: Load) -> int:
    one, two = replace(load, jobs=range(1, 2)), replace(load, jobs=range(2, 3))

    def sent(what: str, streams: list[Stream], **wanted: object) -> Report:
        report = run_load(appliance, replay, streams, None)
        offered = sum(stream.count or 0 for stream in streams)
        everything = {
            "offered": offered,
            "received": offered,
            "lost_before": 0,
            "missed_by_port": 0,
            "aggregated": 0,
            "answered": 0,
            "forwarded": 0,
            "dropped": {},
            "results": 0,
            "results_sent": 0,
            "accounted": True,
        } | wanted
        found = report.to_json()
        _same(what, {name: found[name] for name in everything}, everything)
        total.append(offered)
        return report

    total: list[int] = []
    psns = 300
    all_in = {"aggregated": psns * _RANKS, "results": psns, "results_sent": psns * _RANKS}
    sent("gradients, a stream per rank", gradients_per_rank(replace(one, psns=psns)), **all_in)
    _results(replay, psns, one, _RANKS * (_RANKS + 1) // 2)
    sent("gradients, a stream per job", gradients_per_job(replace(two, psns=psns, dtype=2)), **all_in)
    _results(replay, psns, replace(two, dtype=2), _RANKS)

    few = replace(one, first_psn=5000, psns=_EACH)
    first, *others = gradients_per_rank(few)
    sent("one rank's gradients", [first], aggregated=_EACH)
    sent("the same again", again([first], delay_us=0.0), dropped={"duplicate": _EACH})
    complete = {"aggregated": _EACH * (_RANKS - 1), "results": _EACH, "results_sent": _EACH * _RANKS}
    sent("the other ranks'", others, **complete)
    # Each is answered with the result, to the rank that asked.
    sent(
        "all again",
        again([first, *others], delay_us=0.0),
        answered=_EACH * _RANKS,
        results_sent=_EACH * _RANKS,
    )

    asynchronous = updates(replace(one, psns=_EACH), 0.5, 1_763_690_000_123_456_789)
    sent("updates", asynchronous, dropped={_UPDATES_ARE: _EACH * _RANKS})

    # net_af_packet has the kernel put IPv4 fragments together before it takes them.
    cases = [case for case in pascaline_malformed.MALFORMED if case.reason != "ip_fragment"]
    cases += pascaline_malformed.REFUSED
    wanted = Counter[str]()
    for case in cases:
        wanted[counter(case.reason)] += _EACH
    mix = pascaline_malformed.streams(replace(one, psns=_EACH), tuple(cases), 1)
    sent("malformed and refused", mix, dropped=dict(sorted(wanted.items())))
    return sum(total)


def _results(replay: _Replay, psns: int, load: Load, total: int) -> None:
    """Each rank has got each result once, with the right sum in every element."""
    seen = Counter[tuple[int, int]]()
    for frame in replay.results:
        header = frame[HEADER_AT : HEADER_AT + HEADER]
        rank, psn, _, count = struct.unpack_from("!HIHH", header, 6)
        _same(f"contributions in the result of PSN {psn}", count, _RANKS)
        payload = frame[HEADER_AT + HEADER :]
        _same(f"the sum of PSN {psn}", payload, load.elements(total))
        seen[rank, psn] += 1
    wanted = {(rank, psn): 1 for rank in range(_RANKS) for psn in range(psns)}
    _same("results heard, by rank and PSN", len(seen), len(wanted))
    _same("results heard once", dict(seen) == wanted, True)


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: found {found}, wanted {wanted}")
