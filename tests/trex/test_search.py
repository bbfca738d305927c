"""The search for the highest rate, against simulated ports whose answer is known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from search import Phases, Search, SearchError, Trial

from .conftest import Told

_LEAST, _MOST = 1_000.0, 10_000_000.0
_PHASES = Phases(initial_seconds=1.0, final_seconds=10.0, final_width=0.005, intermediate=2)
# A search that takes more trials than plain bisection to the same width for each goal is none.
_MOST_TRIALS = 40

_Port = Callable[[float, float], Trial]


def _port(capacity: float, ring: int, chance: float, seed: int) -> _Port:
    """Takes `capacity` packets/s, keeps `ring` for later; beyond half of it, it may lose one packet."""
    rng = random.Random(seed)

    def measure(rate: float, seconds: float) -> Trial:
        offered = round(rate * seconds)
        lost = max(0, offered - round(capacity * seconds) - ring)
        if rate > capacity / 2 and rng.random() < chance:
            lost += 1
        return Trial(rate, seconds, offered, lost)

    return measure


def test_finds_the_knee(told: Told) -> None:
    """Capacity and ring are known, hence both answers, whatever the port."""
    searches = longest = 0
    for capacity, ring in itertools.product((1_500.0, 33_333.0, 9.7e5, 7.77e6), (0, 512)):
        port, goals = _port(capacity, ring, 0.0, 0), [0.0, 0.005]
        search = Search(_LEAST, _MOST, goals, _PHASES)
        for goal, answer in zip(goals, search.run(port), strict=True):
            # offered × (1 − goal) = capacity × seconds + ring
            knee = (capacity + ring / _PHASES.final_seconds) / (1 - goal)
            name = f"a port of {capacity:g} packets/s with a ring of {ring}, goal {goal:g}"
            assert answer.lower, f"{name}: no bounds"
            assert answer.upper is not None, f"{name}: no bounds"
            low, high = answer.lower.rate, answer.upper.rate
            assert low <= knee * 1.0001, f"{name}: {low:g} to {high:g}, not {knee:g}"
            assert knee <= high * 1.0001, f"{name}: {low:g} to {high:g}, not {knee:g}"
            assert (high - low) / high <= _PHASES.final_width * 1.01, (
                f"{name}: as wide as {low:g} to {high:g}"
            )
            assert answer.lower.seconds == _PHASES.final_seconds, f"{name}: a short trial decided"
            searches += 1
        longest = max(longest, len(search.trials))
    assert longest <= _MOST_TRIALS, f"{longest} trials for one search"
    told(f"{searches} answers, at most {longest} trials for two")


def test_noise_does_not_mislead(told: Told) -> None:
    """Now and then a packet is lost below the knee: the NDR may be less, but never more, the PDR is exact."""
    for seed in range(50):
        search = Search(_LEAST, _MOST, [0.0, 0.005], _PHASES)
        strict, partial = search.run(_port(1e6, 0, 0.02, seed))
        assert strict.lower, f"seed {seed}: NDR {strict}"
        assert strict.lower.rate <= 1.0001e6, f"seed {seed}: NDR {strict}"
        assert partial.lower
        assert abs(partial.lower.rate * 0.995 / 1e6 - 1) < 0.006, f"seed {seed}: PDR {partial.lower.rate:g}"
    told("50 noisy ports")


def test_ends_are_told(told: Told) -> None:
    """A port that takes everything, one that takes nothing, and one with random losses."""
    (all_of_it,) = Search(_LEAST, _MOST, [0.0], _PHASES).run(_port(1e9, 0, 0.0, 0))
    assert all_of_it.lower, str(all_of_it)
    assert all_of_it.lower.rate == _MOST, str(all_of_it)
    assert not all_of_it.upper, str(all_of_it)
    (nothing,) = Search(_LEAST, _MOST, [0.0], _PHASES).run(_port(0.0, 0, 0.0, 0))
    assert nothing.lower is None, str(nothing)
    assert "none" in nothing.text(), str(nothing)
    flip = itertools.cycle((0, 1))
    try:
        Search(_LEAST, _MOST, [0.0], _PHASES).run(
            lambda rate, seconds: Trial(rate, seconds, round(rate * seconds), next(flip))
        )
    except SearchError as error:
        told(str(error))
    else:
        told("a port that contradicts itself gets an answer within the most trials")


def test_a_slow_generator_ends_it(told: Told) -> None:
    """A generator that cannot send so fast is the limit, and ends the search."""
    slow = 50_000.0

    def measure(rate: float, seconds: float) -> Trial:
        real = min(rate, slow)
        return Trial(real, seconds, round(real * seconds), 0)

    search = Search(_LEAST, _MOST, [0.0], _PHASES)
    (answer,) = search.run(measure)
    assert answer.lower, str(answer)
    assert answer.lower.rate == slow, str(answer)
    assert not answer.upper, str(answer)
    told(f"{len(search.trials)} trials")
