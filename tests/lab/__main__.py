"""scripts/lab: the lab as a command.

Exit code 0 only if every case came out right. Each case's figures are in the last line of --json.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import pytest

import output

from .. import command
from .conftest import name_of
from .laboratory import Case
from .options import parse, programs, shape

_PLANNED = "planned"


def main(arguments: list[str]) -> int:
    options = parse(arguments)

    def chosen(item: pytest.Item) -> bool:
        name = name_of(item)
        return name == _PLANNED if options.plan else name != _PLANNED and name in (options.case or [name])

    run = command.Run("lab", options, chosen, lambda case: command.say(_text(case)))
    names = {name_of(item) for item in run.collect()}
    if unknown := set(options.case or ()) - names:
        command.say(
            f"scripts/lab: error: --case: no case is called {', '.join(sorted(unknown))} (see docs/lab.md)"
        )
        return 2
    code = run(arguments, *programs(options))
    if code is not None:
        return code
    cases: list[Case] = run.found
    good = bool(cases) and all(case.good for case in cases) and not run.error
    if options.json:
        found = {"ok": good} | run.failed() | asdict(shape(options))
        found |= {"cases": {case.name: case.to_json() for case in cases}}
        print(json.dumps(found, separators=(",", ":")))
    else:
        print("\n".join(_text(case) for case in cases), flush=True)
    return 0 if good else 1


def _text(case: Case) -> str:
    figures = ", ".join(f"{name} {_short(value)}" for name, value in case.figures.items())
    return "\n  ".join([f"{'✓' if case.good else '✗'} {case.name}: {figures}", *case.problems])


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)


if __name__ == "__main__":
    output.end("lab", lambda: main(sys.argv[1:]))
