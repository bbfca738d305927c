"""Both ends of a fast path: the worker beside bare sockets and Gloo where processors are the limit."""

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import call_cost
import drivers
import install
import reducers
import shaped
from appliance_shaped import has_af_xdp
from context import Context
from figure import Beside, Goal, Section, median_ratio
from process import Failure

TITLE = (
    "Both ends: the worker's drivers against what they stand on, calls, and unshaped allreduces against Gloo"
)

_OURS, _BY_MULTICAST = "Pascaline", "Pascaline, results by multicast"
_SUM = 16 << 20
_WORKERS = 4
# IP, UDP and Pascaline's header; payloads are multiples of a cache line.
_HEADERS = 20 + 8 + 22
DEVICE = "net_kernel0,iface=pas0"
_GROUP = "239.77.0.1"

_RATIO = Goal(at_most=2.0)
_NOT_SLOWER = Goal(at_least=1.0)
# 4 bytes an element against 33 for 32 of them.
_SMALLER = Goal(at_least=3.5)
_SHAPED_MBIT = 100
_SHAPED_BYTES = 8 << 20
_TESTPMD = Goal(at_least=0.9)

# The figures of the last line.
KEYS = (
    "udp_cpu_ratio",
    "udp_gbps",
    "unshaped_1500_vs_gloo",
    "unshaped_9000_vs_gloo",
    "unshaped_1500_vs_gloo_offloads",
    "memif_vs_testpmd",
    "af_xdp_vs_testpmd",
    "mx8_speedup",
    "c_call_us",
    "mpi_call_us",
)


def measure(context: Context, section: Section) -> None:
    """Each system in turns with its peer; the result is the median of the turns' ratios."""
    section.notes += [
        f"The appliance's port is {DEVICE}. Links are not shaped: the processors are what limits.",
        "Offloads on or off: segmentation and joining (gso, tso, gro, tx-udp-segmentation) at every "
        "interface.",
    ]
    found: dict[str, float] = {}
    turns = context.pick(3, 1)
    with context.attempt(section, "kernel driver"):
        _driver(context, section, turns, found)
    with context.attempt(section, "blocks of 8 bits"):
        _blocks(context, section, turns, found)
    for kind in ("memif", "af_xdp") if has_af_xdp() else ("memif",):
        with context.attempt(section, kind):
            _port(context, section, kind, turns, found)
    if context.calls:
        with context.attempt(section, "calls"):
            _calls(context, section, context.calls, found)
    gloo: Path | None = None
    if context.options.no_peers:
        section.notes.append("Without Gloo: --no-peers.")
    else:
        with context.attempt(section, "Gloo"):
            gloo = install.gloo(context.stop)
    for mtu, offloads in ((1500, False), (1500, True), (9000, True)):
        with context.attempt(section, f"unshaped, MTU {mtu}"):
            _unshaped(context, section, gloo, mtu, offloads, turns, found)
    section.raw["last line"] = {key: round(found[key], 3) if key in found else None for key in KEYS}
    for key in KEYS:
        why = "it failed"
        if "gloo" in key and gloo is None:
            why = "without Gloo there is nothing to compare with"
        elif context.options.quick and key.endswith("_call_us"):
            why = "left out by --quick"
        section.notes += [] if key in found else [f"{key} was not measured: {why}."]


def payload(mtu: int) -> int:
    """The payload that fills a frame, in whole cache lines."""
    return (mtu - _HEADERS) // 64 * 64


def _driver(context: Context, section: Section, turns: int, found: dict[str, float]) -> None:
    """Processor time and payload of one worker alone, beside bare sockets over the same kind of link."""
    ours, rates, bare = [], [], []
    for turn in range(turns):
        report = _one_worker(context, section, turn)
        ours.append(report["ms_per_gbit"])
        rates.append(report["gbps"])
        bare.append(_bare(context, section, turn))
    cpu, gbps, median = median_ratio(ours, bare), statistics.median(rates), statistics.median(ours)
    found.update(udp_cpu_ratio=cpu, udp_gbps=gbps)
    beside = Beside("bare sockets, GSO and GRO", statistics.median(bare))
    section.figure(
        "kernel driver: CPU time", median, "ms per Gbit moved", beside, goal=_RATIO, group="CPU time",
        label="worker, kernel UDP", of_turns=cpu,
    )  # fmt: skip
    section.figure(
        "kernel driver: payload, each way at the same time", gbps, "Gbit/s",
        Beside("what it must be", 8.0), goal=_NOT_SLOWER, group="payload", label="worker, kernel UDP",
    )  # fmt: skip


def _port(context: Context, section: Section, kind: str, turns: int, found: dict[str, float]) -> None:
    """Packets of a worker on a DPDK port, beside frames of testpmd in its place and the appliance's."""
    ours, theirs = [], []
    for turn in range(turns):
        with shaped.Shaped(1, 0) as network:
            report = getattr(drivers, kind)(context, network)
        section.raw[f"worker, {kind}, turn {turn + 1}"] = report
        ours.append(drivers.packets_per_second(report))
        with shaped.Shaped(1, 0) as network:
            theirs.append(drivers.testpmd(context, network, kind))
    section.raw[f"testpmd, {kind}"] = theirs
    ratio = median_ratio(ours, theirs)
    found[f"{kind}_vs_testpmd"] = ratio
    beside = Beside("dpdk-testpmd at both ends, as long frames", statistics.median(theirs) / 1e6)
    section.figure(
        f"{kind}: packets each way", statistics.median(ours) / 1e6, "M/s", beside, goal=_TESTPMD,
        group=f"packets, {kind}", label="worker and appliance", of_turns=ratio,
    )  # fmt: skip


def _calls(context: Context, section: Section, parts: call_cost.Built, found: dict[str, float]) -> None:
    """A 4 KiB allreduce through the libraries, above one in Rust and one in C."""
    measured = call_cost.measure(context.binary, parts, context.stop)
    section.raw["calls"] = measured
    for key, above, most in (("c_call_us", "Rust", 2.0), ("mpi_call_us", "C", 5.0)):
        found[key] = measured[key]
        what = f"a 4 KiB allreduce through {'C' if above == 'Rust' else 'MPI'}, above one in {above}"
        name = f"{what}: difference of medians"
        beside = Beside("what it may be", most)
        section.figure(name, measured[key], "us", beside, goal=Goal(at_most=1.0), group="calls", label=name)


def _one_worker(context: Context, section: Section, turn: int) -> dict[str, float]:
    with shaped.Shaped(2, 0, offloads=True) as network:
        report = drivers.worker(context, network, DEVICE, payload(1500))
    section.raw[f"worker, turn {turn + 1}"] = report
    return drivers.costs(report)


def _blocks(context: Context, section: Section, turns: int, found: dict[str, float]) -> None:
    """The same f32 tensor over a shaped link as it is, and as blocks of MXINT8 and MXFP8."""
    sizes = {_SHAPED_BYTES: context.pick(8, 4)}
    seconds: dict[str, list[float]] = {}
    for _ in range(turns):
        for wire in ("f32", "mxint8", "mxfp8"):
            more: dict[str, Any] = {} if wire == "f32" else {"--wire": wire}
            with shaped.Shaped(2, _SHAPED_MBIT) as network:
                took = reducers.pascaline(context, network, sizes, more=more)[0][_SHAPED_BYTES]
            seconds.setdefault(wire, []).append(took)
    case = f"2 workers, 8 MiB of f32, {_SHAPED_MBIT} Mbit/s"
    section.raw[case] = seconds
    as_it_is = Beside("f32", _SHAPED_BYTES / 4 / 1e6 / statistics.median(seconds["f32"]))
    speedups = []
    for wire in ("mxint8", "mxfp8"):
        speedups.append(median_ratio(seconds["f32"], seconds[wire]))
        rate = _SHAPED_BYTES / 4 / 1e6 / statistics.median(seconds[wire])
        section.figure(
            f"{case}: as {wire}", rate, "million elements/s", as_it_is, goal=_SMALLER, group=case,
            label=wire, of_turns=speedups[-1],
        )  # fmt: skip
    found["mx8_speedup"] = min(speedups)


def _bare(context: Context, section: Section, turn: int) -> float:
    with shaped.Shaped(2, 0, offloads=True) as network:
        sent, received = drivers.bare(context, network, payload(1500) + 22, context.pick(4, 2))
    section.raw[f"bare sockets, turn {turn + 1}"] = {"sent": sent, "received": received}
    return drivers.bare_ms_per_gbit(sent, received)


def _unshaped(
    context: Context, section: Section, gloo: Path | None,
    mtu: int, offloads: bool, turns: int, found: dict[str, float],
) -> None:  # fmt: skip
    """Four workers and the appliance on this machine's cores."""
    sizes = {_SUM: context.pick(8, 4)}
    more: dict[str, Any] = {"--payload": payload(mtu), "--in-flight": 0}

    def ours(network: shaped.Shaped, group: str = "") -> float:
        took, _ = reducers.pascaline(context, network, sizes, device=DEVICE, more=more, group=group)
        return took[_SUM]

    ways: dict[str, Callable[[shaped.Shaped], float]] = {
        _OURS: ours,
        _BY_MULTICAST: partial(ours, group=_GROUP),
    }
    if gloo:
        ways["Gloo"] = lambda network: reducers.gloo(context, network, gloo, sizes)[_SUM]
    case = f"4 workers, 16 MiB, MTU {mtu}, offloads {'on' if offloads else 'off'}"
    times: dict[str, list[float]] = {name: [] for name in ways}
    for name, reduce in list(ways.items()) * turns:
        if name not in times:
            continue
        try:
            with shaped.Shaped(_WORKERS, 0, mtu=mtu, offloads=offloads) as network:
                times[name].append(reduce(network))
        except Failure as failure:
            # In addition to the others, which do not depend on it.
            if name != _BY_MULTICAST:
                raise
            section.failures.append(f"{case}: {name}: {failure}")
            del times[name]
    section.raw[case] = times
    mine = [name for name in (_OURS, _BY_MULTICAST) if name in times]
    beside: Beside | None = None
    ratio: dict[str, float] = {}
    if gloo:
        theirs = times["Gloo"]
        for name in mine:
            ratio[name] = median_ratio(theirs, times[name])
        beside = Beside("Gloo", 1e3 * statistics.median(theirs))
        key = f"unshaped_{mtu}_vs_gloo"
        found[f"{key}_offloads" if offloads and mtu == shaped.MTU else key] = ratio[_OURS]
    goal = _NOT_SLOWER if beside and (mtu != shaped.MTU or not offloads) else None
    for name in mine:
        section.figure(
            f"{case}: {name}", 1e3 * statistics.median(times[name]), "ms", beside, inverse=True,
            goal=goal if name == _OURS else None, group=case, label=name, of_turns=ratio.get(name),
        )  # fmt: skip
