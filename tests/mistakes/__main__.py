"""scripts/mistakes: the mistakes as a command."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import pytest

import output

from .. import command
from . import __doc__ as about
from .bed import Outcome
from .conftest import is_quick, limit_of, name_of, what_of

_TIMEOUT_SECONDS = 900.0
_EXAMPLES = """\
examples:
  scripts/mistakes
  scripts/mistakes --case killed --case size
  scripts/mistakes --json | tail -n1 | python3 -m json.tool

needs root (it asks sudo otherwise) for network namespaces and raw ports. Ends only what it started and
removes what it made, also when interrupted.
"""


def main(arguments: list[str]) -> int:
    parser = command.Parser("mistakes", about, _EXAMPLES, _TIMEOUT_SECONDS)
    add = parser.add_argument
    add("--case", action="append", metavar="NAME", help="only this one; may be repeated; see --list")
    add("--list", action="store_true", help="print the cases, and within what time they must be named")
    add("--quick", action="store_true", help="without the cases that wait long")
    options = parser.parse_args(arguments)

    def chosen(item: pytest.Item) -> bool:
        if options.case:
            return name_of(item) in options.case
        return options.list or is_quick(item) or not options.quick

    run = command.Run("mistakes", options, chosen, _tell)
    items = run.collect()
    if unknown := set(options.case or ()) - {name_of(item) for item in items}:
        parser.error(f"--case: no mistake is called {', '.join(sorted(unknown))} (see --list)")
    if options.list:
        for item in items:
            print(f"{name_of(item):20} {limit_of(item):4g} s  {what_of(item)}")
        return 0
    # It verifies the objectives of a job that asks to be admitted.
    code = run(arguments, "pascaline-fleet")
    return _report(run, options) if code is None else code


def _tell(found: tuple[Outcome, float]) -> None:
    outcome, whole = found
    mark = "✓" if outcome.named else "✗"
    command.say(
        f"{mark} {outcome.name}: {outcome.seconds:.2f} s of {outcome.limit:g} s ({whole:.1f} s in all)"
    )
    if not outcome.named:
        for who, text in outcome.texts.items():
            command.say(f"    {who}: {text}")
        for problem in outcome.problems:
            command.say(f"    ✗ {problem}")


def _report(run: command.Run, options: argparse.Namespace) -> int:
    """Prints the outcomes, and the reason of an early end; returns the exit code."""
    outcomes: list[Outcome] = [outcome for outcome, _ in run.found]
    named = sum(outcome.named for outcome in outcomes)
    slowest = max((outcome.seconds for outcome in outcomes if outcome.named), default=0.0)
    if outcomes:
        command.say(f"{named} of {len(outcomes)} mistakes are named; the slowest took {slowest:.2f} s")
    if options.json:
        found: dict[str, Any] = {"cases": len(outcomes), "named": named, "slowest_s": round(slowest, 3)}
        details = [outcome.to_json() for outcome in outcomes]
        print(json.dumps(run.failed() | found | {"details": details}), flush=True)
    return 0 if named == len(outcomes) > 0 and not run.error else 1


if __name__ == "__main__":
    output.end("mistakes", lambda: main(sys.argv[1:]))
