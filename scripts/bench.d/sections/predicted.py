"""Allreduces over shaped links beside the simulator's prediction for the same links."""

import statistics

import reducers
import shaped
from context import Context
from figure import Beside, Goal, Section, median_ratio
from sections.allreduce import ALL_LINKS, KIB, MIB, case_of

TITLE = "Virtual time beside the real thing: an allreduce over shaped links"

_SIZES = {40 * KIB: 60, MIB: 10, 16 * MIB: 3}
_CLOSE = Goal(at_least=0.95, at_most=1.05)
# An allreduce of one element, which the shapers' buckets let pass at once, and how often.
_SHORTEST = {4: 100}


def measure(context: Context, section: Section) -> None:
    """Each number of ranks in turns; the result is the median of the turns' ratios."""
    turns = context.pick(3, 1)
    section.notes += [
        "Links, workers and appliance are those of the section allreduce. `pascaline-lab predict` receives "
        "the links' rate, the shapers' bucket, and as the round trip what an allreduce of one element takes "
        "on the same links, which are idle otherwise.",
        "Time: of the slowest rank, after a barrier; the median over the sums. In virtual time processors "
        "take none beyond that round trip.",
    ]
    for ranks in context.options.workers or ((4,) if context.options.quick else (2, 4, 8)):
        mbit = context.options.mbit or max(1, ALL_LINKS // ranks)
        sizes = {size: times for size, times in _SIZES.items() if not context.options.quick or size <= MIB}
        with context.attempt(section, f"{ranks} ranks"):
            _compare(context, section, ranks, mbit, sizes, turns)


def _compare(
    context: Context, section: Section, ranks: int, mbit: int, sizes: dict[int, int], turns: int
) -> None:
    ours: dict[int, list[float]] = {size: [] for size in sizes}
    said: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(turns):
        context.stop.check()
        context.say(f"predicted: {ranks} ranks at {mbit} Mbit/s, turn {turn + 1} of {turns}")
        with shaped.Shaped(ranks, mbit) as network:
            times, counted = reducers.pascaline(context, network, {**_SHORTEST, **sizes})
        round_trip = 1e6 * times[4]
        section.raw[f"{ranks} ranks, turn {turn + 1}"] = {"round_trip_us": round_trip, **counted}
        for size in sizes:
            ours[size].append(times[size])
            said[size].append(_predicted(context, ranks, mbit, size, round_trip))
    for size in sizes:
        case = case_of(ranks, size, mbit)
        beside = Beside("virtual time", 1e3 * statistics.median(said[size]))
        real = 1e3 * statistics.median(ours[size])
        section.figure(
            case, real, "ms", beside, goal=_CLOSE, group=case, label="real",
            of_turns=median_ratio(ours[size], said[size]),
        )  # fmt: skip


def _predicted(context: Context, ranks: int, mbit: int, size: int, round_trip: float) -> float:
    words = f"predict --ranks {ranks} --mbit {mbit} --bytes {size} --payload {shaped.PAYLOAD}"
    words += f" --bucket {shaped.burst(mbit)} --round-trip {round(round_trip)}us"
    words += f" --in-flight {reducers.IN_FLIGHT}"
    return float(context.ask_lab("predict", words, 300.0)["median_seconds"])
