"""scripts/hostile: an attacker with raw sockets beside four workers at a real appliance.

Every case attacks while the workers allreduce, in turns with a control: as many frames of the same length, at
the same rate, to a port of the appliance where nobody listens. A case holds if every sum is exact, workers
join, sum and leave throughout, an allreduce takes at most 1.10 times what it takes beside the control, the
counter that has to name the attack does, and the appliance has neither grown nor lost packet buffers.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

import bed as beds
import build
import cases
import measure
import private
import report
from bed import Bed
from measure import Found
from process import Child, Failure, Interrupted, Stop
from scene import Case, Scene
from victims import Victims

_BUILD_SECONDS = 3600.0
_TIMEOUT_SECONDS = 3600.0
_EXIT_SECONDS = 6.0
_EXAMPLES = """\
examples:
  scripts/hostile --list                      the cases, a line for each
  scripts/hostile --quick                     each once and briefly: all but the times are judged
  scripts/hostile --case join --case arp      those whose names contain one of these words
  scripts/hostile --json | jq .worst_ratio    {"cases":n,"held":n,"worst_ratio":…,"details":[…]}

Needs root, by sudo. Exit code 0: every case held; 1: one did not; 2: the arguments are wrong.
"""


def main(arguments: list[str]) -> int:
    """Runs the cases; returns the exit code."""
    options = _parse(arguments)
    wanted = [case for case in cases.ALL if _is_wanted(case, options)]
    if not wanted:
        print(f"hostile: no case's name contains: {' '.join(options.case)} (see --list)", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{case.name:<28} {case.about}" for case in wanted))
        return 0
    found: list[Found] = []
    error = ""
    try:
        binary = build.ready(Stop(_BUILD_SECONDS), options.binary)
        build.become_root(Path(__file__).resolve(), arguments, binary)
        _run(binary, wanted, options, found)
    except Interrupted as interrupted:
        print(f"hostile: {interrupted}; everything is cleaned up", file=sys.stderr)
        return interrupted.exit_code
    except Failure as failure:
        print(f"hostile: {failure.whole}", file=sys.stderr)
        error = str(failure)
    return _tell(found, error, options)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/hostile",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--list", action="store_true", help="print the cases, and attack nobody")
    add("--case", action="append", default=[], metavar="WORD", help="only cases whose names contain it")
    quick = "one short turn of each case, of a long one only by name; no times judged"
    add("--quick", action="store_true", help=quick)
    add("--json", action="store_true", help="one JSON object as the last line of standard output")
    add("--seed", type=int, default=1, metavar="N", help="of random bytes and addresses (default 1)")
    add("--binary", type=Path, metavar="FILE", help="a built pascaline, instead of building it")
    add("--timeout", type=float, default=_TIMEOUT_SECONDS, metavar="S", help="give up after (default 3600)")
    return parser.parse_args(arguments)


def _is_wanted(case: Case, options: argparse.Namespace) -> bool:
    if options.case:
        return any(word in case.name for word in options.case)
    return not (case.long and options.quick)


def _run(binary: Path, wanted: list[Case], options: argparse.Namespace, found: list[Found]) -> None:
    """Builds the bed, attacks, and leaves nothing behind. What is found by a failure stays found."""
    form = measure.QUICK if options.quick else measure.FULL
    private.remove_leftovers(beds.PREFIX, "hostile.d/main.py")
    stop = Stop(options.timeout, "--timeout")
    bed, files = Bed(), private.directory(beds.PREFIX)
    with ExitStack() as cleanup:
        # Registered before they exist: whatever happens from here on, they are removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(bed.destroy)
        files.mkdir(mode=0o700)
        bed.create()
        appliance = beds.appliance(binary, bed, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        server = [str(binary), "ps", "-c", str(files / "appliance.toml")]
        cleanup.callback(Child("ps", server, files, bed.server).stop, _EXIT_SECONDS)
        scene = Scene(bed, appliance, binary, files, stop, seed=options.seed)
        for job in sorted({case.job for case in wanted}):
            scene.job = job
            victims = Victims(binary, bed, files, job)
            cleanup.callback(victims.stop)
            victims.start()
            for case in (case for case in wanted if case.job == job):
                found.append(measure.measure(case, scene, victims, form))
                _say(found[-1])
                if found[-1].stuck:
                    victims.stop()
                    appliance.kill_and_restart(stop)
                    bed.forget()
                    victims.start()
                appliance.check_running()
            _finish(victims, scene, found[-1])
        code = appliance.stop()
        if code != 0:
            found[-1].problems.append(f"the appliance ended with exit code {code}")
            found[-1].held = False


def _finish(victims: Victims, scene: Scene, last: Found) -> None:
    """The last set has to end well, too."""
    before = len(victims.problems)
    victims.finish(scene.stop)
    last.problems += victims.problems[before:]
    last.held = not last.problems


def _say(found: Found) -> None:
    ratio = "" if found.ratio is None else f", {found.ratio:.2f} × the control"
    mark = "✓" if found.held else "✗"
    print(
        f"{mark} {found.name}: {found.sent} frames, {found.allreduces} allreduces{ratio}",
        file=sys.stderr,
        flush=True,
    )
    for problem in found.problems:
        print(f"    {problem}", file=sys.stderr, flush=True)


def _tell(found: list[Found], error: str, options: argparse.Namespace) -> int:
    """What was found, and what ended it early; returns the exit code."""
    held = sum(one.held for one in found)
    ratios = [one.ratio for one in found if one.ratio is not None]
    whole = {
        "cases": len(found),
        "held": held,
        "worst_ratio": max(ratios, default=None),
        "ratio_judged": not options.quick,
        "details": [one.to_json() for one in found],
    }
    if options.json:
        failed = {"ok": False, "error": error} if error else {}
        print(report.dump(failed | whole), flush=True)
    elif found:
        rows = [
            [
                "✓" if one.held else "✗",
                one.name,
                "-" if one.ratio is None else f"{one.ratio:.3f}",
                f"{min(one.rounds, default=0):.2f}–{max(one.rounds, default=0):.2f}",
                str(one.sent),
                max(one.counted, key=lambda reason: one.counted[reason], default="-"),
                f"{one.memory_kib[1] - one.memory_kib[0]:+d}",
                f"{one.buffers[1] - one.buffers[0]:+d}",
            ]
            for one in found
        ]
        head = ["", "case", "ratio", "rounds", "frames", "counted most", "KiB", "buffers"]
        print(report.table(head, rows))
        judged = "" if not options.quick else " (times are not judged: --quick)"
        print(f"{held} of {len(found)} cases held, worst ratio {whole['worst_ratio']}{judged}")
    return 0 if held == len(found) and not error else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
