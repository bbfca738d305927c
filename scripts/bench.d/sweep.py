"""`pascaline-lab bench pool --sweep`, read: one figure per case, and one per requirement."""

from collections.abc import Sequence

from context import Context
from figure import Beside, Goal, Section

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
                group = f"{part}, {str(case['pool_in']).replace('_', ' ')}"
                told = ", ".join(
                    f"{name.replace('_', '-')} {case[name]}" for name in names if case.get(name) is not None
                )
                section.figure(
                    f"{group}: {told}", case["pool_ns"], "ns/packet",
                    Beside("bare add", case["bare_add_ns"]), group=group, label=told, of_turns=case["ratio"],
                )  # fmt: skip
            for check in found["checks"]:
                goal = Goal(at_least=check.get("at_least"), at_most=check.get("at_most"))
                section.figure(check["what"], check["value"], "×", _ONE, goal=goal)
