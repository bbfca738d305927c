"""The whole pipeline over DPDK ports, against the costs that no pipeline can avoid."""

import statistics
from pathlib import Path
from typing import Any

import install
import programs
from context import Context
from figure import Beside, Goal, Section, median_ratio

TITLE = "Pipeline: one lcore over DPDK ports, against dpdk-testpmd plus the bare add; two lcores beside one"

# Of OmniReduce/DAIET's aggregator with its add loops made vectorisable, 256 × int32 per packet, fan-in 4,
# packets in cache and from another core, where --omnireduce does not say where it is: measured on another day
# of another machine (docs/performance.md). These ratios, and only these, are not of one run then, and no goal
# is judged by them.
_PEER_MPPS = {"hot": 15.4, "ring": 6.0}
_PEER_GOALS = {"hot": Goal(at_least=1.3), "ring": Goal(at_least=1.0)}
_PEER_FAN_IN = 4
_PEER = "OmniReduce"
# What the open peer makes over a kind of port, and the median of the ratios of neighbouring turns, if there
# were any.
_Peers = dict[str, tuple[Beside, float | None]]
_PORTS = (
    ("hot", "packets hot in cache (net_null)", Goal(at_least=0.60)),
    ("ring", "net_ring, source on another core", None),
    ("memif", "net_memif, source in another process", Goal(at_least=0.75)),
)


def measure(context: Context, section: Section) -> None:
    section.notes += [
        "1 KiB of f32 per packet, results fanned out to all ranks. The limit is the time of dpdk-testpmd "
        "macswap per packet on the same ports plus the bare add of the same payloads; the ratio is limit ÷ "
        "time, that is packets/s ÷ those of the limit: the median of those of neighbouring turns.",
        "Over net_ring dpdk-testpmd can only forward to itself what it has sent; the limit is that of a loop "
        "that exchanges the addresses of each packet of the same source, which is on the other core in the "
        "same process and gives up results unread, but for some.",
    ]
    seconds, repeat = context.pick(2, 1), context.pick(5, 1)
    for fan_in in (4, 8):
        peer = _peer(context, section) if fan_in == _PEER_FAN_IN else None
        found, beside = _in_turns(context, section, fan_in, seconds, repeat, peer)
        section.raw[f"fan-in {fan_in}"] = found
        section.notes.append(f"Fan-in {fan_in}, net_ring and net_memif: {_apart(found)}")
        for port in _PORTS:
            _add_port(section, fan_in, port, found, beside)
    _two_lcores(context, section, seconds, repeat)


def _add_port(
    section: Section, fan_in: int, port: tuple[str, str, Goal | None], found: dict[str, Any], beside: _Peers
) -> None:
    """The figures of one kind of port: the pipeline beside its limit, and beside the open peer."""
    key, where, goal = port
    values = found[key]
    group = f"fan-in {fan_in}, {where}"
    if "hook_ns" in values:
        section.notes.append(
            f"Fan-in {fan_in}, net_null: the source, a receive hook, wrote each packet in "
            f"{values['hook_ns']:.1f} ns, which are taken out."
        )
    limit = 1000 / (1000 / values.get("macswap_mpps", values["testpmd_mpps"]) + found["bare_add_ns"])
    # Forwarding to the same process is a hundred times as fast: no bar beside the others.
    theirs = "" if "macswap_mpps" in values else group
    section.figure(
        group, values["mpps"], "Mpps", Beside("limit", limit), goal=goal, group=group, label="pipeline",
        of_turns=values["ratio"],
    )  # fmt: skip
    for kind, key_of in (("macswap", "testpmd_mpps"), ("io", "testpmd_io_mpps")):
        name, label = f"{group}: dpdk-testpmd {kind}", f"testpmd {kind}"
        section.figure(name, values[key_of], "Mpps", group=theirs, label=label)
    if "macswap_mpps" in values:
        label = "macswap, same source"
        section.figure(f"{group}: macswap", values["macswap_mpps"], "Mpps", group=group, label=label)
    if key in beside:
        open_peer, of_turns = beside[key]
        name, goal = f"{group}, and the open peer", None if of_turns is None else _PEER_GOALS[key]
        section.figure(name, values["mpps"], "Mpps", open_peer, goal=goal, of_turns=of_turns)


def _peer(context: Context, section: Section) -> Path | None:
    if context.options.omnireduce:
        with context.attempt(section, _PEER):
            return install.omnireduce(context.options.omnireduce.resolve(), context.peers, context.stop)
    return None


def _in_turns(
    context: Context, section: Section, fan_in: int, seconds: int, repeat: int, peer: Path | None
) -> tuple[dict[str, Any], _Peers]:
    """The pipeline, in turns with the open peer if it is there; and what the peer makes, by kind of port."""
    # By itself the pipeline takes all its turns in one process.
    turns, each = (repeat, 1) if peer else (1, repeat)
    ours: list[dict[str, Any]] = []
    theirs: dict[str, list[float]] = {key: [] for key in _PEER_MPPS}
    for turn in range(turns):
        if peer:
            failed = len(section.failures)
            with context.attempt(section, _PEER):
                for key, mpps in theirs.items():
                    name = f"omnireduce-{key}-{turn}"
                    command = [str(peer), key, str(fan_in), "256", str(seconds), "1", "0"]
                    said = programs.json_of(name, command, context.files, context.stop, 60 + seconds)
                    mpps.append(said["mpps"])
            peer = peer if len(section.failures) == failed else None
        words = f"bench pipeline --fan-in {fan_in} --seconds {seconds} --repeat {each}"
        ours.append(context.ask_lab(f"pipeline-{fan_in}-{turn}", words, 60 + 40 * seconds * each))
    beside = _beside(section, ours, theirs if peer else None) if fan_in == _PEER_FAN_IN else {}
    return _medians(ours), beside


def _beside(section: Section, ours: list[dict[str, Any]], theirs: dict[str, list[float]] | None) -> _Peers:
    """What the open peer makes, by kind of port, and the median of the turns' ratios to it, if measured."""
    what = (
        "The open software aggregator OmniReduce/DAIET `ps`, its loops made vectorisable, safe against "
        "losses, of 1 KiB packets at fan-in 4"
    )
    if theirs:
        section.raw["OmniReduce"] = theirs
        turns = "was measured in turns with the pipeline, with the same PSNs in the same order"
        section.notes.append(f"{what}, {turns}; its sums were checked.")
        return {
            key: (
                Beside("OmniReduce, vectorised", statistics.median(mpps)),
                median_ratio((turn[key]["mpps"] for turn in ours), mpps),
            )
            for key, mpps in theirs.items()
        }
    section.notes.append(
        f"{what}: {_PEER_MPPS['hot']} Mpps with packets in cache, {_PEER_MPPS['ring']} from another core. "
        "There is no package of it: these figures are from another run on another machine, and machines "
        "differ by more than 2 here, so that no goal is judged by them. With --omnireduce it is measured in "
        "this run."
    )
    return {
        key: (Beside("OmniReduce, vectorised (another machine)", mpps), None)
        for key, mpps in _PEER_MPPS.items()
    }


def _medians(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """One report of several: the median of each figure, but for extremes, which stay extremes."""
    merged: dict[str, Any] = {}
    for key, value in turns[0].items():
        values = [turn[key] for turn in turns]
        if isinstance(value, dict):
            merged[key] = _medians(values)
        elif isinstance(value, float):
            merged[key] = {"least": min, "most": max}.get(key, statistics.median)(values)
        else:
            merged[key] = value
    return merged


def _apart(found: dict[str, Any]) -> str:
    """How far apart the two cores were between the measurements: figures that take both follow from it."""
    apart = found["cores_apart_ns"]
    span = f"{apart['median']:.0f} ns ({apart['least']:.0f} to {apart['most']:.0f})"
    return f"From one core to the other and back a cache line took {span} between the measurements."


def _two_lcores(context: Context, section: Section, seconds: int, repeat: int) -> None:
    """`pascaline-lab bench pipeline --lcores 1,2`: PSNs of both, and every packet for one of them to sum."""
    words = f"bench pipeline --lcores 1,2 --seconds {seconds} --repeat {repeat}"
    found = context.ask_lab("pipeline-lcores", words, 60 + 20 * seconds * repeat)
    section.raw["two lcores"] = found
    section.notes.append(
        "Two lcores take both cores. Their ratios are medians of those of neighbouring turns."
        f" The bare add alone makes {found['bare_add_ratio']:.2f} × on both at once."
        f" With every packet on one set of slots, {100 * found['one_slot']['handed_off']:.0f} % of the "
        f"packets went from lcore to lcore, the others were combined before. {_apart(found)}"
    )
    cases = (("spread", "PSNs spread, steered", 1.8), ("one_slot", "every packet on one set of slots", 1.0))
    for key, what, least in cases:
        values, group, goal = found[key], f"two lcores, {what}", Goal(at_least=least)
        beside = Beside("one lcore", values["one_mpps"])
        section.figure(
            group, values["two_mpps"], "Mpps", beside, goal=goal, group=group, label="two lcores",
            of_turns=values["ratio"],
        )  # fmt: skip
