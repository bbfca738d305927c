"""The options of scripts/lab."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from quantities import between, size

from .. import command
from ..bed import ROOT
from .fabric import Shape
from .tcp import CONTROLS, FLOWS, Sharing, whole_seconds

PLAN = ROOT / "clients/examples/plans/lab.json"
_TIMEOUT_SECONDS = 600.0
_ABOUT = "A leaf-spine network of namespaces with appliances: built, tested, taken down."
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


def parse(arguments: list[str]) -> argparse.Namespace:
    """Ends the script with exit code 2 if the options are wrong."""
    parser = command.Parser("lab", _ABOUT, _EXAMPLES, None)
    add = parser.add_argument
    add("--test", action="store_true", help="run the cases (what it does anyway)")
    add("--case", action="append", metavar="NAME", help="only this one; may be given again")
    plan = "in place of the cases: plan this instance, push it, and hold the links' loads against it; "
    add("--plan", type=_plan, metavar="FILE", help=f"{plan}`default` is {PLAN.relative_to(ROOT)}")
    add("--spines", type=between(1, 4), default=2, metavar="N", help="spines (2)")
    add("--leaves", type=between(2, 8), default=3, metavar="N", help="leaves (3)")
    add("--workers", type=between(2, 32), default=6, metavar="N", help="workers, dealt over the leaves (6)")
    add("--mbit", type=between(1, 10_000), default=100, metavar="N", help="Mbit/s of leaf-spine links (100)")
    add("--bytes", type=size, default=1 << 20, metavar="SIZE", help="tensor per allreduce (1MiB)")
    add("--allreduces", type=between(2, 10_000), default=8, metavar="N", help="how many in a case (8)")
    add(
        "--timeout", type=between(1, 86400), metavar="S", help="give up after (600, more if `tcp` takes long)"
    )
    add(
        "--picture", type=Path, metavar="FILE", help="the controller's page after a leaf was replaced, as SVG"
    )
    add("--control", action="append", choices=CONTROLS, help="in `tcp`: only this one; may be given again")
    add("--flow", action="append", choices=FLOWS, help="in `tcp`: only beside this kind of TCP")
    seconds = "in `tcp`: for how long a job and a flow share the link, BBR four times as long (12)"
    add("--seconds", type=between(2, 600), default=12, metavar="S", help=seconds)
    runs = "in `tcp`: each pair N times; the run in the middle, by the job's part, counts (1)"
    add("--runs", type=between(1, 99), default=1, metavar="N", help=runs)
    add("--shares", type=Path, metavar="FILE", help="in `tcp`: what both got over time, as SVG")
    add("--keep", action="store_true", help="let everything run after the cases, until Ctrl-C")
    options = parser.parse_args(arguments)
    if options.workers < options.leaves:
        parser.error(f"--workers {options.workers}: one for each of the {options.leaves} leaves at least")
    if options.plan and (options.case or not options.plan.is_file()):
        parser.error(f"--plan {options.plan}: a file, and without --case")
    for option, file in (("--picture", options.picture), ("--shares", options.shares)):
        # Fails now rather than after minutes.
        if file and (file.is_dir() or not file.parent.is_dir()):
            parser.error(f"{option} {file}: a file, in a directory that exists")
    options.timeout = timeout(options)
    return options


def _plan(text: str) -> Path:
    return PLAN if text == "default" else Path(text).resolve()


def wants_tcp(options: argparse.Namespace) -> bool:
    """Whether a link is needed that pascaline-lab makes."""
    cases: Collection[str] = options.case or ("tcp",)
    return not options.plan and "tcp" in cases


def programs(options: argparse.Namespace) -> list[str]:
    """The programs of the cases besides `pascaline`. An older one may have all commands itself."""
    lab = ["pascaline-lab"] if wants_tcp(options) else []
    return lab if options.binary else [*lab, "pascaline-fleet"]


def sharing(options: argparse.Namespace) -> Sharing:
    controls, flows = options.control or CONTROLS, options.flow or FLOWS
    return Sharing(controls, flows, options.seconds, options.runs, options.shares)


def timeout(options: argparse.Namespace) -> float:
    """The given time; otherwise enough for all cases, and for twice what `tcp` is to take."""
    if options.timeout:
        return float(options.timeout)
    longest = 2 * whole_seconds(sharing(options)) if wants_tcp(options) else 0
    return max(_TIMEOUT_SECONDS, _TIMEOUT_SECONDS / 2 + longest)


def shape(options: argparse.Namespace) -> Shape:
    return Shape(options.spines, options.leaves, options.workers, options.mbit)
