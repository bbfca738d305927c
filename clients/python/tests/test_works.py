"""What asynchronous calls of torch.distributed return: whether it has ended, and how."""

from __future__ import annotations

import gc
import time
import warnings
import weakref
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from conftest import RANKS, Groups, options, together
from pascaline import errors
from pascaline.torch import Group, Settings, _ring
from pascaline.torch._recovery import Recovery

SUM = RANKS * (RANKS + 1) // 2


def _whole(group: Any, store: Any, kind: Any = dist.ProcessGroup) -> Any:
    """A process group as torch.distributed makes it, with one backend."""
    whole = kind(store, group.rank(), group.size())
    custom = dist.ProcessGroup.BackendType.CUSTOM
    whole._set_default_backend(custom)
    whole._register_backend(torch.device("cpu"), custom, group)
    return whole


def _ends(work: Any) -> bool:
    """Whether it says so without a wait."""
    end = time.monotonic() + 10
    while not work.is_completed() and time.monotonic() < end:
        time.sleep(0.001)
    return bool(work.is_completed())


def test_works_say_when_they_have_ended(groups: Groups) -> None:
    """Of the appliance's operations and of Gloo's, before wait() and after it, well or not."""
    store = dist.HashStore()

    def act(group: Group) -> None:
        whole, rank = _whole(group, store), group.rank()
        tensor = torch.full((5,), rank + 1.0)
        work = whole.allreduce([tensor], options())
        assert _ends(work)
        # The sum is there before any wait.
        assert tensor.tolist() == [SUM] * 5
        assert (work.wait(), work.is_success(), work.exception()) == (True, True, None)
        output = torch.zeros(RANKS)
        assert _ends(whole.all_gather_single(output, tensor[:1] * 0 + rank, options("Allgather")))
        assert output.tolist() == [0, 1, 2]
        integers = torch.full((3,), rank + 1)
        assert _ends(whole.allreduce([integers], options()))
        assert integers.tolist() == [SUM] * 3
        if rank == 0:
            works = [whole.send([tensor], to, 3) for to in (1, 2)]
        else:
            works = [whole.recv_anysource([tensor], 3)]
        assert all(work.wait() and work.is_completed() for work in works)
        assert rank == 0 or works[0]._source_rank() == 0
        assert group.calls == {"appliance": 2, "gloo": 2 + (rank == 0)}

    groups(act)


def test_a_work_that_has_ended_waits_for_none_that_follows(groups: Groups) -> None:
    """Not even where another thread waits for that one, and its end depends on what comes then."""
    store = dist.HashStore()

    def act(group: Group) -> None:
        whole, rank = _whole(group, store), group.rank()
        tensors = [torch.full((5,), rank + 1.0) for _ in range(2)]
        if rank:
            # Rank 0 has a future of the first one, and has asked for the end of the second one before.
            whole.recv([torch.zeros(1)], 0, 2).wait()
            whole.allreduce(tensors[:1], options()).wait()
            # Rank 0 has seen that the first one has ended.
            whole.recv([torch.zeros(1)], 0, 3).wait()
            whole.allreduce(tensors[1:], options()).wait()
            return
        first, second = [whole.allreduce([tensor], options()) for tensor in tensors]
        assert not second.is_completed()
        early = first.get_future()
        for to in range(1, RANKS):
            whole.send([torch.ones(1)], to, 2).wait()
        assert early.wait()[0].tolist() == [SUM] * 5
        first.wait()
        assert first.get_future().wait()[0].tolist() == [SUM] * 5
        assert not second.is_completed()
        with pytest.raises(RuntimeError, match="timed out"):
            second.wait(timedelta(milliseconds=50))
        for to in range(1, RANKS):
            whole.send([torch.ones(1)], to, 3).wait()
        second.wait(timedelta(seconds=10))
        assert tensors[1].tolist() == [SUM] * 5

    groups(act)


def test_a_work_that_fails_has_ended(groups: Groups) -> None:
    """And says what went wrong, without a wait."""
    store = dist.HashStore()

    def act(group: Group) -> Any:
        work = _whole(group, store).allreduce([torch.zeros(300 if group.rank() else 600)], options())
        assert _ends(work)
        assert not work.is_success()
        return work.exception()

    assert all(isinstance(error, errors.PascalineError) for error in groups(act, worker={"timeout": 2.0}))


@pytest.mark.parametrize("kind", [dist.ProcessGroup, type("Inherits", (dist.ProcessGroup,), {})])
def test_groups_of_other_backends_are_as_ever(kind: Any) -> None:
    """Also where a class of Python's inherits the calls."""
    store = dist.HashStore()

    def act(rank: int) -> Any:
        own = dist.PrefixStore("gloo", store)
        gloo = dist.ProcessGroupGloo(own, rank, 2, timeout=timedelta(seconds=20))
        whole = _whole(gloo, store, kind)
        tensor = torch.ones(3)
        work = whole.allreduce([tensor], options())
        assert work.wait()
        return tensor.tolist(), work.is_completed()

    assert together(act, 2) == [([2.0] * 3, True)] * 2


def test_a_work_that_has_ended_keeps_no_memory(groups: Groups) -> None:
    """Tensors without another reference are freed though the Work exists; those with one are returned."""

    def act(group: Group) -> None:
        kept, lost = torch.ones(1000), torch.ones(1000)
        works = [group.allreduce([tensor], options()) for tensor in (kept, lost)]
        futures = [work.get_future() for work in works]
        for work, future in zip(works, futures, strict=True):
            work.wait()
            assert future.wait()[0].tolist() == [RANKS] * 1000
        seen = weakref.ref(lost)
        del lost, future, futures
        gc.collect()
        assert works[1].result()[0].tolist() == [RANKS] * 1000
        for _ in range(8):
            group.allreduce([torch.ones(1)], options()).wait()
        gc.collect()
        assert seen() is None
        assert works[0].result()[0] is kept

    groups(act)


def test_what_inference_mode_has_made_is_written_to(groups: Groups) -> None:
    """By the thread that ends what has a future, which is in no such mode itself."""

    def act(group: Group) -> None:
        with torch.inference_mode():
            for elements in (3, 2 * _ring.STEP):
                own = torch.full((elements,), group.rank())
                parts = [torch.zeros(elements, 2, dtype=own.dtype)[:, 0] for _ in range(RANKS)]
                group.allgather([parts], [own], options("Allgather")).get_future().wait()
                assert torch.cat(parts).tolist() == [rank for rank in range(RANKS) for _ in range(elements)]
                total = torch.ones(elements, 2)[:, 0]
                group.allreduce([total], options()).get_future().wait()
                assert (total == RANKS).all()

    groups(act)


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_that_are_ahead_help_only_with_what_all_have(shared: bool) -> None:
    """Rank 0 has ended operation 1 when the appliance goes, rank 1 has not."""
    store, heard = dist.HashStore(), []

    class Second:
        def broadcast(self, tensors: list[Any], _: Any) -> Any:
            heard.append(tensors[0].clone())
            return self

        def wait(self) -> None:
            pass

    class Handle:
        def __init__(self, error: Exception | None = None) -> None:
            self.error = error

        def wait(self) -> Any:
            if self.error:
                raise self.error
            return SimpleNamespace(overflows=0)

    def act(rank: int) -> str:
        recovery = Recovery(Settings("127.0.0.1", fallback=True), store, rank, 2, timedelta(seconds=10), None)
        recovery._second = Second  # type: ignore[method-assign]
        gone = errors.UnreachableError("it is gone", [])
        data = torch.full((2,), 1.0 + rank)
        ends: list[Any] = [Handle(), Handle(gone)] if rank == 0 else [Handle(gone)]
        try:
            for end in ends:
                number = recovery.next_number()
                recovery.complete(number, end, data, data.clone(), lambda _: None, shared=shared)
        except errors.UnreachableError:
            return "raised"
        return "over" if recovery.over else "not over"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert together(act, 2) == ["over" if shared else "raised"] * 2
    assert len(heard) == (2 if shared else 0)
