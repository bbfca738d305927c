"""The whole pipeline over DPDK ports, against what nobody can save."""

from __future__ import annotations

import programs
from context import Context
from figure import Beside, Figure, Goal, Section

TITLE = "Pipeline: one lcore over DPDK ports, against dpdk-testpmd plus the bare add; two lcores beside one"

# Of OmniReduce/DAIET's aggregator with its add loops made vectorisable, 256 × int32 per packet, fan-in 4, packets in cache and from another
# core; measured on another day of the same kind of machine (docs/performance.md), so that these ratios, and only these, are not of one run.
_PEER_MPPS = {"hot": (15.4, 1.3), "ring": (6.0, 1.0)}
_PORTS = (
    ("hot", "packets hot in cache (net_null)", Goal(at_least=0.60)),
    ("ring", "net_ring, source on another core", None),
    ("memif", "net_memif, source in another process", Goal(at_least=0.75)),
)


def measure(context: Context, section: Section) -> None:
    """`pascaline bench pipeline` with both fan-ins of the goals."""
    section.notes += [
        "1 KiB of f32 per packet, results fanned out to all ranks. The limit is the time of dpdk-testpmd macswap per packet on the same"
        " ports plus the bare add of the same payloads; the ratio is limit ÷ time, that is packets/s ÷ those of the limit.",
        "Over net_ring dpdk-testpmd can only forward to itself what it has sent; the limit is that of a loop that exchanges the addresses of"
        " each packet of the same source, which is on the other core in the same process and gives up results unread, but for some.",
        f"The open software aggregator OmniReduce/DAIET `ps`, vectorised, makes {_PEER_MPPS['hot'][0]} Mpps of 1 KiB packets at fan-in 4 with"
        f" packets in cache and {_PEER_MPPS['ring'][0]} from another core. It cannot be had as a package: these figures are from another run on the same"
        " kind of machine.",
    ]
    seconds, repeat = context.pick(2, 1), context.pick(3, 1)
    for fan_in in (4, 8):
        context.stop.check()
        command = [str(context.binary), "bench", "pipeline", "--json", "--fan-in", str(fan_in)]
        command += ["--seconds", str(seconds), "--repeat", str(repeat)]
        found = programs.json_of(f"pipeline-{fan_in}", command, context.files, context.stop, 60 + 40 * seconds * repeat)
        section.raw[f"fan-in {fan_in}"] = found
        for key, where, goal in _PORTS:
            values = found[key]
            group = f"fan-in {fan_in}, {where}"
            limit = 1000 / (1000 / values.get("macswap_mpps", values["testpmd_mpps"]) + found["bare_add_ns"])
            # What is forwarded to oneself is a hundred times as fast: no bar beside the others.
            theirs = "" if "macswap_mpps" in values else group
            section.add(
                Figure(group, values["mpps"], "Mpps", Beside("limit", limit), goal=goal, group=group, label="pipeline"),
                Figure(f"{group}: dpdk-testpmd macswap", values["testpmd_mpps"], "Mpps", group=theirs, label="testpmd macswap"),
                Figure(f"{group}: dpdk-testpmd io", values["testpmd_io_mpps"], "Mpps", group=theirs, label="testpmd io"),
            )
            if "macswap_mpps" in values:
                section.add(
                    Figure(f"{group}: macswap", values["macswap_mpps"], "Mpps", group=group, label="macswap, same source"),
                )
            if key in _PEER_MPPS and fan_in == 4:
                mpps, least = _PEER_MPPS[key]
                beside = Beside("OmniReduce, vectorised (another run)", mpps)
                section.add(Figure(f"{group}, and the open peer", values["mpps"], "Mpps", beside, goal=Goal(at_least=least)))
    _two_lcores(context, section, seconds, repeat)


def _two_lcores(context: Context, section: Section, seconds: int, repeat: int) -> None:
    """`pascaline bench pipeline --lcores 1,2`: PSNs spread over both, and every packet for one of them to sum."""
    context.stop.check()
    command = [str(context.binary), "bench", "pipeline", "--json", "--lcores", "1,2"]
    command += ["--seconds", str(seconds), "--repeat", str(repeat)]
    found = programs.json_of("pipeline-lcores", command, context.files, context.stop, 60 + 20 * seconds * repeat)
    section.raw["two lcores"] = found
    section.notes.append(
        f"Two lcores take both cores. The bare add alone makes {found['bare_add_ratio']:.2f} × on both at once."
        f" With every packet on one set of slots, {100 * found['one_slot']['handed_off']:.0f} % of the packets went from lcore to lcore, the others were"
        " combined before."
    )
    for key, what, least in (("spread", "PSNs spread, steered", 1.8), ("one_slot", "every packet on one set of slots", 1.0)):
        values = found[key]
        group = f"two lcores, {what}"
        beside = Beside("one lcore", values["one_mpps"])
        section.add(Figure(group, values["two_mpps"], "Mpps", beside, goal=Goal(at_least=least), group=group, label="two lcores"))
