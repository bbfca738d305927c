"""A measured figure, beside its reference in the same run."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Beside:
    """An upper limit, or a peer that does the same work: name, and value in the same unit."""

    name: str
    value: float


def median_ratio(ones: Iterable[float], others: Iterable[float]) -> float:
    """Of neighbouring turns: changes of the machine affect both alike."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


@dataclass(frozen=True)
class Goal:
    at_least: float | None = None
    at_most: float | None = None

    def met(self, ratio: float) -> bool:
        return (self.at_least is None or ratio >= self.at_least) and (
            self.at_most is None or ratio <= self.at_most
        )

    def __str__(self) -> str:
        low = f"≥ {self.at_least:g}" if self.at_least is not None else ""
        high = f"≤ {self.at_most:g}" if self.at_most is not None else ""
        return " and ".join(word for word in (low, high) if word)


@dataclass(frozen=True)
class Figure:
    """A measured value.

    `inverse` says which way round the ratio is: value ÷ beside ("as much of it as the limit"), or beside ÷
    value ("as many times faster than the peer", when both are times).
    """

    name: str
    value: float
    unit: str
    beside: Beside | None = None
    inverse: bool = False
    goal: Goal | None = None
    # The group of bars that this one belongs to, and its label.
    group: str = ""
    label: str = ""
    # The median of the ratios of neighbouring turns, if both took turns: what changes from turn to turn is in
    # both then, but not in the medians of either.
    of_turns: float | None = None

    @property
    def ratio(self) -> float | None:
        """The value beside its reference, as one number; none without a reference."""
        if self.beside is None:
            return None
        if self.of_turns is not None:
            return self.of_turns
        above, below = (self.beside.value, self.value) if self.inverse else (self.value, self.beside.value)
        return above / below if below else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; none without a goal, or if there is nothing to compare with."""
        return self.goal.met(self.ratio) if self.goal and self.ratio is not None else None

    def _ratio_is(self) -> str | None:
        if self.beside is None:
            return None
        way = "beside / value" if self.inverse else "value / beside"
        return way if self.of_turns is None else f"{way}, median of neighbouring turns"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "beside": None if self.beside is None else {"name": self.beside.name, "value": self.beside.value},
            "ratio": self.ratio,
            "ratio_is": self._ratio_is(),
            "goal": str(self.goal) if self.goal else None,
            "met": self.met,
        }


@dataclass
class Section:
    name: str
    title: str
    # How it was measured, and its limits: one sentence each.
    notes: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    # The programs' output, complete.
    raw: dict[str, Any] = field(default_factory=dict)
    # Why it could not be measured, or only in part.
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    load: float = 0.0
    # The part of the cores' time that the machine's neighbours took meanwhile.
    stolen: float = 0.0

    def figure(self, name: str, value: float, unit: str, beside: Beside | None = None, **more: Any) -> None:
        """Adds a figure; `more` are further fields of `Figure`."""
        self.figures.append(Figure(name, value, unit, beside, **more))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "notes": self.notes,
            "figures": [figure.to_json() for figure in self.figures],
            "failures": self.failures,
            "seconds": round(self.seconds, 1),
            "load_average_before": self.load,
            "stolen": round(self.stolen, 4),
            "raw": self.raw,
        }
