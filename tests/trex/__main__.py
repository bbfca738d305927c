"""scripts/trex/check: the checks as a command."""

from __future__ import annotations

import argparse
import json
import sys

import pytest

import output

from .. import command
from . import __doc__ as about
from .conftest import name_of

_TIMEOUT_SECONDS = 150.0


class Checks(command.Run):
    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(
            "trex", options, lambda item: not (options.offline and item.get_closest_marker("root"))
        )
        self.report = sys.stderr if options.json else sys.stdout
        self.checks: list[dict[str, object]] = []

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        error = call.excinfo.value if call.excinfo else None
        if call.when != "call" and not isinstance(error, pytest.skip.Exception):
            return
        name = name_of(item)
        seen = "; ".join(str(text) for key, text in item.user_properties if key == command.FOUND)
        detail = str(getattr(error, "whole", error)) if error else seen
        good = None if isinstance(error, pytest.skip.Exception) else error is None
        line = f"{'✓' if good else '✗'} {name} ({call.duration:.1f} s): {detail}"
        print(f"- skipped: {name}: {detail}" if good is None else line, file=self.report, flush=True)
        self.checks.append({"check": name, "ok": good, "detail": detail})


def main(arguments: list[str]) -> int:
    """Runs every check, prints a line for each, and returns the exit code."""
    parser = command.Parser("trex/check", about, "", _TIMEOUT_SECONDS)
    parser.add_argument(
        "--offline", action="store_true", help="no appliance: vectors and compiler only; needs no root"
    )
    options = parser.parse_args(arguments)
    run = Checks(options)
    code = run(arguments, offline=options.offline)
    if code is not None:
        return code
    counted = [sum(check["ok"] is outcome for check in run.checks) for outcome in (True, False, None)]
    print("{} passed, {} failed, {} skipped".format(*counted), file=run.report, flush=True)
    good = not counted[1] and counted[0] > 0 and not run.error
    if options.json:
        print(json.dumps({"ok": good} | run.failed() | {"checks": run.checks}))
    return 0 if good else 1


if __name__ == "__main__":
    output.end("trex/check", lambda: main(sys.argv[1:]))
