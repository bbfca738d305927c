"""scripts/mistakes: the mistakes that users make, and whether they are told who and why, and how soon.

Each case makes one mistake against a real appliance on DPDK ports, with real workers, and holds what each of
them says against what it must say. Exit code 0 only if every case that ran was named in time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import build
import mistakes_async
import mistakes_explain
import mistakes_refused
import netns
from mistakes_bed import OUTSIDE, Bed, Outcome
from mistakes_sync import CASES, Case
from netns import Network
from process import Failure, Interrupted, Stop, say

_BUILD_SECONDS = 3600.0
_EXAMPLES = """\
examples:
  scripts/mistakes
  scripts/mistakes --case killed --case size
  scripts/mistakes --json | tail -n1 | python3 -m json.tool

needs root (it asks sudo otherwise) for network namespaces and raw ports. Ends only what it started and
removes what it made, also when interrupted.
"""


def main(arguments: list[str]) -> int:
    """Makes the mistakes and returns the exit code."""
    options = _parse(arguments)
    if options.list:
        for case in CASES:
            print(f"{case.name:20} {case.limit:4g} s  {case.what}")
        return 0
    outcomes: list[Outcome] = []
    error = ""
    try:
        binary = build.ready(Stop(_BUILD_SECONDS), options.binary)
        build.become_root(Path(__file__).resolve(), arguments, binary)
        _run(binary, _chosen(options), Stop(options.timeout, "--timeout"), outcomes)
    except Interrupted as interrupted:
        print(f"mistakes: {interrupted}; everything is cleaned up", file=sys.stderr)
        return interrupted.exit_code
    except Failure as failure:
        say(f"mistakes: {failure.whole}")
        error = str(failure)
    return _tell(outcomes, error, as_json=options.json)


def _tell(outcomes: list[Outcome], error: str, *, as_json: bool) -> int:
    """What came of the cases, and what ended them early; returns the exit code."""
    named = sum(outcome.named for outcome in outcomes)
    slowest = max((outcome.seconds for outcome in outcomes if outcome.named), default=0.0)
    if outcomes:
        say(f"{named} of {len(outcomes)} mistakes are named; the slowest took {slowest:.2f} s")
    if as_json:
        found: dict[str, Any] = {"ok": False, "error": error} if error else {}
        found |= {"cases": len(outcomes), "named": named, "slowest_s": round(slowest, 3)}
        print(json.dumps(found | {"details": [outcome.to_json() for outcome in outcomes]}), flush=True)
    return 0 if named == len(outcomes) and not error else 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/mistakes",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    names = [case.name for case in CASES]
    add = parser.add_argument
    add("--case", action="append", choices=names, metavar="NAME", help="only this one; may be repeated")
    add(
        "--list",
        action="store_true",
        help="say which cases there are, and within what time they must be named",
    )
    add("--quick", action="store_true", help="without the cases that wait long")
    add("--timeout", type=float, default=900.0, metavar="S", help="give up after (900)")
    add("--binary", type=Path, metavar="FILE", help="use this pascaline instead of building it")
    add("--json", action="store_true", help="last line of output: one JSON object; all else on stderr")
    return parser.parse_args(arguments)


def _chosen(options: argparse.Namespace) -> list[Case]:
    if options.case:
        return [case for case in CASES if case.name in options.case]
    return [case for case in CASES if case.quick or not options.quick]


def _run(binary: Path, cases: list[Case], stop: Stop, outcomes: list[Outcome]) -> None:
    """Makes one after the other. What came of them by a failure is kept."""
    for name in netns.remove_leftovers():
        say(f"removed {name}, which an earlier run left behind")
    network = Network(OUTSIDE + 1, 1500, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        # Registered before it exists: whatever happens from here on, it is removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        for case in cases:
            stop.check()
            outcomes.append(_make(case, binary, network, files, stop))


def _make(case: Case, binary: Path, network: Network, files: Path, stop: Stop) -> Outcome:
    """Makes one mistake."""
    outcome = Outcome(case.name, case.what, case.limit)
    where = files / case.name
    where.mkdir()
    bed = Bed(binary, network, where, stop, outcome)
    began = time.monotonic()
    try:
        case.run(bed)
    except Failure as failure:
        bed.problem(failure.whole)
    finally:
        bed.close()
    mark, whole = "✓" if outcome.named else "✗", time.monotonic() - began
    say(f"{mark} {case.name}: {outcome.seconds:.2f} s of {case.limit:g} s ({whole:.1f} s in all)")
    if not outcome.named:
        for who, text in outcome.texts.items():
            say(f"    {who}: {text}")
        for problem in outcome.problems:
            say(f"    ✗ {problem}")
    return outcome


# Its cases are in the list by being imported.
assert mistakes_async
assert mistakes_explain
assert mistakes_refused

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
