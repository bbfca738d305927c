"""The highest rate at which no more than a share of the packets is lost, for several shares at once.

The algorithm is MLRsearch (draft-ietf-bmwg-mlrsearch-15, "Multiple Loss Ratio search", by which FD.io CSIT
finds NDR and PDR, RFC 2544's throughput), in its plain form: an exceed ratio of 0 and trials as long as their
phase says. It is independent of traffic: it names the rate to try and for how long, and receives the loss.

- Initial phase, short trials: at the highest rate, at what was received of that (the maximum receive rate),
  and at what was received then. These usually lie on both sides of the answer.
- Intermediate phases, each with longer trials and a smaller width than the one before, then the final phase:
  for each goal, both bounds are measured again for as long as the phase's trials last. A bound that turns out
  to be on the other side is moved outward, each time twice as far; then the interval is halved until it is
  narrow enough. Rates are halved geometrically, widths are relative.

A goal's answer is the highest rate whose loss was within the goal in a trial of the final duration, with
every trial of that duration at a lower rate within it as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

# The most trials of a search, so that it ends for a port with contradictory results, too.
_MOST_TRIALS = 200
_RATE_STEP = 1e-9
_SHORT_OF = 0.98


class SearchError(Exception):
    """The search has no answer; the message says why."""


@dataclass(frozen=True)
class Trial:
    """One sending at a rate (packets/s), and its result."""

    rate: float
    seconds: float
    offered: int
    lost: int
    # Why it is no result, or not at the rate that was asked for; empty if it is one.
    problem: str = ""

    @property
    def remark(self) -> str:
        """The problem, to come after the figures."""
        return f"; {self.problem}" if self.problem else ""

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.offered if self.offered else 1.0

    @property
    def received_rate(self) -> float:
        """Packets per second that have arrived."""
        return self.rate * (1 - self.loss_ratio)


@dataclass(frozen=True)
class Phases:
    """Durations of trials and relative widths of intervals, from the initial phase to the final one."""

    initial_seconds: float = 1.0
    final_seconds: float = 10.0
    final_width: float = 0.005
    intermediate: int = 2

    def all(self) -> list[tuple[float, float]]:
        """(seconds, width) of each phase: durations grow geometrically, widths halve."""
        steps = self.intermediate
        growth = (self.final_seconds / self.initial_seconds) ** (1 / steps) if steps else 1.0
        earlier = [
            (self.initial_seconds * growth**step, self.final_width * 2 ** (steps - step))
            for step in range(steps)
        ]
        return [*earlier, (self.final_seconds, self.final_width)]


@dataclass
class Answer:
    """A goal (the share that may be lost) and its interval; rates are packets/s."""

    goal: float
    lower: Trial | None = None
    upper: Trial | None = None

    def text(self) -> str:
        name = "NDR" if self.goal == 0 else f"PDR {100 * self.goal:g} %"
        if self.lower is None:
            least = self.upper.rate if self.upper else 0.0
            return f"{name:<12} none: more is lost even at {least:,.0f} packets/s"
        above = f", more is lost at {self.upper.rate:,.0f}" if self.upper else ", the highest rate asked for"
        return f"{name:<12} {self.lower.rate:>14,.0f} packets/s{above}"

    def to_json(self) -> dict[str, float | None]:
        return {
            "goal_loss_percent": 100 * self.goal,
            "lower_pps": self.lower.rate if self.lower else None,
            "lower_loss_percent": 100 * self.lower.loss_ratio if self.lower else None,
            "upper_pps": self.upper.rate if self.upper else None,
            "upper_loss_percent": 100 * self.upper.loss_ratio if self.upper else None,
        }


@dataclass
class Search:
    least: float
    most: float
    goals: list[float]
    phases: Phases = field(default_factory=Phases)
    trials: list[Trial] = field(default_factory=list)

    def run(self, measure: Callable[[float, float], Trial]) -> list[Answer]:
        """All answers, in the order of the goals. `measure(rate, seconds)` sends, and returns the trial."""
        self._measure = measure
        if not 0 < self.least <= self.most:
            raise SearchError(f"no rates between {self.least:g} and {self.most:g} packets/s")
        self._initial()
        for seconds, width in self.phases.all():
            # The strictest goal first: its trials often answer the others.
            for goal in sorted(self.goals):
                self._narrow(goal, seconds, width)
        final = self.phases.final_seconds
        return [Answer(goal, *self._bounds(goal, final)) for goal in self.goals]

    def _initial(self) -> None:
        seconds = self.phases.initial_seconds
        trial = self._try(self.most, seconds)
        for _ in range(2):
            if not trial.lost:
                return
            trial = self._try(self._within(trial.received_rate), seconds)

    def _narrow(self, goal: float, seconds: float, width: float) -> None:
        """Measures until both bounds of this duration are there and near each other."""
        step = width
        while True:
            lower, upper = self._bounds(goal, seconds)
            if lower and (lower.rate >= self.most or (upper and _narrow_enough(lower, upper, width))):
                return
            if upper and upper.rate <= self.least:
                return
            if lower and upper:
                self._try(math.sqrt(lower.rate * upper.rate), seconds)
                continue
            # Start from the result of the shorter trials.
            hint_lower, hint_upper = self._bounds(goal, 0.0)
            if lower:
                rate = lower.rate / (1 - step)
                if hint_upper and hint_upper.rate > lower.rate and step == width:
                    rate = hint_upper.rate
            elif upper:
                rate = upper.rate * (1 - step)
                if hint_lower and hint_lower.rate < upper.rate and step == width:
                    rate = hint_lower.rate
            else:
                rate = hint_lower.rate if hint_lower else self.least
                step /= 2
            self._try(self._within(rate), seconds)
            step = min(2 * step, 0.5)

    def _bounds(self, goal: float, seconds: float) -> tuple[Trial | None, Trial | None]:
        """The lowest rate that lost too much, and the highest below it that did not.

        In trials of at least this duration.
        """
        trials = [trial for trial in self.trials if trial.seconds >= seconds]
        bad = [trial for trial in trials if trial.loss_ratio > goal]
        upper = min(bad, key=lambda trial: trial.rate, default=None)
        good = [
            trial for trial in trials if trial.loss_ratio <= goal and (not upper or trial.rate < upper.rate)
        ]
        return max(good, key=lambda trial: trial.rate, default=None), upper

    def _within(self, rate: float) -> float:
        return min(max(rate, self.least), self.most)

    def _try(self, rate: float, seconds: float) -> Trial:
        if len(self.trials) >= _MOST_TRIALS:
            raise SearchError(f"no answer after {_MOST_TRIALS} trials: losses do not grow with the rate")
        trial = self._measure(rate, seconds)
        self.trials.append(trial)
        if trial.rate < rate * _SHORT_OF:
            # The generator itself is not faster.
            self.most = max(self.least, min(self.most, trial.rate))
        return trial


def _narrow_enough(lower: Trial, upper: Trial, width: float) -> bool:
    return upper.rate - lower.rate <= width * upper.rate * (1 + _RATE_STEP)
