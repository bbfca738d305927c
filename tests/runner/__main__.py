"""The command line of scripts/test."""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import output
from tests.bed import tables
from tests.runner import another
from tests.runner.another import Beside
from tests.runner.outcomes import Outcome, Outcomes, title
from tests.runner.part import Part
from tests.runner.programs import Programs
from tests.runner.record import Record, minutes
from tests.runner.shell import ROOT, environment_of

_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
_LOGS = _TARGET / "test-logs"
_LIMITS = {False: "15 min", True: "50 min"}
# What a first run builds and installs takes, in GB.
_ROOM = {False: 7, True: 14}


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    for signum in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C: what a test has started is ended first.
        signal.signal(signum, signal.default_int_handler)
    _LOGS.mkdir(parents=True, exist_ok=True)
    os.environ["PASCALINE_PROGRAMS"] = str(options.programs or "")
    if options.said:
        return _run_part(options)
    split = os.geteuid() != 0 and may_be_root()
    chosen = _outcomes(options, Part.ALL)
    _pytest(chosen, "--collect-only")
    if options.list:
        print(*(item_title for item_title in _titles(chosen)), sep="\n")
        return 0
    if not chosen.items and not chosen.broken:
        print(f"test: no step's name contains: {' '.join(options.words)}", file=sys.stderr)
        return 2
    if lacks := _lacks_room(options):
        print(f"test: {lacks}", file=sys.stderr)
        return 2
    record = Record(_TARGET / "test-times.json", everything=options.all)
    print(
        record.announcement(_titles(chosen), whole=not options.words, limit=_LIMITS[options.all]), flush=True
    )
    since = time.monotonic()
    # Two processes of a user's would ask for two passwords.
    overlaps = options.all and not options.words and os.geteuid() == 0
    given = ("--programs", str(options.programs)) if options.programs else ()
    beside = Beside(_LOGS, ("--all", *given)) if overlaps else None
    part = Part.ALONE if beside else Part.USER if split else Part.ALL
    outcomes = _outcomes(options, part, beside.before if beside else lambda _: None)
    ended = _pytest(outcomes)
    if beside and ended in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
        beside.stop()
    elif beside:
        outcomes.add(beside.outcomes())
    needs_root = any(item.get_closest_marker("root") for item in chosen.items)
    if split and needs_root and ended != pytest.ExitCode.INTERRUPTED:
        outcomes.add(_by_sudo(options))
    whole = not options.words and ended in (0, 1)
    code = _report(outcomes, record, time.monotonic() - since, whole=whole)
    # Tests that were not run have not passed.
    return 1 if ended in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR) else code


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/test", allow_abbrev=False)
    add = parser.add_argument
    add("--all", action="store_true")
    add("--list", action="store_true")
    add("--programs", type=Path, metavar="DIR")
    add("--part", type=Part, default=Part.ALL, help=argparse.SUPPRESS)
    add("--said", type=Path, help=argparse.SUPPRESS)
    add("words", nargs="*", metavar="WORD")
    return parser.parse_args(arguments)


def _lacks_room(options: argparse.Namespace) -> str:
    """Why a first run would end without room on the disk, and what to do; empty if it has enough."""
    if options.words or (_TARGET / "debug").exists():
        return ""
    free, wanted = shutil.disk_usage(_TARGET).free // 10**9, _ROOM[options.all]
    remedy = "make room, or let CARGO_TARGET_DIR name a folder on another disk"
    return (
        f"a first run takes {wanted} GB, and {_TARGET} has {free} GB free: {remedy}" if free < wanted else ""
    )


def _outcomes(
    options: argparse.Namespace, part: Part, before: Callable[[str], None] = lambda _: None
) -> Outcomes:
    return Outcomes(_LOGS, options.words, everything=options.all, part=part, before=before)


def _titles(outcomes: Outcomes) -> list[str]:
    return [title(item.nodeid) for item in outcomes.items]


def _pytest(outcomes: Outcomes, *more: str) -> int:
    quiet = ("-p", "no:terminal", f"--junitxml={_LOGS / 'junit.xml'}") if not more else ("-p", "no:terminal")
    return int(pytest.main([*quiet, *more, str(ROOT / "tests")], plugins=[outcomes]))


def may_be_root() -> bool:
    """Whether this user may do what needs root, without being asked for a password."""
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(("sudo", "-n", "true"), capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _by_sudo(options: argparse.Namespace) -> list[dict[str, object]]:
    """Runs the tests that need root in this process, in one that is root's; returns their outcomes."""
    try:
        # Not by root, which has no Rust.
        programs = Programs(_TARGET, environment_of(_TARGET)).directory
    except pytest.fail.Exception as failure:
        return [{"title": "tests by sudo", "failures": [str(failure)]}]
    more = ("--programs", str(programs), *["--all"] * options.all, *options.words)
    return another.by_sudo(_LOGS, more)


def _run_part(options: argparse.Namespace) -> int:
    outcomes = _outcomes(options, options.part)
    code = _pytest(outcomes, "-o", "junit_family=xunit2")
    options.said.write_text(json.dumps(outcomes.to_json()))
    return code


def _rows(found: list[Outcome]) -> Iterator[tuple[object, ...]]:
    """A row for each file of tests."""
    for group, members in itertools.groupby(found, key=lambda outcome: outcome.title.partition(":")[0]):
        several = list(members)
        passed, failed, skipped = (
            sum(outcome.passed for outcome in several),
            sum(len(outcome.failures) for outcome in several),
            sum(len(outcome.skipped) for outcome in several),
        )
        mark = "✗" if failed else "✓" if passed else "-"
        yield mark, group, passed, failed, skipped, minutes(sum(outcome.seconds for outcome in several))


def _report(outcomes: Outcomes, record: Record, seconds: float, *, whole: bool) -> int:
    """The table, skipped and failed tests, and the last line."""
    found = outcomes.found
    print()
    tables.show(("", "tests", "passed", "failed", "skipped", "time"), _rows(found))
    for outcome in found:
        for reason in outcome.skipped:
            print(f"- skipped: {outcome.title}: {reason}")
    for outcome in found:
        for failure in outcome.failures:
            see = f" (see {outcome.log})" if outcome.log and outcome.log not in failure else ""
            print(f"- failed: {outcome.title}: {failure}{see}")
    for broken in outcomes.broken:
        print(f"- failed: {broken}")
    passed = sum(outcome.passed for outcome in found)
    failed = sum(len(outcome.failures) for outcome in found) + len(outcomes.broken)
    skipped = sum(len(outcome.skipped) for outcome in found)
    counts = f"{passed} passed, {failed} failed, {skipped} skipped"
    record.keep({outcome.title: outcome.seconds for outcome in found}, seconds if whole else None, counts)
    print(f"in {minutes(seconds)}")
    print(counts)
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    output.end("test", lambda: main(sys.argv[1:]))
