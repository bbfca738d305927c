"""The cost of reading metrics, page and API for an appliance's packets.

A pair of windows, one undisturbed and one with readers, gives one change. The interval that holds the true
median with 95 % confidence decides. While it does not, more pairs follow. If they do not decide either, the
smallest change that this machine can tell is the reason to skip.
"""

import math
from pathlib import Path

import pytest

from tests.runner.shell import Shell

pytestmark = pytest.mark.all
_PAIRS = 12
_ROUNDS = 4
_SCRAPE_MS = 50.0
# Standard deviations of a normal distribution that hold 95 % of it.
_CONFIDENCE = 1.96
# Changes in percent, by their name in the report, and the worst allowed ones.
_LIMITS = {"service_p99_changes_pct": 10.0, "mpps_changes_pct": -3.0}


def interval(values: list[float]) -> tuple[float, float]:
    """The interval that holds the true median with 95 % confidence, by order statistics."""
    ordered = sorted(values)
    reach = _CONFIDENCE * math.sqrt(len(ordered)) / 2
    # The same from both ends: what a change is called must not decide.
    low = max(0, math.floor(len(ordered) / 2 - reach) - 1)
    return ordered[low], ordered[-1 - low]


def holds(changes: list[float], worst: float) -> bool | None:
    """Whether a figure loses no more than is allowed; none if the interval is too wide."""
    least, most = interval([change if worst > 0 else -change for change in changes])
    return True if most <= abs(worst) else False if least > abs(worst) else None


@pytest.mark.parametrize(
    ("changes", "worst", "verdict"),
    [
        ([1.0] * 12, 10.0, True),
        ([11.0] * 12, 10.0, False),
        ([-9.0, 30.0] * 6, 10.0, None),
        ([-4.0] * 12, -3.0, False),
    ],
)
def test_judgement(changes: list[float], worst: float, verdict: bool | None) -> None:
    """Of made-up changes."""
    assert holds(changes, worst) is verdict


def test_intervals_have_no_direction() -> None:
    """The interval in the message is the one that is judged."""
    values = [float(n * n) for n in range(48)]
    least, most = interval(values)
    assert interval([-value for value in values]) == (-most, -least)


def test_scrape(shell: Shell, lab: Path) -> None:
    """Of 16 lcores and 1,024 jobs."""
    said = shell.json(lab, "bench", "scrape", "--repeat", 50, "--json")
    assert max(said["scrape_ms"], said["sample_ms"]) <= _SCRAPE_MS


def test_packets_are_not_held_up(shell: Shell, lab: Path) -> None:
    """At most 10 % more of their time (99 % of them), and 3 % less of their rate."""
    changes: dict[str, list[float]] = {key: [] for key in _LIMITS}
    for _ in range(_ROUNDS):
        words = ("bench", "observed", "--pairs", _PAIRS, "--seconds", 1, "--json")
        seen = shell.json(lab, *words, seconds=300)
        assert seen["calls"] >= 300
        assert seen["snapshots_streamed"] >= 10
        for key, values in changes.items():
            values.extend(seen[key])
        verdicts = [holds(changes[key], worst) for key, worst in _LIMITS.items()]
        if None not in verdicts:
            break
    told = ", ".join(f"{key}: between {interval(values)} %" for key, values in changes.items())
    assert False not in verdicts, told
    if None in verdicts:
        pytest.skip(f"this machine is too noisy to tell: {told}")
