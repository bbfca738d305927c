"""The aggregator pool on one core against the bare add: the cases that have goals, and each axis."""

import sweep
from context import Context
from figure import Beside, Goal, Section

TITLE = "Pool: one core, against the bare add"

# Payload bytes, fan-in, and the goal of what it costs beside the bare add.
_CASES = ((1024, 8, 2.0), (8192, 8, 1.2), (256, 8, None))
_PARTS = ("policies", "contention", "fan-in", "payload", "types")
_SECONDS = 120
# What lasts long is to fill the memory; with few rounds a moment in which something else runs is a large part
# of them.
_ROUNDS = 4000


def measure(context: Context, section: Section) -> None:
    """One run of `pascaline-lab bench pool` per case, then its sweep, which fills gigabytes: not if quick."""
    section.notes.append(
        "ns per packet of parse, look-up, deduplication, add and result headers, beside the bare add of the "
        "same payloads with the"
        " same access pattern. Medians of rounds; cache: everything in L2; last level: accumulators and "
        "packets beyond L2."
    )
    for payload, fan_in, most in _CASES:
        case = f"{payload} B, fan-in {fan_in}"
        words = f"bench pool --payload {payload} --fan-in {fan_in} --rounds {_ROUNDS}"
        found = context.ask_lab(f"pool-{payload}-{fan_in}", words, _SECONDS)
        section.raw[case] = found
        for where, values, goal in (("cache", found, most), ("last level", found["last_level"], None)):
            group, least = f"{case}, {where}", Goal(at_most=goal) if goal else None
            add = Beside("bare add", values["bare_add_ns"])
            section.figure(
                f"{group}: pool", values["pool_ns"], "ns/packet", add,
                goal=least, group=group, label="pool", of_turns=values["ratio"],
            )  # fmt: skip
            section.figure(f"{group}: payload", values["gbps_per_core"], "Gbit/s per core")
    if not context.options.quick:
        sweep.measure(context, section, _PARTS, _ROUNDS, ("policy", "dtype", "order", "fan_in", "payload"))
