"""scripts/hostile: the attacks as a command."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

import pytest
from rich.console import Console
from rich.table import Table

import output

from .. import command
from . import __doc__ as about
from .conftest import case_of
from .measure import Found
from .scene import Case

_TIMEOUT_SECONDS = 3600.0
_EXAMPLES = """\
examples:
  scripts/hostile --list                      the cases, a line for each
  scripts/hostile --quick                     each once and briefly: all but the times are judged
  scripts/hostile --case join --case arp      those whose names contain one of these words
  scripts/hostile --security mac --quick      against workers whose packets prove their sender
  scripts/hostile --json | jq .worst_ratio    {"cases":n,"held":n,"worst_ratio":…,"details":[…]}

Needs root, by sudo. Exit code 0: every case held; 1: one did not; 2: the arguments are wrong.
"""


def main(arguments: list[str]) -> int:
    options = _parse(arguments)

    sealed = options.security != "none"

    def chosen(item: pytest.Item) -> bool:
        case = case_of(item)
        if case.plain_only if sealed else case.only_sealed:
            left_out.append(case)
            return False
        if options.case:
            return any(word in case.name for word in options.case)
        return not (case.long and options.quick)

    left_out: list[Case] = []
    run = command.Run("hostile", options, chosen, _tell)
    wanted = [case_of(item) for item in run.collect()]
    if not wanted:
        command.say(f"hostile: no case's name contains: {' '.join(options.case)} (see --list)")
        return 2
    if options.list:
        print("\n".join(f"{case.name:<28} {case.about}" for case in wanted))
        for case in left_out if sealed else []:
            print(f"{case.name:<28} left out: {case.plain_only}")
        return 0
    code = run(arguments)
    return _report(run, options) if code is None else code


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = command.Parser("hostile", about, _EXAMPLES, _TIMEOUT_SECONDS)
    add = parser.add_argument
    add("--list", action="store_true", help="print the cases, and attack nothing")
    add("--case", action="append", default=[], metavar="WORD", help="only cases whose names contain it")
    quick = "one short turn of each case, of a long one only by name; no times judged"
    about_seals = "what the workers' packets are sealed with (default none); see --list"
    add("--security", choices=("none", "mac", "encrypt"), default="none", help=about_seals)
    add("--quick", action="store_true", help=quick)
    add("--seed", type=int, default=1, metavar="N", help="of random bytes and addresses (default 1)")
    return parser.parse_args(arguments)


def _tell(found: Found) -> None:
    ratio = "" if found.ratio is None else f", {found.ratio:.2f} × the control"
    mark = "✓" if found.held else "✗"
    lines = [
        f"{mark} {found.name}: {found.sent} frames, {found.allreduces} allreduces{ratio}",
        *found.problems,
    ]
    command.say("\n    ".join(lines))


def _report(run: command.Run, options: argparse.Namespace) -> int:
    """Prints the findings, and the reason of an early end; returns the exit code."""
    all_found: list[Found] = run.found
    held = sum(one.held for one in all_found)
    whole = {
        "cases": len(all_found),
        "held": held,
        "worst_ratio": max((one.ratio for one in all_found if one.ratio is not None), default=None),
        "ratio_judged": not options.quick,
        "security": options.security,
        "details": [asdict(one) for one in all_found],
    }
    if options.json:
        print(json.dumps(run.failed() | whole, separators=(",", ":")), flush=True)
    elif all_found:
        _print_table(all_found)
        judged = "" if not options.quick else " (times are not judged: --quick)"
        print(f"{held} of {len(all_found)} cases held, worst ratio {whole['worst_ratio']}{judged}")
    return 0 if held == len(all_found) > 0 and not run.error else 1


def _print_table(all_found: list[Found]) -> None:
    table = Table("", "case", "ratio", "rounds", "frames", "counted most", "KiB", "buffers", box=None)
    for one in all_found:
        table.add_row(
            "✓" if one.held else "✗",
            one.name,
            "-" if one.ratio is None else f"{one.ratio:.3f}",
            f"{min(one.rounds, default=0):.2f}–{max(one.rounds, default=0):.2f}",
            str(one.sent),
            max(one.counted, key=lambda reason: one.counted[reason], default="-"),
            f"{one.memory_kib[1] - one.memory_kib[0]:+d}",
            f"{one.buffers[1] - one.buffers[0]:+d}",
        )
    Console().print(table)


if __name__ == "__main__":
    output.end("hostile", lambda: main(sys.argv[1:]))
