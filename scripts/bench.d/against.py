"""`scripts/bench --against`: the packet path of two programs, in turns on one machine."""

import argparse
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import build
import programs
import versions
from process import Stop, run_long, say

# The figures that are compared; higher is better for all.
FIGURES = {
    "pool": "pool, 1 KiB of f32, fan-in 8, in L2",
    "hot": "one lcore over net_null, fan-in 8",
    "hot_4": "the same, fan-in 4",
    "ring": "one lcore over net_ring, fan-in 8",
    "memif": "one lcore over net_memif, fan-in 8",
}
# Figures that no change of this project affects: a larger difference comes from the machine.
APART = 0.05
# A slower figure than this, with all of its interval, is a loss.
LOSS = 0.95
_COVERED = 0.95
_SECONDS = 120.0


@dataclass(frozen=True)
class Run:
    """One program's figures, and those that show the state of the machine."""

    figures: dict[str, float]
    machine: dict[str, float]


@dataclass
class Turn:
    old: Run
    new: Run

    def ratios(self) -> dict[str, float]:
        """New ÷ old."""
        return {name: self.new.figures[name] / self.old.figures[name] for name in FIGURES}


@dataclass
class Comparison:
    turns: list[Turn] = field(default_factory=list)

    def clean(self) -> list[Turn]:
        """The turns in which the machine was in its usual state, by both programs' bare add and testpmd."""
        mediate = [self._medians(lambda turn: turn.old), self._medians(lambda turn: turn.new)]
        return [
            turn
            for turn in self.turns
            if all(
                abs(value / medians[name] - 1) <= APART
                for run, medians in zip((turn.old, turn.new), mediate, strict=True)
                for name, value in run.machine.items()
            )
        ]

    def _medians(self, which: Callable[[Turn], Run]) -> dict[str, float]:
        runs = [which(turn).machine for turn in self.turns]
        return {name: statistics.median(run[name] for run in runs) for name in runs[0]} if runs else {}

    def said(self) -> dict[str, Any]:
        """Medians of ratios, with their 95 % intervals where known."""
        clean = [turn.ratios() for turn in self.clean()]
        said: dict[str, Any] = {}
        between: dict[str, list[float] | None] = {}
        for name in FIGURES:
            ratios = [turn[name] for turn in clean]
            said[name] = round(statistics.median(ratios), 4) if ratios else None
            found = interval(ratios)
            between[name] = [round(end, 4) for end in found] if found else None
        thrown_away = len(self.turns) - len(clean)
        return {**said, "turns": len(clean), "thrown_away": thrown_away, "between": between}


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Between which two of the values the median of all there could be lies, with 95 % of certainty.

    Each value is as likely above as below it, whatever they are distributed like. None with fewer than six.
    """
    count, ordered = len(values), sorted(values)
    below = 0.0
    found = None
    for rank in range(count // 2):
        below += math.comb(count, rank) / 2**count
        if 1 - 2 * below < _COVERED:
            break
        found = ordered[rank], ordered[count - 1 - rank]
    return found


def losses(said: dict[str, Any]) -> list[str]:
    """The figures that are certainly slower by more than a twentieth."""
    return [name for name in FIGURES if said["between"][name] and said["between"][name][1] < LOSS]


def compare(old: Path, new: Path, turns: int, files: Path, stop: Stop) -> Comparison:
    """Runs both programs this many times, each first in every second turn."""
    found = Comparison()
    for turn in range(turns):
        order = [old, new] if turn % 2 == 0 else [new, old]
        first, second = (run(program, files, stop) for program in order)
        found.turns.append(Turn(first, second) if turn % 2 == 0 else Turn(second, first))
        ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in found.turns[-1].ratios().items())
        say(f"bench: turn {turn + 1} of {turns}: {ratios}")
    return found


def run(program: Path, files: Path, stop: Stop) -> Run:
    pool = _bench(program, ["pool"], files, stop)
    wide, narrow = (
        _bench(program, ["pipeline", "--seconds", "1", "--repeat", "1", "--fan-in", str(fan_in)], files, stop)
        for fan_in in (8, 4)
    )
    figures = {"pool": 1000 / pool["pool_ns"], "hot_4": narrow["hot"]["mpps"]}
    figures |= {name: wide[name]["mpps"] for name in ("hot", "ring", "memif")}
    machine = {"bare add": pool["bare_add_ns"]}
    for fan_in, found in ((8, wide), (4, narrow)):
        machine[f"bare add, fan-in {fan_in}"] = found["bare_add_ns"]
        machine[f"testpmd, fan-in {fan_in}"] = found["hot"]["testpmd_mpps"]
    return Run(figures, machine)


def _bench(program: Path, words: list[str], files: Path, stop: Stop) -> dict[str, Any]:
    stop.check()
    command = [str(program), "bench", *words, "--json"]
    return programs.json_of(f"bench-{words[0]}", command, files, stop, _SECONDS)


def report(said: dict[str, Any], old: str, new: str) -> str:
    lines = [f"{new} beside {old}: packets/s, new ÷ old, medians of {said['turns']} turns"]
    for name, what in FIGURES.items():
        between = said["between"][name]
        ends = f"  ({between[0]:.3f} to {between[1]:.3f})" if between else ""
        ratio = "-" if said[name] is None else f"{said[name]:.3f}"
        lines.append(f"{what:40} {ratio}{ends}")
    lines.append(
        f"{said['thrown_away']} turns thrown away: bare add or testpmd more than {APART:.0%} off its median"
    )
    return "\n".join(lines)


def keep(comparison: Comparison, said: dict[str, Any], out: Path) -> None:
    """Writes everything into a file, turn by turn."""
    turns = [
        {"old": turn.old.__dict__, "new": turn.new.__dict__, "ratios": turn.ratios()}
        for turn in comparison.turns
    ]
    (out / "against.json").write_text(json.dumps({**said, "each": turns}, indent=1) + "\n")


def main(options: argparse.Namespace, arguments: list[str], script: Path, stop: Stop) -> int:
    run_long([str(build.ROOT / "scripts/setup"), "--tests"], stop, "scripts/setup failed")
    target = options.out.parent / "against"
    target.mkdir(parents=True, exist_ok=True)
    old = versions.given(options.against) or versions.program(options.against, target, stop)
    if options.binary:
        new = versions.of_binary(options.binary)
    else:
        versions.clean()
        new = versions.program("HEAD", target, stop)
    # The last one counts where an option is given twice.
    build.become_root(script, [*arguments, "--against", str(old)], new)
    stop.restart_clock()
    with tempfile.TemporaryDirectory(prefix="pascaline-against-") as files:
        found = compare(old, new, options.turns, Path(files), stop)
    said = found.said()
    keep(found, said, options.out)
    text = report(said, options.against, str(options.binary or "HEAD"))
    print(text, file=sys.stderr if options.json else sys.stdout)
    if options.json:
        print(json.dumps(said))
    lost = losses(said)
    for name in lost:
        say(f"bench: {FIGURES[name]}: certainly more than {1 - LOSS:.0%} slower than before")
    return 1 if lost and options.strict else 0
