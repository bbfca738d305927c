"""Replays streams as pcap files into real DPDK ports, which count every frame under the right name."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import sys
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

import pascaline_malformed
from generators import Interface
from metrics import RESULTS, Accounting
from pascaline_layers import HEADER
from pascaline_loads import Load, again, gradients_per_job, gradients_per_rank, updates
from pascaline_malformed import counter
from pascaline_streams import HEADER_AT, Stream
from process import Child, Failure, Stop, run
from runner import Appliance, Report, RunError, join, joined, leave
from runner import run as run_load

from ..bed import ROOT
from .bench import APPLIANCE, APPLIANCE_IPV6, RANKS, Bench, Replay, running, write_pcap
from .conftest import Told

pytestmark = [pytest.mark.all, pytest.mark.root]

# DPDK gives the first pcap port this MAC address.
_PCAP_MAC = "02:70:63:61:70:00"
_EACH = 25
_LATER_US = 10_000.0
_BEGIN_SECONDS = 30.0
# The drop reason of an update of a synchronous job; docs/protocol.md, section 15.
_UPDATES_ARE = "unhandled_kind"


def test_pcap_port(binary: Path, stop: Stop, told: Told) -> None:
    """All that needs no member, from a pcap file that DPDK itself reads, as fast as it can."""
    load = Load(
        destination_mac=_PCAP_MAC, appliance=APPLIANCE, appliance_ipv6=APPLIANCE_IPV6, ranks=RANKS, psns=_EACH
    )
    memberless = {"unknown-job", "rank-out-of-range", "no-service", "not-for-us"}
    cases = pascaline_malformed.MALFORMED + tuple(
        case for case in pascaline_malformed.REFUSED if case.name in memberless
    )
    wanted = Counter({counter(case.reason): 0 for case in cases})
    for case in cases:
        wanted[counter(case.reason)] += _EACH
    with running(binary, stop) as bench:
        count = write_pcap(pascaline_malformed.streams(load, cases, 1), bench.files / "in.pcap")
        bench.start(f"net_pcap0,rx_pcap={bench.files / 'in.pcap'},tx_pcap={bench.files / 'out.pcap'}")
        if bench.mac() != _PCAP_MAC:
            raise Failure(f"the port's MAC address is {bench.mac()}, the file is for {_PCAP_MAC}")
        bench.catch_up(count)
        metrics = bench.seen().settled()
        accounting = Accounting.of(metrics)
        dropped = metrics.by_label("pascaline_dropped_packets_total", "reason")
    _same("received", accounting.received, count)
    _same("dropped by reason", dropped, dict(wanted))
    _same(
        "absorbed, answered, forwarded",
        (accounting.absorbed, accounting.answered, accounting.forwarded),
        (0, 0, 0),
    )
    told(f"{count} frames, {len(wanted)} reasons, every one counted")


def test_veth_port(binary: Path, stop: Stop, told: Told) -> None:
    """Joined ranks, gradients of both layouts, repetitions, updates and all that is rejected, over veth."""
    with running(binary, stop) as bench:
        bench.start("net_af_packet0,iface=pas0")
        load = Load(appliance=APPLIANCE, appliance_ipv6=APPLIANCE_IPV6, ranks=RANKS, payload=256, pps=1e6)
        load = replace(load, destination_mac=bench.mac(), jobs=range(1, 3), session=os.getpid() + 1)
        replay = bench.sender.inside(lambda: Replay(bench, bench.files / "streams.pcap"))
        with contextlib.closing(replay):
            appliance = bench.seen()
            load = join(appliance, replay, load)
            counted = _loads(appliance, replay, load)
            leave(replay, load)
            members = appliance.scrape().by_label("pascaline_job_members", "job_id")
            _same("ranks that are still members", members, {})
    told(f"{counted} frames, every one counted")


def test_runner_over_an_interface(binary: Path, stop: Stop, told: Told) -> None:
    """The command as an operator types it: its JSON, its table, and its error for a job that is not there."""
    with running(binary, stop) as bench:
        url = bench.reachable()
        bench.start("net_af_packet0,iface=pas0")
        wanted = {"offered": 200, "received": 200, "aggregated": 200, "results": 50, "results_sent": 200}
        gradients = ("gradients", "--psns", "50", "--destination-mac", bench.mac())
        found = json.loads(_run_command(bench, "--metrics", url, "--json", *gradients, code=0))
        _same("the runner's JSON", {name: found[name] for name in wanted}, wanted)
        table = _run_command(bench, "--metrics", url, *gradients, "--layout", "job", "--jobs", "2", code=0)
        _same("a table that balances", "every received packet is accounted for" in table, True)
        refusal = _run_command(bench, "--metrics", url, *gradients, "--jobs", "9", code=2)
        _same("a job that is not there", "job 9 is not configured" in refusal, True)
        rates = ("--ndr", "--least-rate", "100", "--most-rate", "400", "--trial-seconds", "0.5", "--json")
        said = _run_command(bench, "--metrics", url, *rates, *gradients, code=0).splitlines()
        search = json.loads(next(line for line in said if line.startswith("{")))
        answer = search["answers"][0]
        _same("a search that nothing limits", (answer["lower_pps"], answer["upper_pps"]), (400.0, None))
    told("4 runs")


def test_ranks_left_behind(binary: Path, stop: Stop, told: Told) -> None:
    """Ranks that have not left are replaced from their own addresses, and taken for other ones."""
    with running(binary, stop) as bench:
        bench.start("net_af_packet0,iface=pas0")
        load = Load(appliance=APPLIANCE, ranks=RANKS, payload=256, pps=1e6, psns=_EACH)
        load = replace(load, destination_mac=bench.mac())
        sender = bench.sender.inside(lambda: Interface("eth0"))
        with contextlib.closing(sender):
            appliance = bench.seen()
            join(appliance, sender, load)
            with joined(appliance, sender, load) as anew:
                report = run_load(appliance, sender, gradients_per_rank(anew), None, aggregates=True)
                _same("aggregated", (report.aggregated, report.problem), (_EACH * RANKS, ""))
                wrong = gradients_per_rank(replace(anew, epochs={1: anew.epochs[1] ^ 1}))
                report = run_load(appliance, sender, wrong, None, aggregates=True)
                _same("the reason", "nothing was aggregated" in report.problem, True)
            join(appliance, sender, load)
            with pytest.raises(RunError, match="rank_taken; end the worker"):
                join(appliance, sender, replace(load, first_address="10.77.0.101"))
    told(report.problem)


def test_interrupted_runner(binary: Path, stop: Stop, told: Told) -> None:
    """The command after Ctrl-C: its ranks have left, and the same command works at once."""
    with running(binary, stop) as bench:
        url = bench.reachable()
        bench.start("net_af_packet0,iface=pas0")
        words = ("gradients", "--destination-mac", bench.mac(), "--pps", "100", "--psns")
        command = _command("--metrics", url, *words, "10000")
        child = Child("runner", command, bench.files, bench.sender.name)
        with ExitStack() as cleanup:
            cleanup.callback(child.kill)
            begun = stop.wait_for(lambda: bench.seen().scrape().total(RESULTS) > 0, _BEGIN_SECONDS)
            _same("results before Ctrl-C", begun, True)
            _same("exit code", child.stop(_BEGIN_SECONDS, signal.SIGINT), 130)
        members = bench.seen().scrape().by_label("pascaline_job_members", "job_id")
        _same("ranks that are still members", members, {})
        _run_command(bench, "--metrics", url, *words, "20", code=0)
    told(child.tail())


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-B", str(ROOT / "scripts/trex/run"), "--interface", "eth0", *arguments]


def _run_command(bench: Bench, *arguments: str, code: int) -> str:
    inside = ("ip", "netns", "exec", bench.sender.name)
    done = run(*inside, *_command(*arguments), check=False, timeout=180)
    if done.returncode != code:
        raise Failure(
            f"scripts/trex/run ended with {done.returncode}, wanted {code}", done.stdout + done.stderr
        )
    return done.stdout + done.stderr


def _loads(appliance: Appliance, replay: Replay, load: Load) -> int:
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
    all_in = {"aggregated": psns * RANKS, "results": psns, "results_sent": psns * RANKS}
    sent("gradients, a stream per rank", gradients_per_rank(replace(one, psns=psns)), **all_in)
    _results(replay, psns, one, RANKS * (RANKS + 1) // 2)
    sent("gradients, a stream per job", gradients_per_job(replace(two, psns=psns, dtype=2)), **all_in)
    _results(replay, psns, replace(two, dtype=2), RANKS)

    few = replace(one, first_psn=psns, psns=_EACH)
    first, *others = gradients_per_rank(few)
    later = [replace(stream, delay_us=2 * _LATER_US) for stream in others]
    # At once: a partial that no rank waits for is given up after a while.
    twice = [first, *again([first], delay_us=_LATER_US), *later]
    complete = {"aggregated": _EACH * RANKS, "results": _EACH, "results_sent": _EACH * RANKS}
    sent("one rank's gradients twice, then the others'", twice, dropped={"duplicate": _EACH}, **complete)
    # Each is answered with the result, to the rank that asked.
    answers = {"answered": _EACH * RANKS, "results_sent": _EACH * RANKS}
    sent("all again", again([first, *others], delay_us=0.0), **answers)

    asynchronous = updates(replace(one, psns=_EACH), 0.5, 1_763_690_000_123_456_789)
    sent("updates", asynchronous, dropped={_UPDATES_ARE: _EACH * RANKS})

    # net_af_packet has the kernel put IPv4 fragments together before it takes them.
    cases = [case for case in pascaline_malformed.MALFORMED if case.reason != "ip_fragment"]
    cases += pascaline_malformed.REFUSED
    wanted = Counter[str]()
    for case in cases:
        wanted[counter(case.reason)] += _EACH
    # Behind what has been sent, and within the window.
    behind = replace(one, first_psn=psns + _EACH, psns=_EACH)
    mix = pascaline_malformed.streams(behind, tuple(cases), 1)
    sent("malformed and refused", mix, dropped=dict(sorted(wanted.items())))
    return sum(total)


def _results(replay: Replay, psns: int, load: Load, total: int) -> None:
    """Each rank has got each result once, with the right sum in every element."""
    seen = Counter[tuple[int, int]]()
    for frame in replay.results:
        header = frame[HEADER_AT : HEADER_AT + HEADER]
        rank, psn, _, count = struct.unpack_from("!HIHH", header, 6)
        _same(f"contributions in the result of PSN {psn}", count, RANKS)
        payload = frame[HEADER_AT + HEADER :]
        _same(f"the sum of PSN {psn}", payload, load.elements(total))
        seen[rank, (psn - load.first(load.jobs[0])) % (1 << 32)] += 1
    wanted = {(rank, psn): 1 for rank in range(RANKS) for psn in range(psns)}
    _same("results heard, by rank and PSN", len(seen), len(wanted))
    _same("results heard once", dict(seen) == wanted, True)


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: found {found}, wanted {wanted}")
