"""A case and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .bench import Bench
from .cards import Card

Figures = dict[str, Any]
SERVICE, IN_LINE, BARE = "service", "in-line", "no-iommu"


@dataclass(frozen=True)
class Case:
    """One thing that has to be right, at a card or of the whole machine."""

    group: str
    name: str
    about: str
    act: Callable[[Bench], Figures]
    cards: tuple[Card, ...]

    @property
    def iommu(self) -> bool:
        return self.group != BARE

    def __str__(self) -> str:
        return f"{self.group}-{self.name}"


@dataclass
class Found:
    group: str
    case: str
    ok: bool = False
    seconds: float = 0.0
    skipped: str = ""
    problem: str = ""
    figures: Figures = field(default_factory=dict)

    def to_json(self) -> Figures:
        words = {name: text for name, text in (("skipped", self.skipped), ("problem", self.problem)) if text}
        return {"ok": self.ok, "seconds": round(self.seconds, 1), **words, **self.figures}


# The fixture with which a test runs a case.
Attempt = Callable[[Case], None]
