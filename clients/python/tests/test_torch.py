"""The backend of torch.distributed, a group for each thread: what it sums, and what it leaves to Gloo."""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

import pascaline
from conftest import RANKS, Groups, options, together
from pascaline import errors
from pascaline.torch import Group, Settings, _group, _ring

SUM = RANKS * (RANKS + 1) // 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_allreduce_sum_min_max_avg(groups: Groups, dtype: torch.dtype) -> None:
    """Of each type that travels: through the appliance, in place."""

    def act(group: Group) -> None:
        ops: dict[Any, float] = {dist.ReduceOp.SUM: SUM, dist.ReduceOp.MIN: 1, dist.ReduceOp.MAX: RANKS}
        if dtype.is_floating_point:
            ops[dist.ReduceOp.AVG] = SUM / RANKS
        for op, expected in ops.items():
            tensor = torch.full((7, 300), group.rank() + 1, dtype=dtype)
            group.allreduce([tensor], options(op=op)).wait()
            assert (tensor == expected).all(), (op, tensor)
        assert group.calls == {"appliance": len(ops), "gloo": 0}

    groups(act)


@pytest.mark.parametrize(
    ("dtype", "op", "expected"),
    [
        (torch.int64, dist.ReduceOp.SUM, SUM),
        (torch.float32, dist.ReduceOp.PRODUCT, 6),
        (torch.uint8, dist.ReduceOp.MAX, RANKS),
    ],
)
def test_other_types_and_operations_are_gloos(groups: Groups, dtype: Any, op: Any, expected: int) -> None:
    """And right."""

    def act(group: Group) -> None:
        tensor = torch.full((5,), group.rank() + 1, dtype=dtype)
        group.allreduce([tensor], options(op=op)).wait()
        assert (tensor == expected).all()
        assert group.calls == {"appliance": 0, "gloo": 1}

    groups(act)


def test_a_mean_of_what_the_appliance_does_not_sum_is_gloos(groups: Groups) -> None:
    """Divided after it: Gloo has sums alone."""

    def act(group: Group) -> None:
        tensor = torch.full((5,), 1j * (group.rank() + 1))
        group.mean_of_bucket(tensor, layer=1, layers=1, wire="bfloat16", feedback=None).wait()
        assert (tensor == 1j * SUM / RANKS).all()
        assert group.calls == {"appliance": 0, "gloo": 1}

    groups(act)


def test_broadcast_reduce_barrier(groups: Groups) -> None:
    """Any type is broadcast; a reduction is the root's alone."""

    def act(group: Group) -> None:
        rank = group.rank()
        for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
            tensor = torch.full((11,), rank == 1, dtype=dtype)
            group.broadcast([tensor], options("Broadcast", root=1)).wait()
            assert (tensor == torch.ones(11, dtype=dtype)).all(), dtype
        tensor = torch.full((9,), rank + 1.0)
        group.reduce([tensor], options("Reduce", root=2)).wait()
        assert (tensor == (SUM if rank == 2 else rank + 1)).all()
        group.barrier(c10d.BarrierOptions()).wait()
        assert group.calls == {"appliance": 6, "gloo": 0}

    groups(act)


def test_all_gather_and_reduce_scatter(groups: Groups) -> None:
    """Into one tensor and into lists; of a type of one byte too."""

    def act(group: Group) -> None:
        rank = group.rank()
        for dtype in (torch.float32, torch.int64, torch.uint8):
            own, whole = torch.full((3,), rank + 1, dtype=dtype), torch.zeros(3 * RANKS, dtype=dtype)
            group.all_gather_single(whole, own, options("Allgather")).wait()
            assert whole.tolist() == [1] * 3 + [2] * 3 + [3] * 3
            parts = [torch.zeros(3, dtype=dtype) for _ in range(RANKS)]
            group.allgather([parts], [own], options("Allgather")).wait()
            assert torch.cat(parts).tolist() == whole.tolist()
        whole, own = torch.arange(6.0) + rank, torch.zeros(2)
        group.reduce_scatter_single(own, whole, options("ReduceScatter")).wait()
        assert own.tolist() == [(2 * rank + at) * RANKS + SUM - RANKS for at in (0, 1)]
        lists = [torch.full((at + 1,), rank + 1.0) for at in range(RANKS)]
        own = torch.zeros(rank + 1)
        group.reduce_scatter([own], [lists], options("ReduceScatter", dist.ReduceOp.AVG)).wait()
        assert own.tolist() == [SUM / RANKS] * (rank + 1)
        assert group.calls["gloo"] == 0

    groups(act)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int16, torch.complex64])
def test_a_long_all_gather_goes_round(groups: Groups, dtype: torch.dtype) -> None:
    """In Gloo's ring, whatever its type; the sums around it wait for nothing of it."""
    elements = 2 * _ring.STEP

    def act(group: Group) -> None:
        rank = group.rank()
        own = (torch.arange(elements) % (rank + 2)).to(dtype)
        whole = torch.zeros(RANKS * elements, dtype=dtype)
        work = group.all_gather_single(whole, own, options("Allgather"))
        total = torch.full((5,), rank + 1.0)
        group.allreduce([total], options()).wait()
        assert (total == SUM).all()
        work.wait()
        for at, part in enumerate(whole.view(RANKS, -1)):
            assert torch.equal(part, (torch.arange(elements) % (at + 2)).to(dtype))
        parts = [torch.zeros(elements, dtype=dtype) for _ in range(RANKS)]
        group.allgather([parts], [own], options("Allgather")).get_future().wait()
        assert torch.equal(torch.cat(parts), whole)
        assert group.calls == {"appliance": 1, "gloo": 2}
        # Strided results are copied back in place, whatever the other ranks' tensors are like.
        pieces = [torch.zeros(elements, 1 + rank, dtype=dtype)[:, 0] for _ in range(RANKS)]
        group.allgather([pieces], [own], options("Allgather")).wait()
        assert torch.equal(torch.cat(pieces), whole)
        assert group.calls == {"appliance": 1, "gloo": 3}

    groups(act)


def test_gathers_of_which_one_is_short_are_an_exception(groups: Groups) -> None:
    """One rank's is for the appliance, the others' for the ring: none hangs past the time."""

    def act(group: Group) -> float:
        begun = time.monotonic()
        short = group.rank() == 0
        own = torch.ones(10 if short else 2 * _ring.STEP)
        parts = [torch.zeros_like(own) for _ in range(RANKS)]
        how = options("Allgather")
        how.timeout = timedelta(seconds=3)
        with pytest.raises(errors.PascalineError if short else RuntimeError):
            group.allgather([parts], [own], how).wait()
        return time.monotonic() - begun

    # A rank in the ring looks for dead ones in the time that is left.
    assert max(groups(act)) < 8


def test_the_first_layers_overtake_in_a_stream_of_their_own() -> None:
    """While a long sum of one rank alone waits for the others, theirs is there."""
    with pascaline.Appliance(2, (1, 2)) as own:
        met, store = threading.Barrier(2), dist.HashStore()

        def one(rank: int) -> None:
            place = SimpleNamespace(store=store, group_rank=rank, group_size=2, timeout=timedelta(seconds=20))
            group = Group(place, Settings(own.address, streams=2, worker={"timeout": 10.0}), 1)
            long = None
            if rank == 0:
                long = group.mean_of_bucket(torch.full((100_000,), 1.0), layer=2, layers=2)
            first = torch.full((10,), float(rank))
            group.mean_of_bucket(first, layer=1, layers=2).wait()
            assert (first == 0.5).all()
            assert long is None or not long.is_completed()
            met.wait(20)
            if rank == 1:
                long = group.mean_of_bucket(torch.full((100_000,), 3.0), layer=2, layers=2)
            assert long is not None
            long.wait()
            assert (long.result()[0] == 2).all()
            group.shutdown()

        together(one, 2)


def test_point_to_point_and_all_to_all_are_gloos(groups: Groups) -> None:
    """In the same group, at any time."""

    def act(group: Group) -> None:
        rank, tensor = group.rank(), torch.zeros(4)
        if rank == 0:
            group.send([torch.ones(4)], 1, 7).wait()
        elif rank == 1:
            group.recv([tensor], 0, 7).wait()
            assert (tensor == 1).all()
        into = torch.zeros(RANKS)
        group.all_to_all_single(
            into, torch.full((RANKS,), float(rank)), [], [], c10d.AllToAllOptions()
        ).wait()
        assert into.tolist() == [0, 1, 2]

    groups(act)


def test_pieces_empty_scalar_and_nan(groups: Groups) -> None:
    """A transposed tensor, none, one number, and what is no number."""

    def act(group: Group) -> None:
        base = torch.full((4, 6), float(group.rank()))
        group.allreduce([base.t()], options()).wait()
        assert (base == RANKS).all()
        group.allreduce([torch.empty(0)], options()).wait()
        scalar = torch.tensor(2.0)
        group.allreduce([scalar], options()).wait()
        assert scalar == 2 * RANKS
        tensor = torch.tensor([1.0, float("nan") if group.rank() else 1.0])
        group.allreduce([tensor], options()).wait()
        assert tensor[0] == RANKS
        assert tensor[1].isnan()

    groups(act)


def test_one_element_of_a_row_is_in_one_piece(groups: Groups) -> None:
    """Whatever its stride."""

    def act(group: Group) -> None:
        rank = group.rank()
        base = torch.full((4, 4), rank + 1.0)
        group.allreduce([base[:1, 0]], options()).wait()
        assert base[0].tolist() == [SUM, *[rank + 1] * 3]
        own, parts = torch.full((2, 3), float(rank))[:1, 1], [torch.zeros(2, 2)[1:, 0] for _ in range(RANKS)]
        group.allgather([parts], [own], options("Allgather")).wait()
        assert torch.cat(parts).tolist() == list(range(RANKS))
        pieces = [torch.full((3, 2), rank + 1.0)[:1, 0] for _ in range(RANKS)]
        total = torch.zeros(2, 2)[:1, 1]
        group.reduce_scatter([total], [pieces], options("ReduceScatter")).wait()
        assert total.tolist() == [SUM]

    groups(act)


def test_a_gather_into_too_few_is_gloos_to_refuse(groups: Groups) -> None:
    """With its text, before anything is sent: the next call works."""

    def act(group: Group) -> None:
        for count in (RANKS - 1, RANKS + 1):
            parts = [torch.zeros(3) for _ in range(count)]
            with pytest.raises(RuntimeError, match="expected length 3"):
                group.allgather([parts], [torch.ones(3)], options("Allgather")).wait()
        parts = [torch.zeros(3) for _ in range(RANKS)]
        group.allgather([parts], [torch.ones(3)], options("Allgather")).wait()
        assert torch.cat(parts).tolist() == [1] * 3 * RANKS

    groups(act)


def test_integers_wrap_as_with_gloo(groups: Groups) -> None:
    """The appliance adds them as unsigned ones, which wrap; minima are those of signed ones."""

    def act(group: Group) -> None:
        total = 3 * 2**30 - 2**32
        for dtype in (torch.int32, torch.uint32):
            tensor = torch.tensor([2**30, 5], dtype=dtype)
            group.allreduce([tensor], options()).wait()
            assert tensor.view(torch.int32).tolist() == [total, 15]
        tensor = torch.tensor([2**30, 5], dtype=torch.int32)
        group.reduce([tensor], options("Reduce", root=1)).wait()
        assert tensor.tolist() == ([total, 15] if group.rank() == 1 else [2**30, 5])
        output = torch.zeros(1, dtype=torch.int32)
        whole = torch.full((RANKS,), 2**30, dtype=torch.int32)
        group.reduce_scatter_single(output, whole, options("ReduceScatter")).wait()
        assert output.tolist() == [total]
        tensor = torch.tensor([-1 if group.rank() else 1], dtype=torch.int32)
        group.allreduce([tensor], options(op=dist.ReduceOp.MIN)).wait()
        assert tensor.tolist() == [-1]
        assert group.calls["gloo"] == 0

    groups(act)


def test_futures_end_in_order(groups: Groups) -> None:
    """Of several in flight; a callback gets the tensors."""

    def act(group: Group) -> None:
        tensors = [torch.full((1000,), float(number)) for number in range(5)]
        works = [group.allreduce([tensor], options()) for tensor in tensors]
        sums = [work.get_future().then(lambda done: float(done.value()[0].sum())) for work in works]
        assert [future.wait() for future in sums] == [1000.0 * RANKS * number for number in range(5)]
        assert all(work.is_success() for work in works)

    groups(act)


def test_shapes_that_differ_are_an_exception(groups: Groups) -> None:
    """At every rank, within the time."""

    def act(group: Group) -> str:
        try:
            group.allreduce([torch.zeros(300 if group.rank() else 600)], options()).wait()
        except errors.PascalineError as error:
            return type(error).__name__
        return "none"

    found = groups(act, worker={"timeout": 2.0})
    assert set(found) <= {"MismatchError", "DeadlineError", "RanksLostError"}, found


def test_an_appliance_that_is_killed_is_named_within_the_time(groups: Groups) -> None:
    """By an exception at every rank, from wait() and from the future."""
    with pascaline.Appliance(2) as other:
        met = threading.Barrier(2, action=other.kill)

        def act(group: Group) -> str:
            group.allreduce([torch.ones(1000)], options()).wait()
            met.wait()
            begun = time.monotonic()
            work = group.allreduce([torch.ones(1000)], options())
            future = work.get_future()
            with pytest.raises(errors.PascalineError) as told:
                work.wait()
            assert time.monotonic() - begun < 5
            with pytest.raises(Exception, match=r"10\.77\."):
                future.wait()
            return str(told.value)

        for text in groups(act, 2, other, worker={"timeout": 2.0}):
            assert other.address in text


def test_an_appliance_that_is_killed_falls_back_to_gloo(groups: Groups) -> None:
    """If so configured: one warning, and the sums go on, the same bits at every rank."""
    counter = itertools.count()
    with pascaline.Appliance(2) as other:

        def kill() -> None:
            threading.Timer(0.05, other.kill).start()

        met = threading.Barrier(2, action=kill)

        def act(group: Group) -> list[float]:
            found = []
            met.wait()
            for turn in range(200):
                tensor = torch.full((5000,), 0.1 * (group.rank() + 1) + turn)
                group.allreduce([tensor], options()).wait()
                found.append(float(tensor.double().sum()))
                next(counter)
            assert group.worker is None
            assert group.calls["gloo"] > 0
            assert sum(group.calls.values()) == 200
            return found

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            first, second = groups(act, 2, other, fallback=True, worker={"timeout": 1.0})
        assert first == second
        for turn, total in enumerate(first):
            assert total == pytest.approx(5000 * (0.3 + 2 * turn), rel=1e-6)
        texts = [str(warning.message) for warning in told if "over Gloo" in str(warning.message)]
        assert len(texts) == 1
        assert other.address in texts[0]


def test_an_appliance_that_is_not_there_is_told_soon(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long before the group's own timeout, unless a time to join is given."""
    monkeypatch.setattr(_group, "_JOIN", 0.5)
    nowhere = SimpleNamespace(address="127.0.0.1:9")
    begun = time.monotonic()
    with pytest.raises(errors.UnreachableError, match=r"127\.0\.0\.1:9"):
        groups(lambda _: None, 2, nowhere, worker={"timeout": 20.0})
    assert time.monotonic() - begun < 5
    with pytest.raises(errors.UnreachableError):
        groups(lambda _: None, 2, nowhere, worker={"join_timeout": 2.0})
    assert time.monotonic() - begun > 2


def test_a_rank_that_dies_is_named(appliance: pascaline.Appliance, job: int) -> None:
    """By the others' errors; `explain` names a straggler while they wait."""
    told = []

    def act(rank: int) -> tuple[int, ...]:
        worker = pascaline.Worker(appliance.address, job, rank, RANKS, timeout=2.5, linger=0.1)
        if rank == 1:
            time.sleep(1.5)
            told.append(str(appliance.explain(job)))
            time.sleep(1.5)
            worker.leave()
            return (1,)
        with pytest.raises(errors.PascalineError) as error:
            worker.allreduce(torch.zeros(100))
        worker.leave()
        return error.value.ranks

    assert together(act) == [(1,), (1,), (1,)]
    assert "rank 1" in told[0]
