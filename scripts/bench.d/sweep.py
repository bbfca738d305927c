"""`pascaline-lab bench pool --sweep`, read: one figure per case, and one per requirement."""

from collections.abc import Sequence
from typing import Any

from context import Context
from figure import Beside, Figure, Goal, Section

_SECONDS = 900
_ONE = Beside("1", 1.0)


def measure(
    context: Context, section: Section, parts: Sequence[str], rounds: int, names: Sequence[str]
) -> None:
    """Runs the parts one by one: one that fails leaves the others. `names`: the keys that tell cases."""
    for part in parts:
        with context.attempt(section, part):
            words = f"bench pool --sweep --only {part} --rounds {rounds}"
            section.raw[part] = found = context.ask_lab(f"sweep-{part}", words, _SECONDS)
            for case in found["cases"]:
                section.add(_case(part, case, names))
            for check in found["checks"]:
                goal = Goal(at_least=check.get("at_least"), at_most=check.get("at_most"))
                section.add(Figure(check["what"], check["value"], "×", _ONE, goal=goal))


def _case(part: str, case: dict[str, Any], names: Sequence[str]) -> Figure:
    told = ", ".join(f"{name.replace('_', '-')} {case[name]}" for name in names if case.get(name) is not None)
    where = str(case["pool_in"]).replace("_", " ")
    return Figure(
        f"{part}, {where}: {told}", case["pool_ns"], "ns/packet", Beside("bare add", case["bare_add_ns"]),
        group=f"{part}, {where}", label=told, of_turns=case["ratio"],
    )  # fmt: skip
