"""Groups for whose jobs the appliance has no room: Gloo, with one warning for all of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from pascaline import Worker, errors
from pascaline.torch import Settings, _recovery

REFUSED = errors.RefusedError("this host has formed 4 jobs, 4 at a time are allowed")


class _Group:
    """Gloo's, of this rank alone, and of one that could not join if `other` is 0."""

    def __init__(self, other: int = 1) -> None:
        self._other = other

    def allreduce(self, tensors: list[Any], _: Any) -> Any:
        tensors[0].clamp_(max=self._other)
        return SimpleNamespace(wait=lambda: None)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_recovery, "_BETWEEN", 0.0)
    monkeypatch.setattr(_recovery, "_NO_ROOM", [])


def _recovery_of(store: Any, rank: int = 0, *, fallback: bool = False) -> _recovery.Recovery:
    settings = Settings("10.0.0.1:1", fallback=fallback)
    return _recovery.Recovery(settings, store, rank, 2, timedelta(seconds=5), None)


def _raising(*failures: errors.PascalineError) -> tuple[Callable[[], Worker], list[errors.PascalineError]]:
    """A Join that fails so, in turn."""
    left = list(failures)

    def join() -> Worker:
        raise left.pop(0)

    return join, left


def test_many_groups_without_room_warn_once() -> None:
    """In a mesh a process may be rank 0 of several groups."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for number in range(6):
            refused = errors.RefusedError(f"job {1000 + number}: {REFUSED}")
            join, _ = _raising(*[refused] * _recovery._TRIES)
            assert _recovery_of(dist.HashStore()).joined(join, _Group(), spare=True) is None
    [warning] = told
    assert "no room for a further group of processes, which goes over Gloo: job 1000" in str(warning.message)


def test_the_host_of_another_rank_may_form_the_job() -> None:
    """Then a rank whose own host may not is a member of it."""
    worker: Any = SimpleNamespace()
    left: list[Any] = [REFUSED, worker]

    def join() -> Any:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    assert _recovery_of(dist.HashStore()).joined(join, _Group(), spare=True) is worker


def test_a_rank_that_waited_for_a_refused_one_goes_over_gloo_with_it() -> None:
    """The appliance does not say so to it: the others' ranks never came."""
    store = dist.HashStore()
    late = errors.IncompleteError("rank 0 has not joined", [0])
    with pytest.raises(errors.IncompleteError):
        _recovery_of(store, 1).joined(_raising(late)[0], _Group(), spare=True)
    refused, left = _raising(*[REFUSED] * _recovery._TRIES)
    with pytest.warns(RuntimeWarning, match="has formed 4 jobs"):
        assert _recovery_of(store).joined(refused, _Group(), spare=True) is None
    assert not left
    assert _recovery_of(store, 1).joined(_raising(late)[0], _Group(), spare=True) is None


def test_a_worker_that_has_joined_leaves_if_another_has_not() -> None:
    """All ranks of a group go the same way."""
    left: list[str] = []
    worker: Any = SimpleNamespace(leave=lambda: left.append("left"))
    assert _recovery_of(dist.HashStore(), 1).joined(lambda: worker, _Group(0), spare=True) is None
    assert left == ["left"]


def test_the_worlds_group_is_refused_with_the_reason() -> None:
    """It is no further one."""
    with pytest.raises(errors.RefusedError, match="has formed 4 jobs"):
        _recovery_of(dist.HashStore()).joined(_raising(REFUSED)[0], _Group(), spare=False)
