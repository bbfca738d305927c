"""Judges what it costs an appliance's packets that somebody looks at it, by `pascaline-lab bench observed`.

A pair of windows, one left alone and one looked at, gives one change. The interval that holds the true median
with 95 % confidence decides. While it does not, more pairs follow. If they do not decide either, the check
reports the smallest change that this machine can tell, and counts as skipped.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process import Failure, run

_CANNOT_TELL = 77
_PAIRS = 12
_ROUNDS = 4
_SECONDS = 1
_SCRAPE_MS = 50.0
# Standard deviations of a normal distribution that hold 95 % of it.
_CONFIDENCE = 1.96


@dataclass(frozen=True)
class Limit:
    """How much of a figure may be lost: the changes' name in the report, and the worst change in percent."""

    what: str
    key: str
    worst: float

    def loss(self, change: float) -> float:
        """How much worse a change makes it, in percent."""
        return change if self.worst > 0 else -change

    @property
    def allowed(self) -> float:
        """The worst loss."""
        return abs(self.worst)


LIMITS = (
    Limit("99 % of the packets' service times", "service_p99_changes_pct", 10.0),
    Limit("packets per second", "mpps_changes_pct", -3.0),
)


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median, and the interval that holds the true one with 95 % confidence, by order statistics."""
    ordered = sorted(values)
    count = len(ordered)
    reach = _CONFIDENCE * math.sqrt(count) / 2
    low, high = max(0, math.floor(count / 2 - reach)), min(count - 1, math.ceil(count / 2 + reach))
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return middle, ordered[low], ordered[high]


def verdicts(changes: dict[str, list[float]]) -> list[tuple[str, bool | None]]:
    """For each limit a sentence, and whether it holds: none if it cannot be told."""
    found = []
    for limit in LIMITS:
        losses = [limit.loss(change) for change in changes[limit.key]]
        middle, least, most = interval(losses)
        holds = True if most <= limit.allowed else False if least > limit.allowed else None
        sentence = (
            f"{limit.what}: {middle:+.1f} % worse, with 95 % confidence between {least:+.1f} and "
            f"{most:+.1f} %; "
            f"allowed {limit.allowed:.0f} %; {len(losses)} pairs can tell {(most - least) / 2:.1f} %"
        )
        found.append((sentence, holds))
    return found


def main(arguments: list[str]) -> int:
    """Exit code 0 if both limits hold, 1 if one is broken, 77 if this machine cannot tell."""
    parser = argparse.ArgumentParser(prog="looking.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--binary", type=Path, required=True, help="the program pascaline-lab")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help=f"of {_PAIRS} pairs, at most ({_ROUNDS})")
    options = parser.parse_args(arguments)
    try:
        return _judge(options.binary, options.rounds)
    except Failure as failure:
        print(failure.whole)
        return 1


def _judge(binary: Path, rounds: int) -> int:
    scrape = _bench(binary, "scrape", "--repeat", "50")
    times = f"a scrape {scrape['scrape_ms']:.1f} ms, a snapshot {scrape['sample_ms']:.1f} ms"
    print(f"16 lcores and 1,024 jobs: {times}")
    if max(scrape["scrape_ms"], scrape["sample_ms"]) > _SCRAPE_MS:
        raise Failure(f"more than {_SCRAPE_MS:.0f} ms")
    changes: dict[str, list[float]] = {limit.key: [] for limit in LIMITS}
    found: list[tuple[str, bool | None]] = []
    for _ in range(rounds):
        seen = _bench(binary, "observed", "--pairs", str(_PAIRS), "--seconds", str(_SECONDS))
        if seen["calls"] < 300 or seen["snapshots_streamed"] < 10:
            raise Failure(f"hardly anybody looked: {seen}")
        for key, values in changes.items():
            values.extend(seen[key])
        found = verdicts(changes)
        print(*(sentence for sentence, _ in found), sep="\n", flush=True)
        if all(holds is not None for _, holds in found):
            break
    if any(holds is False for _, holds in found):
        raise Failure("looking costs more than is allowed")
    undecided = [sentence for sentence, holds in found if holds is None]
    if undecided:
        print(f"this machine is too noisy to tell: {'; '.join(undecided)}")
        return _CANNOT_TELL
    return 0


def _bench(binary: Path, *words: str) -> dict[str, Any]:
    done = run(str(binary), "bench", *words, "--json", timeout=300)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
