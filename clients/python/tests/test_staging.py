"""Tensors on a device: what a group sums of them is copied beside what the device computes.

Most tests have a device that stands for one: its tensors lie in the host's memory, and it copies as late as
it may. The last one wants a GPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist

import pascaline
from conftest import RANKS, Groups, options
from pascaline.torch import _staging


class _Copy:
    """A value that is made once a caller waits for it and the gate is open."""

    def __init__(self, gate: threading.Event, pairs: Sequence[tuple[Any, Any]]) -> None:
        self._gate, self._pairs = gate, pairs
        self._lock = threading.Lock()

    def synchronize(self) -> None:
        self._gate.wait()
        with self._lock:
            pairs, self._pairs = self._pairs, ()
            for source, to in pairs:
                to.detach().copy_(source.detach())

    wait = synchronize

    @contextmanager
    def here(self) -> Iterator[None]:
        self.synchronize()
        yield


class _Late:
    """A device from and to which nothing is copied before a caller waits for it."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.fetched = self.brought = 0

    def fetch(self, tensor: Any, *, read: bool) -> tuple[Any, _Copy]:
        # A value that is read too early is none of the numbers in these tests.
        host = torch.full(tensor.shape, 77, dtype=tensor.dtype)
        self.fetched += read
        return host, _Copy(self.gate, [(tensor, host)] if read else [])

    def bring(self, pairs: Sequence[tuple[Any, Any]]) -> _Copy:
        self.brought += len(pairs)
        return _Copy(self.gate, pairs)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> _Late:
    """A device on which whatever is not of float32 lies."""
    late = _Late()
    monkeypatch.setattr(
        _staging, "_device_of", lambda tensor: None if tensor.dtype == torch.float32 else late
    )
    return late


def _far(*shape: int, value: float) -> Any:
    return torch.full(shape, value, dtype=torch.float64)


def test_every_collective(groups: Groups, device: _Late) -> None:
    """After wait() the results are those without a device."""

    def act(group: Any) -> list[Any]:
        rank = group.rank()
        summed, strided = _far(1000, value=rank), _far(64, 64, value=1 + rank)[:, ::3]
        group.allreduce([summed], options()).wait()
        group.allreduce([strided], options(op=dist.ReduceOp.MAX)).wait()
        told = _far(10, value=rank).requires_grad_()
        group.broadcast([told], options("Broadcast", root=2)).wait()
        reduced = _far(10, value=rank)
        group.reduce([reduced], options("Reduce", root=1)).wait()
        gathered = [_far(5, value=-1) for _ in range(RANKS)]
        group.allgather([gathered], [_far(5, value=rank)], options("Allgather")).wait()
        part, parts = _far(4, value=-1), [_far(4, value=10 * to + rank) for to in range(RANKS)]
        group.reduce_scatter([part], [parts], options("ReduceScatter")).wait()
        single = _far(4, value=-1)
        group.reduce_scatter_single(single, torch.cat(parts), options("ReduceScatter")).wait()
        several = [_far(3, value=rank), _far(2, 2, value=2 * rank)]
        group.allreduce_coalesced(several, options("AllreduceCoalesced")).wait()
        ends = [summed, strided, told.detach(), reduced, *gathered, part, single, *several]
        assert all(bool((end == end.flatten()[0]).all()) for end in ends)
        return [float(end.flatten()[0]) for end in ends]

    for rank, ends in enumerate(groups(act)):
        reduced = 3.0 if rank == 1 else float(rank)
        scattered = 30.0 * rank + 3.0
        assert ends == [3.0, 3.0, 2.0, reduced, 0.0, 1.0, 2.0, scattered, scattered, 3.0, 6.0]
    # Each rank's own tensors have gone through the device: only a broadcast's root and a reduce's have less.
    assert device.fetched == RANKS * 7 + 1 + 0
    assert device.brought == RANKS * (2 + 1 + RANKS + 2 + 2) + 1


def test_a_call_waits_for_no_copy_and_keeps_the_order(
    groups: Groups, device: _Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls return while the device is busy; what lies in the host's memory is summed in its turn."""
    monkeypatch.setattr(_staging, "_device_of", lambda tensor: device if tensor.dim() == 2 else None)
    device.gate.clear()
    called = threading.Barrier(RANKS)

    def act(group: Any) -> list[float]:
        # Without its turn, the second one would be the first at all ranks but one.
        tensors = [torch.ones(300, 1), torch.ones(200), torch.ones(100, 1)]
        if group.rank() == 0:
            tensors[0] = tensors[0].flatten()
        works = [group.allreduce([tensor], options()) for tensor in tensors]
        assert not any(work.is_completed() for work in works)
        called.wait()
        device.gate.set()
        for work in reversed(works):
            work.wait()
        return [float(tensor.sum()) for tensor in tensors]

    assert groups(act) == [[900.0, 600.0, 300.0]] * RANKS


def test_a_future_has_what_has_arrived(groups: Groups, device: _Late) -> None:
    """What follows by then() sees the sum."""

    def act(group: Any) -> float:
        tensor = _far(100, value=1.0)
        future = group.allreduce([tensor], options()).get_future()
        return float(future.then(lambda done: done.value()[0].sum()).wait())

    assert groups(act) == [100.0 * RANKS] * RANKS
    assert device.brought == RANKS


def test_integers_that_overflow_wrap(groups: Groups, device: _Late) -> None:
    """As without a device."""

    def act(group: Any) -> int:
        tensor = torch.tensor([2**30, 1], dtype=torch.int32)
        group.allreduce([tensor], options()).wait()
        return int(tensor[0])

    assert groups(act) == [3 * 2**30 - 2**32] * RANKS
    assert device.brought == RANKS


def test_the_appliance_is_killed(groups: Groups, device: _Late) -> None:
    """Fetched tensors are summed over Gloo, and brought back."""
    with pascaline.Appliance(RANKS, [1]) as appliance:
        gone = threading.Barrier(RANKS, appliance.kill)

        def act(group: Any) -> list[float]:
            tensors = [_far(50, value=value) for value in (1.0, 2.0, 3.0)]
            group.allreduce([tensors[0]], options()).wait()
            gone.wait()
            works = [group.allreduce([tensor], options()) for tensor in tensors[1:]]
            for work in works:
                work.wait()
            return [float(tensor[0]) for tensor in tensors]

        with pytest.warns(RuntimeWarning, match="everything goes over Gloo"):
            ends = groups(act, at=appliance, fallback=True, worker={"timeout": 3.0})
    assert ends == [[3.0, 6.0, 9.0]] * RANKS
    assert device.brought == 3 * RANKS


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32], ids=str)
def test_on_a_gpu(groups: Groups, dtype: torch.dtype) -> None:
    """Streams see the sum of what they had computed before, though no thread waits for the device."""

    def act(group: Any) -> list[bool]:
        ends = []
        for turn in range(20):
            stream = torch.cuda.Stream() if turn % 2 else torch.cuda.current_stream()
            with torch.cuda.stream(stream):
                # Takes the device a while, and is -2, 0 or 2 then.
                busy = torch.ones(2000, 2000, device="cuda")
                for _ in range(5):
                    busy = (busy @ busy).clamp(max=1)
                tensor = (busy.flatten()[: 1 << 20] * 2 * (group.rank() - 1)).to(dtype) + turn
                work = group.allreduce([tensor], options())
                if turn % 4 < 2:
                    work.wait()
                    ends.append((tensor == RANKS * turn).all())
                else:
                    ends.append(work.get_future().then(lambda done: done.value()[0].clone()).wait())
                    ends[-1] = (ends[-1] == RANKS * turn).all()
        torch.cuda.synchronize()
        return [bool(end) for end in ends]

    assert groups(act) == [[True] * 20] * RANKS
