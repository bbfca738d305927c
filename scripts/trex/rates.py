"""Finds the highest rate without loss (NDR), or with a given loss (PDR), by runs of a load at many rates.

Every trial is a run of its own: ranks join, send for as long as the trial lasts, and leave, so that no PSN
returns. A generator that is too slow for a rate is stopped: the search continues below the rate that
it has reached. Lost are, of gradients, each of which brings its sender one result, the packets whose result
the generator has not received; of other loads, those that the appliance has not received.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace

from generators import Generator
from pascaline_loads import Load
from pascaline_streams import Stream
from runner import Appliance, joined, run
from search import Answer, Search, Trial

# A generator that takes so much longer than it should cannot send at the rate; starting it, and noticing that
# it is done, takes a while as well.
_LATE, _OVERHEAD_SECONDS = 0.05, 0.5
# How late it may be before it is stopped, beyond twice the time of the trial.
_PATIENCE_SECONDS = 3.0


@dataclass(frozen=True)
class Plan:
    """One search: what is sent, and within which rates of all streams together (packets/s)."""

    load: Load
    streams: Callable[[Load], list[Stream]]
    joined: bool
    with_results: bool
    aggregates: bool
    search: Search


def find(appliance: Appliance, generator: Generator, plan: Plan) -> list[Answer]:
    """Runs the search; prints each trial on standard error."""

    def measure(rate: float, seconds: float) -> Trial:
        trial = _trial(appliance, generator, plan, rate, seconds)
        print(
            f"{len(plan.search.trials) + 1:>3}: {trial.rate:>14,.0f} packets/s for {seconds:4.1f} s: "
            f"{trial.lost} of {trial.offered} lost ({100 * trial.loss_ratio:.4f} %){trial.remark}",
            file=sys.stderr,
            flush=True,
        )
        return trial

    return plan.search.run(measure)


def _trial(appliance: Appliance, generator: Generator, plan: Plan, rate: float, seconds: float) -> Trial:
    # What all streams together send where a rank sends one packet/s.
    together = sum(stream.pps for stream in plan.streams(replace(plan.load, psns=1, pps=1.0)))
    pps = rate / together
    load = replace(plan.load, pps=pps, psns=max(1, math.ceil(pps * seconds)))
    with joined(appliance, generator, load) if plan.joined else nullcontext(load) as load:
        streams = plan.streams(load)
        report = run(
            appliance, generator, streams, None, aggregates=plan.aggregates, patience=_PATIENCE_SECONDS
        )
    arrived = report.heard_by_generator if plan.with_results else report.received
    # A stopped trial has no duration.
    late = report.seconds - seconds - (0.0 if report.problem else _OVERHEAD_SECONDS)
    real = report.offered / (seconds + late) if late > seconds * _LATE else rate
    return Trial(real, seconds, report.offered, max(0, report.offered - arrived), report.problem)


def text(answers: list[Answer], trials: list[Trial]) -> str:
    rows = [f"{'rate, packets/s':>18} {'seconds':>8} {'offered':>12} {'lost':>10} {'loss %':>9}"]
    rows += [
        f"{trial.rate:>18,.0f} {trial.seconds:>8.1f} {trial.offered:>12,} {trial.lost:>10,} "
        f"{100 * trial.loss_ratio:>9.4f}{trial.remark}"
        for trial in sorted(trials, key=lambda trial: trial.rate)
    ]
    return "\n".join([*rows, *(answer.text() for answer in answers)])


def to_json(answers: list[Answer], search: Search) -> dict[str, object]:
    return {
        "algorithm": "MLRsearch (draft-ietf-bmwg-mlrsearch-15), exceed ratio 0",
        "phases": asdict(search.phases),
        "answers": [answer.to_json() for answer in answers],
        "trials": [asdict(trial) for trial in search.trials],
    }
