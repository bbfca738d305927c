"""Floats that travel as less: in half or a quarter of the bytes, with and without feedback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pascaline
from conftest import RANKS
from pascaline import errors

SUM = RANKS * (RANKS + 1) // 2
Ranks = Callable[[Callable[[pascaline.Worker], Any]], list[Any]]


def test_floats_that_travel_in_16_bits(ranks: Ranks) -> None:
    """Half the bytes, and what bfloat16 has of a number."""

    def act(worker: pascaline.Worker) -> tuple[int, int]:
        array = np.full(4096, 1.0 + worker.rank, np.float32)
        whole = worker.allreduce(array.copy()).packets
        report = worker.allreduce(array, wire="bfloat16")
        assert (array == SUM).all()
        worker.allreduce(np.empty(0, np.float32), wire="bfloat16")
        return report.packets, whole

    for half, whole in ranks(act):
        assert half == -(-whole // 2)


@pytest.mark.parametrize("wire", ["mxint8", "mxfp8"])
def test_floats_that_travel_in_blocks(ranks: Ranks, wire: str) -> None:
    """A quarter of the bytes; a sum is off by a rounding for each rank, and one of the sum."""

    def act(worker: pascaline.Worker) -> float:
        array = np.linspace(-1, 1, 4001, dtype=np.float32) * (1 + worker.rank)
        whole = array.copy()
        packets = worker.allreduce(whole).packets
        assert worker.allreduce(array, wire=wire).packets <= packets // 3
        with pytest.raises(errors.ArgumentError, match="compared"):
            worker.allreduce(array, "min", wire=wire)
        return float(np.linalg.norm(array - whole) / np.linalg.norm(whole))

    limit = {"mxint8": 0.015, "mxfp8": 0.06}[wire]
    found = ranks(act)
    assert len(set(found)) == 1
    assert 0 < found[0] < limit


def test_what_rounding_leaves_comes_with_the_next_array(ranks: Ranks) -> None:
    """With feedback, many sums together are off by as much as a single one; without, by each one's error."""
    times = 64

    def act(worker: pascaline.Worker) -> list[float]:
        # The first element of 32 is the largest, so that the others lose their last digits.
        array = np.tile(np.r_[np.float32(1), np.full(31, 0.0101, np.float32)], 40)
        off = []
        for kept in (None, pascaline.Feedback()):
            total = np.zeros_like(array)
            for _ in range(times):
                one = array.copy()
                worker.allreduce(one, "mean", wire="mxint8", feedback=kept)
                total += one
            off.append(float(np.abs(total / times - array).max()))
        assert kept is not None
        assert len(kept) == array.size
        with pytest.raises(errors.ArgumentError, match="1280 elements, and this one has 32"):
            worker.allreduce(array[:32].copy(), wire="mxint8", feedback=kept)
        with pytest.raises(ValueError, match="say wire"):
            worker.allreduce(array.copy(), feedback=kept)
        return off

    for without, fed in ranks(act):
        assert without > 0.002
        # One rounding of an element beside 1.0, spread over all calls, and what the appliance rounds.
        assert fed < without / 8
