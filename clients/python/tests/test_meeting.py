"""Processes that find each other in a store in which others have met before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from conftest import RANKS, together
from pascaline import errors
from pascaline.torch._meeting import meet


def _met(store: Any, rank: int, ranks: int = RANKS, seconds: float = 20) -> Any:
    return meet(store, rank, ranks, timedelta(seconds=seconds))


def test_each_generation_has_a_part_of_the_store_to_itself() -> None:
    """What one has written the next one does not see, and all of one see the same."""
    store = dist.HashStore()
    for generation in ("first", "second", "third"):
        parts = together(lambda rank: _met(store, rank))
        assert not any(part.check(["is"]) for part in parts)
        parts[1].set("is", generation)
        assert [part.get("is").decode() for part in parts] == [generation] * RANKS


@pytest.mark.parametrize("late", range(RANKS))
def test_nobody_waits_for_a_forerunner(late: int) -> None:
    """Two of three have come and given up; the three that come then meet, whichever is last."""
    store = dist.HashStore()

    def gives_up(rank: int) -> tuple[int, ...]:
        if rank == late:
            return ()
        with pytest.raises(errors.IncompleteError) as told:
            _met(store, rank, seconds=0.2)
        return told.value.ranks

    # Rank 0 knows who has not come.
    assert together(gives_up) == [(late,) if late else (), (), ()]
    parts = together(lambda rank: _met(store, rank))
    parts[late].set("is", "new")
    assert [part.get("is").decode() for part in parts] == ["new"] * RANKS
