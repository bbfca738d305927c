"""docs/reproducible.md in trees: what their shape changes, and what it does not.

Appliances over two levels, over DPDK ports. Expected bits are computed here, level by level.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest

from tests.bed import arithmetic
from tests.bed.library import DType, Op, allreduce
from tests.bed.summing import Bed

pytestmark = [pytest.mark.root, pytest.mark.all]
_ELEMENTS = 8_009
# Two racks of one, and one of three: with two of anything, there would be one order only.
_RACKS = (1, 1, 3)
_OF_FIVE = arithmetic.uneven(sum(_RACKS), _ELEMENTS, seed=3)
_RANKS = 4
_INPUTS = _OF_FIVE[:_RANKS]
# Seconds by which ranks are late: the racks' sums, and what is in them, come in other orders.
_FIVE_COME = [0, 0, 0, 0, 0], [0.75, 0, 0.5, 0.25, 0], [0.25, 0.75, 0, 0.5, 0.25]
_COME = [0, 0, 0, 0], [0.5, 0.25, 0, 0.75], [0.75, 0.5, 0.25, 0]


def _by_level(add: Callable[[Sequence[bytes]], bytes], inputs: Sequence[bytes]) -> bytes:
    return add([add(inputs[0:1]), add(inputs[1:2]), add(inputs[2:5])])


def test_levels(bed: Bed) -> None:
    """Each leaf adds its ranks, the root adds the leaves, all in the order of ranks."""
    ranks = bed.ranks(bed.tree(*_RACKS))
    expected = _by_level(arithmetic.f32, _OF_FIVE)
    assert expected != arithmetic.f32(_OF_FIVE)
    for late in _FIVE_COME:
        assert allreduce(ranks, _OF_FIVE, late=late) == expected


def test_levels_of_bf16(bed: Bed) -> None:
    """Sums are rounded at each level."""
    ranks = bed.ranks(bed.tree(*_RACKS))
    inputs = [arithmetic.narrowed(values) for values in _OF_FIVE]
    expected = _by_level(arithmetic.bf16, inputs)
    assert expected != arithmetic.bf16(inputs)
    for late in _FIVE_COME:
        assert allreduce(ranks, inputs, DType.BF16, late=late) == expected


def test_first_rank_alone_is_a_leaf(bed: Bed) -> None:
    """The lower appliance has the lowest ranks: then a tree adds as one appliance does."""
    ranks = bed.ranks(bed.tree(2, direct=2))
    for late in _COME:
        assert allreduce(ranks, _INPUTS, late=late) == arithmetic.f32(_INPUTS)


@pytest.mark.parametrize("racks", [(4,), (2, 2), (1, 3), (3, 1)])
def test_fixed_point(bed: Bed, racks: tuple[int, ...]) -> None:
    """Sums of integers are the same in every tree: here the largest magnitude decides their unit."""
    ranks = bed.ranks(bed.tree(*racks))
    largest = allreduce(ranks, [arithmetic.largest_magnitude(values) for values in _INPUTS], op=Op.MAX)
    assert largest == max((arithmetic.largest_magnitude(values) for values in _INPUTS), key=_number)
    k = arithmetic.exponent(_number(largest), _RANKS)
    inputs = [arithmetic.fixed(values, k) for values in _INPUTS]
    for late in _COME:
        assert allreduce(ranks, inputs, DType.I32, late=late) == arithmetic.i32(inputs)
    assert [rank.report().overflows for rank in ranks] == [0] * _RANKS


def _number(value: bytes) -> float:
    number: float = struct.unpack("<f", value)[0]
    return number
