"""Several streams of operations on one job, at a real appliance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import pascaline
from conftest import RANKS, together
from pascaline import errors

SUM = RANKS * (RANKS + 1) // 2
# Behind those that groups of PyTorch are given.
FIRST = 1050

Act = Callable[[pascaline.Streams], Any]


def _on_every_rank(appliance: pascaline.Appliance, act: Act, job: int = FIRST, streams: int = 2) -> list[Any]:
    """Calls a function with the streams of each rank; returns the outcomes in the order of ranks."""

    def one(rank: int) -> Any:
        with pascaline.Streams(appliance.address, job, rank, RANKS, streams, timeout=10) as joined:
            return act(joined)

    return together(one)


def test_an_urgent_operation_overtakes_one_that_waits(appliance: pascaline.Appliance) -> None:
    """The last rank comes to the large one only after all have the small one's sum."""
    overtaken = threading.Barrier(RANKS)

    def act(streams: pascaline.Streams) -> None:
        bulk, urgent = streams
        large = np.full(200_000, bulk.rank + 1, np.float32)
        early = bulk.allreduce_async(large) if bulk.rank < RANKS - 1 else None
        small = np.full(10, urgent.rank + 1, np.float32)
        report = urgent.allreduce(small, layer=1, layers=48)
        assert (small == SUM).all()
        assert report.priority == 16 * 48
        assert early is None or not early.done()
        overtaken.wait()
        assert (early or bulk.allreduce_async(large)).wait().priority == 16
        assert (large == SUM).all()

    _on_every_rank(appliance, act)


def test_tensors_of_both_kinds_in_three_streams(appliance: pascaline.Appliance) -> None:
    """Each stream has every operation of a worker, and an order of its own."""

    def act(streams: pascaline.Streams) -> None:
        rank = streams[0].rank
        tensors = [torch.full((3000,), float(rank + number)) for number in range(4)]
        handles = [streams[0].allreduce_async(tensor) for tensor in tensors]
        array = np.full(9, rank + 1, np.int32)
        streams[1].reduce(array, root=1)
        assert (array == (SUM if rank == 1 else rank + 1)).all()
        whole = torch.full((5,), rank, dtype=torch.int64)
        streams[2].broadcast(whole, root=2)
        assert whole.tolist() == [2] * 5
        half = torch.ones(7, dtype=torch.bfloat16)
        streams[1].allreduce(half, "mean")
        assert half.tolist() == [1] * 7
        streams[2].barrier()
        for number, (tensor, handle) in enumerate(zip(tensors, handles, strict=True)):
            assert handle.wait().bytes == 12_000
            assert (tensor == RANKS * (RANKS - 1) // 2 + RANKS * number).all()

    _on_every_rank(appliance, act, streams=3)


def test_each_stream_may_have_a_thread_of_its_own(appliance: pascaline.Appliance) -> None:
    """Python waits in each of them without its lock."""

    def act(streams: pascaline.Streams) -> None:
        def one(worker: pascaline.Worker) -> None:
            for turn in range(10):
                array = np.full(5000, worker.rank + worker.job + turn, np.float64)
                worker.allreduce(array)
                assert (array == SUM + RANKS * (worker.job + turn - 1)).all()

        together(lambda stream: one(streams[stream]), len(streams))

    _on_every_rank(appliance, act)


def test_a_stream_has_the_jobs_behind_those_before_it(appliance: pascaline.Appliance) -> None:
    """With two trees each takes two numbers, and the appliance has summed for all four."""

    def act(rank: int) -> list[int]:
        both = f"{appliance.address};{appliance.address}"
        with pascaline.Streams(both, FIRST, rank, RANKS, timeout=10) as streams:
            assert [worker.job for worker in streams] == [FIRST, FIRST + 2]
            assert [worker.job for worker in streams[1:]] == [FIRST + 2]
            assert repr(streams).endswith(f"job={FIRST}, rank={rank}, ranks={RANKS}, streams=2)")
            arrays = [np.full(50_000, rank + 1, np.int32) for _ in streams]
            handles = [worker.allreduce_async(array) for worker, array in zip(streams, arrays, strict=True)]
            for array, handle in zip(arrays, handles, strict=True):
                handle.wait()
                assert (array == SUM).all()
            assert min(worker.statistics()["packets_sent"] for worker in streams) > 50
            jobs = range(FIRST, FIRST + 4)
            return [pascaline.explain(job, appliance.admin)["bytes"]["aggregated"] for job in jobs]

    for found in together(act):
        assert min(found) > 0


def test_leaving_completes_what_was_started(appliance: pascaline.Appliance) -> None:
    """In all streams at once, whatever the order in which ranks have started; and twice is as once."""
    arrays = [[np.full(20_000, rank + 1, np.float32) for _ in range(2)] for rank in range(RANKS)]

    def act(rank: int) -> float:
        streams = pascaline.Streams(appliance.address, FIRST, rank, RANKS, timeout=10, linger=20)
        for turn in (rank % 2, 1 - rank % 2):
            streams[turn].allreduce_async(arrays[rank][turn])
        begun = time.monotonic()
        streams.leave()
        streams.leave()
        with pytest.raises(errors.ClosedError):
            streams[1].barrier()
        return time.monotonic() - begun

    # No rank has lingered for those that would leave another stream first.
    assert max(together(act)) < 15
    assert all((array == SUM).all() for of_rank in arrays for array in of_rank)


def test_streams_that_cannot_be(appliance: pascaline.Appliance) -> None:
    """How many there are, and their jobs; if one cannot join, none does."""
    for streams in (0, 65):
        with pytest.raises(errors.ConfigurationError, match=f"{streams} streams of job 1"):
            pascaline.Streams(appliance.address, 1, 0, RANKS, streams)
    with pytest.raises(errors.ConfigurationError, match="2 streams of job 65535"):
        pascaline.Streams(appliance.address, 65535, 0, RANKS)

    def act(rank: int) -> str:
        # There is no job 1064.
        with pytest.raises(errors.RefusedError, match="no job 1064") as told:
            pascaline.Streams(appliance.address, 1063, rank, RANKS, timeout=5, linger=0.1)
        return str(told.value)

    assert len(together(act)) == RANKS
