"""Sums of the library for C that no host on the way can read or change."""

from __future__ import annotations

import array
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bed import arithmetic
from tests.bed.library import DType, allreduce
from tests.bed.summing import SETTINGS, Bed
from tests.runner.shell import Shell

pytestmark = [pytest.mark.root, pytest.mark.all]
_RANKS = 3
_ELEMENTS = 20_011
_UNEVEN = arithmetic.uneven(_RANKS, _ELEMENTS, seed=7)


@pytest.fixture
def key(shell: Shell, pascaline: Path, tmp_path: Path) -> Path:
    """The file of a new job's key."""
    file = tmp_path / "job.key"
    shell(pascaline, "job", "key", "--new", file)
    return file


@pytest.mark.parametrize("security", ["mac", "encrypt"])
def test_sealed(bed: Bed, key: Path, security: str) -> None:
    """The bits are those of an open job."""
    star = bed.star(_RANKS)
    bed.appliance(star, replace(SETTINGS, security=security, key_file=str(key)))
    ranks = bed.ranks(star, security=security, key=key)
    assert allreduce(ranks, _UNEVEN) == arithmetic.f32(_UNEVEN)


def test_masked(bed: Bed, key: Path) -> None:
    """Integers are exact, and an operation in several calls is what it is in one."""
    star = bed.star(_RANKS)
    bed.appliance(star)
    ranks = bed.ranks(star, security="masked", key=key)
    inputs = [array.array("i", range(-rank, _ELEMENTS - rank)).tobytes() for rank in range(_RANKS)]
    whole = array.array("i", (_RANKS * at - 3 for at in range(_ELEMENTS))).tobytes()
    assert allreduce(ranks, inputs, DType.I32) == whole
    assert allreduce(ranks, inputs, DType.I32, pieces=3) == whole
