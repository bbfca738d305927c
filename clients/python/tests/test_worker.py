"""A rank as a Python object, at a real appliance."""

from __future__ import annotations

import functools
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pascaline
from conftest import RANKS, together
from pascaline import errors

Ranks = Callable[[Callable[[Any], Any]], list[Any]]
SUM = RANKS * (RANKS + 1) // 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "float16"])
def test_allreduce_of_every_type_sums_in_place(ranks: Ranks, dtype: str) -> None:
    """In the same memory, for each type of NumPy that travels."""

    def act(worker: pascaline.Worker) -> tuple[np.ndarray, bool]:
        array = np.full((50, 41), worker.rank + 1, dtype)
        place = array.ctypes.data
        report = worker.allreduce(array)
        assert report.bytes == array.nbytes
        return array, array.ctypes.data == place

    for array, same in ranks(act):
        assert same
        assert (array == SUM).all()


def test_operations_min_max_mean(ranks: Ranks) -> None:
    """Each operation has its own result."""

    def act(worker: pascaline.Worker) -> list[float]:
        found = []
        for op in ("min", "max", "mean"):
            array = np.array([float(worker.rank), -float(worker.rank)], np.float32)
            worker.allreduce(array, op)
            found += array.tolist()
        return found

    assert ranks(act) == [[0, -2, 2, 0, 1, -1]] * RANKS


def test_two_trees_of_one_appliance(appliance: pascaline.Appliance) -> None:
    """Each of two jobs carries a half, and the sums are those of one."""

    def act(rank: int) -> list[int]:
        both = f"{appliance.address};{appliance.address}"
        with pascaline.Worker(both, 1040, rank, RANKS, timeout=10) as worker:
            array = np.arange(100_001, dtype=np.int32) * (rank + 1)
            worker.allreduce(array)
            assert (array == np.arange(100_001, dtype=np.int32) * SUM).all()
            whole = np.full(30_000, rank, np.float64)
            worker.broadcast(whole, root=2)
            assert (whole == 2).all()
            worker.barrier()
            return [pascaline.explain(job, appliance.admin)["bytes"]["aggregated"] for job in (1040, 1041)]

    for one, other in together(act):
        assert one > 0
        assert other > 0


def test_other_collectives(ranks: Ranks) -> None:
    """Reduce, broadcast of a type that is not summed, barrier, reduce_scatter, allgather with counts."""

    def act(worker: pascaline.Worker) -> None:
        array = np.full(9, worker.rank + 1, np.float64)
        worker.reduce(array, root=1)
        assert (array == (SUM if worker.rank == 1 else worker.rank + 1)).all()
        whole = np.arange(7, dtype=np.int64) if worker.rank == 2 else np.zeros(7, np.int64)
        worker.broadcast(whole, root=2)
        assert (whole == np.arange(7)).all()
        worker.barrier()
        array = np.full(10, worker.rank + 1, np.int32)
        worker.reduce_scatter(array)
        assert (array[worker.part(10)] == SUM).all()
        counts = [1, 0, 4]
        array = np.zeros(5, np.float32)
        array[worker.part(5, counts)] = worker.rank + 1
        worker.allgather(array, counts)
        assert array.tolist() == [1, 3, 3, 3, 3]

    ranks(act)


def test_several_under_way_complete_in_their_order(ranks: Ranks) -> None:
    """Handles end in the order of the calls, and Python goes on meanwhile."""

    def act(worker: pascaline.Worker) -> None:
        arrays = [np.full(20_000, worker.rank + number, np.float32) for number in range(4)]
        handles = [worker.allreduce_async(array) for array in arrays]
        handles[-1].wait()
        assert all(handle.done() for handle in handles)
        for number, (array, handle) in enumerate(zip(arrays, handles, strict=True)):
            assert handle.wait().bytes == array.nbytes
            assert (array == RANKS * (RANKS - 1) // 2 + RANKS * number).all()

    ranks(act)


def test_arrays_that_are_not_in_one_piece(ranks: Ranks) -> None:
    """A transposed one and every second element: the result is where it belongs, and nowhere else."""

    def act(worker: pascaline.Worker) -> None:
        base = np.zeros((6, 4), np.float32)
        base.T[:] = worker.rank
        worker.allreduce(base.T)
        assert (base == RANKS).all()
        row = np.full(10, worker.rank, np.int32)
        worker.allreduce(row[::2])
        assert (row[::2] == RANKS).all()
        assert (row[1::2] == worker.rank).all()

    ranks(act)


def test_empty_scalar_and_nan(ranks: Ranks) -> None:
    """An empty array is done at once, a scalar is an array of one, and NaN stays NaN."""

    def act(worker: pascaline.Worker) -> None:
        worker.allreduce(np.empty(0, np.float32))
        scalar = np.array(2.0)
        worker.allreduce(scalar)
        assert scalar == 2.0 * RANKS
        array = np.array([1.0, np.nan if worker.rank == 1 else 1.0, np.inf], np.float32)
        worker.allreduce(array)
        assert array[0] == RANKS
        assert np.isnan(array[1])
        assert np.isinf(array[2])

    ranks(act)


def test_integers_saturate_and_say_so(ranks: Ranks) -> None:
    """A sum that has no place is the largest there is, and the report counts it."""

    def act(worker: pascaline.Worker) -> tuple[int, int]:
        array = np.full(4, 2**30, np.int32)
        report = worker.allreduce(array)
        return int(array[0]), report.overflows

    assert ranks(act) == [(2**31 - 1, 1)] * RANKS


def test_unsigned_integers_wrap_and_have_no_mean(ranks: Ranks) -> None:
    """Which is no overflow; and numbers are compared as what they are."""

    def act(worker: pascaline.Worker) -> tuple[int, int, int]:
        array = np.full(4, 2**31, np.uint32)
        report = worker.allreduce(array)
        with pytest.raises(errors.ArgumentError, match="no mean"):
            worker.allreduce(array, "mean")
        most = np.full(4, 2**31 if worker.rank else 1, np.uint32)
        worker.allreduce(most, "max")
        return int(array[0]), report.overflows, int(most[0])

    assert ranks(act) == [(2**31, 0, 2**31)] * RANKS


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros(3, np.complex64), "complex64"),
        (np.zeros(3, np.int64), "int64"),
        (np.broadcast_to(np.zeros(1, np.float32), 3), "cannot be written to"),
        (np.zeros(3, ">f4"), "byte order"),
        ([1.0, 2.0], "list"),
    ],
)
def test_what_cannot_be_summed_is_told_at_once(array: Any, says: str) -> None:
    """Before anything is sent, with a text that says what to pass."""
    with pytest.raises(errors.ArgumentError, match=says):
        pascaline._arrays.lend(array)


def test_sizes_that_differ_are_a_mismatch_or_a_deadline(appliance: pascaline.Appliance, job: int) -> None:
    """Never a hang, and never a wrong sum."""

    def act(rank: int) -> str:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=2) as worker:
            try:
                worker.allreduce(np.zeros(100 if rank else 200, np.float32))
            except errors.PascalineError as error:
                return type(error).__name__
        return "no error"

    begun = time.monotonic()
    found = together(act)
    assert set(found) <= {"MismatchError", "DeadlineError", "RanksLostError"}, found
    assert time.monotonic() - begun < 10


def test_types_that_differ_are_a_mismatch(appliance: pascaline.Appliance, job: int) -> None:
    """The text names what the others call."""

    def act(rank: int) -> str:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=5) as worker:
            with pytest.raises(errors.PascalineError) as told:
                worker.allreduce(np.zeros(100, np.float32 if rank else np.int32))
            return f"{told.type.__name__}: {told.value}"

    assert any("MismatchError" in text and "f32" in text for text in together(act))


def test_a_rank_that_does_not_come_is_named(appliance: pascaline.Appliance, job: int) -> None:
    """Of a join, and of an operation."""
    with pytest.raises(errors.IncompleteError) as told:
        pascaline.Worker(appliance.address, job, 0, RANKS, timeout=1)
    assert told.value.ranks == (1, 2)
    assert isinstance(told.value, TimeoutError)

    def act(rank: int) -> tuple[int, ...]:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=2, linger=0.1) as worker:
            if rank == 2:
                time.sleep(3)
                return ()
            with pytest.raises(errors.DeadlineError, match="rank 2") as told:
                worker.allreduce(np.zeros(100, np.float32))
            return told.value.ranks

    assert together(act) == [(2,), (2,), ()]


def test_no_appliance_is_told_with_its_address() -> None:
    """Within the time, as a ConnectionError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unbound:
        unbound.bind(("127.0.0.1", 0))
        port = unbound.getsockname()[1]
        with pytest.raises(ConnectionError, match=f"127.0.0.1:{port}"):
            pascaline.Worker(f"127.0.0.1:{port}", 1, 0, 2, timeout=1)


def _class_of_the_first_packet(join: Callable[[str], Any]) -> int:
    """What the first packet to an appliance that never answers has for DSCP and ECN."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        silent.settimeout(5)
        silent.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        with pytest.raises(errors.UnreachableError):
            join(f"127.0.0.1:{silent.getsockname()[1]}")
        (_, _, value), *_ = silent.recvmsg(2048, socket.CMSG_SPACE(1))[1]
        return value[0]


@pytest.mark.parametrize(("more", "dscp"), [({}, 0), ({"dscp": 46}, 46), ({"dscp": 63}, 63)])
def test_packets_carry_the_dscp(more: dict[str, Any], dscp: int) -> None:
    """From the first one on, of a worker of each kind."""
    weights = np.zeros(8, np.float32)
    worker = functools.partial(pascaline.Worker, job=1, rank=0, ranks=2, join_timeout=0.3, **more)
    learner = functools.partial(
        pascaline.AsyncWorker, job=1, rank=0, ranks=2, weights=weights, join_timeout=0.3, **more
    )
    assert [_class_of_the_first_packet(join) >> 2 for join in (worker, learner)] == [dscp, dscp]


def test_after_leaving_there_are_no_operations(ranks: Ranks) -> None:
    """And leaving twice is as good as once."""

    def act(worker: pascaline.Worker) -> None:
        worker.barrier()
        worker.leave()
        worker.leave()
        with pytest.raises(errors.ClosedError, match="another Worker"):
            worker.allreduce(np.zeros(3, np.float32))

    ranks(act)


def test_python_goes_on_while_an_operation_waits(appliance: pascaline.Appliance, job: int) -> None:
    """Without its lock: other threads count on, and wait(timeout) comes back."""
    counted = []
    joined = threading.Barrier(RANKS)

    def act(rank: int) -> None:
        with pascaline.Worker(appliance.address, job, rank, RANKS, timeout=10) as worker:
            joined.wait()
            if rank == 0:
                time.sleep(0.5)
                counted.append(sum(range(100_000)))
            handle = worker.allreduce_async(np.zeros(8, np.float32))
            if rank == 1:
                with pytest.raises(TimeoutError):
                    handle.wait(timeout=0.05)
            handle.wait()

    together(act)
    assert counted


def test_statistics_and_explain(ranks: Ranks, appliance: pascaline.Appliance, job: int) -> None:
    """What the worker has sent, and what the appliance says of the job."""

    def act(worker: pascaline.Worker) -> int:
        worker.allreduce(np.zeros(10_000, np.float32))
        return worker.statistics()["packets_sent"]

    # No frame here has room for more than 1,472 bytes.
    assert min(ranks(act)) >= 40_000 // 1472
    told = appliance.explain(job)
    assert told["bytes"]["aggregated"] >= RANKS * 40_000
    assert "aggregated here" in str(told)
    with pytest.raises(errors.ApplianceError, match="9999"):
        appliance.explain(9999)


@pytest.mark.usefixtures("appliance")
def test_appliances_that_start_together_share_nothing() -> None:
    """Each has a link and an address of its own; what one was given for its server counts."""
    ready = threading.Barrier(RANKS)

    def start(_: int) -> str:
        keys = {"checkpoint": "no", "rule": "staleness"}
        with pascaline.Appliance(1, keys={"kind": "updates"}, server=keys) as started:
            ready.wait(60)
            assert started.status()
            return started.address

    assert len(set(together(start))) == RANKS


@pytest.mark.usefixtures("appliance")
def test_the_appliance_starts_anew() -> None:
    """Killed under its workers and started again: they go on where they were."""
    with pascaline.Appliance(2) as other:
        summed = threading.Barrier(3)

        def act(rank: int) -> bool:
            with pascaline.Worker(other.address, 1, rank, 2, timeout=20) as worker:
                right = True
                for turn in range(4):
                    array = np.full(1000, rank + turn, np.float32)
                    worker.allreduce(array)
                    right &= bool((array == 1 + 2 * turn).all())
                    if turn == 1:
                        summed.wait()
                        summed.wait()
                return right

        def again(_: int) -> bool:
            summed.wait()
            other.kill()
            other.start()
            summed.wait()
            return True

        assert together(lambda number: again(number) if number == 2 else act(number)) == [True] * 3
