"""scripts/lab: a leaf-spine network with appliances at its leaves and at a spine, built, tested, taken down.

Exit code 0 only if every case came out right. Each case's figures are in the last line of --json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import build
import netns
import report
from fabric import Fabric, Shape
from lab_cases import CASES
from lab_plan import DEFAULT, planned
from lab_tcp import CONTROLS, FLOWS, whole_seconds
from laboratory import Case, Lab, Sharing
from process import Failure, Interrupted, Stop
from quantities import between, size

_BUILD_SECONDS = 3600.0
_TIMEOUT_SECONDS = 600.0
_EXAMPLES = """\
examples:
  scripts/lab                                   all cases, then everything is taken down
  scripts/lab --test --json | tail -n1 | python3 -m json.tool
  scripts/lab --case two_levels --mbit 50 --workers 12
  scripts/lab --plan default --json             a plan, pushed by a controller, against what links carry
  scripts/lab --case tcp --flow cubic --shares shares.svg   a job and a TCP flow on one link
  scripts/lab --keep                            stays up after the cases, for a look around, until Ctrl-C

needs root (it asks sudo otherwise) for network namespaces and raw ports. Ends only what it started and
removes what it made, also when it fails or is interrupted. docs/lab.md has the network and the cases.
"""


def main(arguments: list[str]) -> int:
    """Runs the lab and returns the exit code."""
    options = _parse(arguments)
    stop = Stop(_BUILD_SECONDS)
    try:
        binary = build.ready(stop, options.binary, build.Wanted(tests=True, programs=_programs(options)))
        build.become_root(Path(__file__).resolve(), arguments, binary)
        netns.remove_leftovers()
        cases = _run(options, binary, Stop(_timeout(options), "--timeout"))
    except Interrupted as interrupted:
        _say(f"lab: {interrupted}; everything is cleaned up")
        return interrupted.exit_code
    except Failure as failure:
        _say(f"lab: {failure.whole}")
        if options.json:
            print(report.dump({"ok": False, "error": str(failure)}), flush=True)
        return 1
    good = bool(cases) and all(case.good for case in cases)
    print(_table(cases), file=sys.stderr if options.json else sys.stdout, flush=True)
    if options.json:
        shape = asdict(_shape(options))
        print(report.dump({"ok": good, **shape, "cases": {case.name: case.to_json() for case in cases}}))
    return 0 if good else 1


def _run(options: argparse.Namespace, binary: Path, stop: Stop) -> list[Case]:
    """One lab, from nothing to nothing."""
    fabric = Fabric(_shape(options))
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        # Registered before it exists: whatever happens from here on, it is removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(fabric.destroy)
        files.mkdir(mode=0o700)
        lab = Lab(
            fabric,
            binary,
            files,
            stop,
            cleanup,
            options.bytes,
            options.allreduces,
            options.picture,
            _sharing(options),
        )
        _say(fabric.picture())
        fabric.create()
        stop.check()
        cases = []
        chosen = {name: CASES[name] for name in options.case or CASES}
        if options.plan:
            chosen = {"planned": lambda lab, case: planned(lab, case, options.plan)}
        for name, what in chosen.items():
            _say(f"lab: {name}")
            cases.append(lab.attempt(name, what))
        if options.keep:
            _say(_table(cases))
            _stay(lab)
        return cases


def _stay(lab: Lab) -> None:
    """Until Ctrl-C, which is how a good run ends as well."""
    lab.stop.lift_limit()
    _say(
        f"\nEverything stays until Ctrl-C. Files: {lab.files}\nNamespaces: {' '.join(lab.fabric.namespaces)}"
    )
    for name, appliance in lab.appliances.items():
        _say(f"  pascaline explain 1 --admin unix:{appliance.socket}    # {name}")
    try:
        while True:
            lab.stop.sleep(1.0)
    except Interrupted as interrupted:
        if interrupted.exit_code != 128 + signal.SIGINT:
            raise


def _table(cases: list[Case]) -> str:
    rows = []
    for case in cases:
        figures = ", ".join(f"{name} {_short(value)}" for name, value in case.figures.items())
        rows.append(f"{'✓' if case.good else '✗'} {case.name}: {figures}")
        rows += [f"  {problem}" for problem in case.problems]
    return "\n".join(rows)


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else json.dumps(value)


def _programs(options: argparse.Namespace) -> tuple[str, ...]:
    """What is needed beside the operator's program."""
    return ("pascaline-fleet", *(["pascaline-lab"] if _has_tcp(options) else []))


def _has_tcp(options: argparse.Namespace) -> bool:
    """Whether a link is needed that pascaline-lab makes."""
    return not options.plan and "tcp" in (options.case or CASES)


def _sharing(options: argparse.Namespace) -> Sharing:
    controls, flows = options.control or CONTROLS, options.flow or FLOWS
    return Sharing(controls, flows, options.seconds, options.runs, options.shares)


def _timeout(options: argparse.Namespace) -> float:
    """What was asked for; otherwise enough for all cases, and for twice what `tcp` is to take."""
    if options.timeout:
        return float(options.timeout)
    longest = 2 * whole_seconds(_sharing(options)) if _has_tcp(options) else 0
    return max(_TIMEOUT_SECONDS, _TIMEOUT_SECONDS / 2 + longest)


def _shape(options: argparse.Namespace) -> Shape:
    return Shape(options.spines, options.leaves, options.workers, options.mbit)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/lab",
        description="A leaf-spine network of namespaces with appliances: built, tested, taken down.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--test", action="store_true", help="run the cases (what it does anyway)")
    add("--case", action="append", choices=sorted(CASES), help="only this one; may be given again")
    add(
        "--plan",
        type=lambda text: DEFAULT if text == "default" else Path(text).resolve(),
        metavar="FILE",
        help="in place of the cases: plan this instance, push it, and hold the links' loads against it; "
        "`default` is clients/examples/plans/lab.json",
    )
    add("--spines", type=between(1, 4), default=2, metavar="N", help="spines (2)")
    add("--leaves", type=between(2, 8), default=3, metavar="N", help="leaves (3)")
    add("--workers", type=between(2, 32), default=6, metavar="N", help="workers, dealt over the leaves (6)")
    add("--mbit", type=between(1, 10_000), default=100, metavar="N", help="Mbit/s of leaf-spine links (100)")
    add("--bytes", type=size, default=1 << 20, metavar="SIZE", help="tensor per allreduce (1MiB)")
    add("--allreduces", type=between(2, 10_000), default=8, metavar="N", help="how many in a case (8)")
    add(
        "--timeout",
        type=between(1, 86400),
        metavar="S",
        help="give up after (600, and more if `tcp` takes long)",
    )
    add("--binary", type=Path, metavar="FILE", help="use this pascaline instead of building it")
    add(
        "--picture", type=Path, metavar="FILE", help="the controller's page after a leaf was replaced, as SVG"
    )
    add("--control", action="append", choices=CONTROLS, help="in `tcp`: only this one; may be given again")
    add("--flow", action="append", choices=FLOWS, help="in `tcp`: only beside this kind of TCP")
    add(
        "--seconds",
        type=between(2, 600),
        default=12,
        metavar="S",
        help="in `tcp`: for how long a job and a flow share the link, BBR four times as long (12)",
    )
    add(
        "--runs",
        type=between(1, 99),
        default=1,
        metavar="N",
        help="in `tcp`: each pair so many times; the run in the middle, by the job's part, counts (1)",
    )
    add("--shares", type=Path, metavar="FILE", help="in `tcp`: what both got over time, as SVG")
    add("--keep", action="store_true", help="let everything run after the cases, until Ctrl-C")
    add("--json", action="store_true", help="last line of output: one JSON object; all else on stderr")
    options = parser.parse_args(arguments)
    _check(parser, options)
    return options


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the script with exit code 2 if options do not go together."""
    if options.workers < options.leaves:
        parser.error(f"--workers {options.workers}: one for each of the {options.leaves} leaves at least")
    if options.plan and (options.case or not options.plan.is_file()):
        parser.error(f"--plan {options.plan}: a file, and without --case")
    for option, file in (("--picture", options.picture), ("--shares", options.shares)):
        # Not after minutes.
        if file and (file.is_dir() or not file.parent.is_dir()):
            parser.error(f"{option} {file}: a file, in a directory that there is")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
