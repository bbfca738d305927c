"""scripts/vm: the virtual machine as a command."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

import output

from .. import command
from . import __doc__ as about
from .cards import Card
from .conftest import case_of, lacks
from .scene import Found

_TIMEOUT_SECONDS = 3600.0
_EXAMPLES = """\
examples:
  scripts/vm --list                        the cases, a line for each
  scripts/vm                               all: up to 12 minutes on two cores, 5 more for the first image
  scripts/vm --card e1000e --card vmxnet3  what is about these cards
  scripts/vm --case start --case ipv4      those whose names contain one of these words
  scripts/vm --json | jq .cards.e1000e     {"ok":…,"cards":{"e1000e":{"ipv4":{"ok":true,…},…},…},
                                            "in-line":{…},"service":{…},"no-iommu":{…},"seconds":n}

Needs root, by sudo, and what scripts/setup --vm installs. The guest's disk is kept below target/vm/ (1 GB).
Exit code 0: every case is right or skipped by what a card lacks; 1: one is not; 2: it cannot run here, or the
arguments are wrong.
"""


def main(arguments: list[str]) -> int:
    options = _parse(arguments)

    def chosen(item: pytest.Item) -> bool:
        case = case_of(item)
        named = not options.case or any(word in case.name for word in options.case)
        return named and (not options.card or {str(card) for card in case.cards} <= set(options.card))

    run = command.Run("vm", options, chosen, _tell)
    wanted = [case_of(item) for item in run.collect()]
    if not wanted:
        command.say("vm: there is no such case (see --list)")
        return 2
    if options.list:
        print("\n".join(f"{case!s:<28} {case.about}" for case in wanted))
        return 0
    if reason := lacks():
        command.say(f"vm: {reason}")
        return 2
    since = time.monotonic()
    code = run(arguments, "pascaline-fleet", "pascaline-lab")
    return _report(run, options, time.monotonic() - since) if code is None else code


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = command.Parser("vm", about, _EXAMPLES, _TIMEOUT_SECONDS)
    add = parser.add_argument
    add("--list", action="store_true", help="print the cases, and boot nothing")
    add("--card", action="append", choices=[str(card) for card in Card], help="only cases of this card")
    add("--case", action="append", default=[], metavar="WORD", help="only cases whose names contain it")
    add("--package", type=Path, metavar="FILE", help="a Debian package, instead of one of the built programs")
    return parser.parse_args(arguments)


def _tell(found: Found) -> None:
    mark = "✓" if found.ok else "-" if found.skipped else "✗"
    figures = ", ".join(f"{name} {value}" for name, value in found.figures.items() if name != "journal")
    story = found.figures.get("journal", [])
    words = found.problem or found.skipped or figures
    command.say("\n    ".join([f"{mark} {found.group} {found.case}: {found.seconds:.0f} s, {words}", *story]))


def _report(run: command.Run, options: argparse.Namespace, seconds: float) -> int:
    """Prints the results, and the reason of an early end; returns the exit code."""
    all_found: list[Found] = run.found
    good = bool(all_found) and all(one.ok or one.skipped for one in all_found) and not run.error
    if options.json:
        cards = {str(card) for card in Card}
        whole: dict[str, Any] = {"ok": good, "cards": {}}
        for one in all_found:
            place = whole["cards"] if one.group in cards else whole
            place.setdefault(one.group, {})[one.case] = one.to_json()
        print(
            json.dumps(whole | run.failed() | {"seconds": round(seconds)}, separators=(",", ":")), flush=True
        )
    else:
        _print_table(all_found)
        print(f"{sum(one.ok for one in all_found)} of {len(all_found)} cases right, in {seconds:.0f} s")
    return 0 if good else 1


def _print_table(all_found: list[Found]) -> None:
    """Cards across, cases down; below it what is about no single card."""
    cards = [str(card) for card in Card]
    table = Table("case", *cards, box=None)
    marks = {(one.group, one.case): "✓" if one.ok else "-" if one.skipped else "✗" for one in all_found}
    for case in dict.fromkeys(one.case for one in all_found if one.group in cards):
        table.add_row(case, *(marks.get((card, case), "") for card in cards))
    for one in all_found:
        if one.group not in cards:
            table.add_row(f"{one.group} {one.case}", marks[one.group, one.case])
    Console().print(table)


if __name__ == "__main__":
    output.end("vm", lambda: main(sys.argv[1:]))
