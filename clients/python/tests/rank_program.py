"""What ranks of test_processes.py and test_elastic.py run: `rank_program.py KIND`, by torchrun or alike."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import pascaline.torch


def collectives(rank: int, ranks: int) -> None:
    """The calls of torch.distributed, in the world and in a group that has a job of its own."""
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    assert (tensor == ranks * (ranks + 1) / 2).all()
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    assert (future.wait()[0] == ranks * ranks * (ranks + 1) / 2).all()
    dist.broadcast(tensor, 0)
    whole = torch.zeros(2 * ranks)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)))
    assert whole.tolist() == [float(at // 2) for at in range(2 * ranks)]
    own = torch.zeros(2)
    dist.reduce_scatter_tensor(own, whole)
    assert own.tolist() == [float(rank * ranks)] * 2
    gathered: list[Any] = [None] * ranks
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": at} for at in range(ranks)]
    if rank == 0:
        dist.send(torch.ones(3), 1)
    elif rank == 1:
        dist.recv(tensor[:3], 0)
        assert (tensor[:3] == 1).all()
    dist.barrier()
    world = pascaline.torch.group_of()
    assert world.calls["appliance"] >= 6, world.calls
    assert world.worker is not None
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2, bias=False))
    model.register_comm_hook(None, pascaline.torch.hooks.mean)
    model(torch.full((1, 3), float(rank))).sum().backward()
    gradient = next(model.parameters()).grad
    assert gradient is not None
    assert (gradient == (ranks - 1) / 2).all(), gradient
    sparse_gradients(rank, ranks)
    feedback_of_buckets()
    # The job is for ranks with at least one other.
    assert [dist.get_world_size(dist.new_group([alone])) for alone in range(ranks)].count(1) == 1
    other = dist.new_group()
    found = pascaline.torch.group_of(other)
    assert found.job == 1000, found.job
    tensor = torch.ones(5)
    dist.all_reduce(tensor, group=other)
    assert (tensor == ranks).all()
    assert found.worker is not None
    # The range has one job: the next group goes over Gloo.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        last = dist.new_group()
    dist.all_reduce(tensor, group=last)
    assert (tensor == ranks * ranks).all()
    assert pascaline.torch.group_of(last).worker is None


def sparse_gradients(rank: int, ranks: int) -> None:
    """The appliance sums none of them: their mean is made over Gloo."""
    table = torch.nn.Embedding(8, 2, sparse=True)
    model = torch.nn.parallel.DistributedDataParallel(table)
    model.register_comm_hook(None, pascaline.torch.hooks.bf16)
    model(torch.tensor([rank])).sum().backward()
    assert table.weight.grad is not None
    assert table.weight.grad.to_dense()[:, 0].tolist() == [1 / ranks] * ranks + [0] * (8 - ranks)


def feedback_of_buckets() -> None:
    """A layer's rounding error goes to no other, when a bucket of the same size is filled anew."""
    layers = torch.nn.Sequential(*(torch.nn.Linear(16, 16, bias=False) for _ in range(2)))
    # After the first step DistributedDataParallel has the last layer first.
    model = torch.nn.parallel.DistributedDataParallel(layers)
    state = pascaline.torch.hooks.Buckets(feedback=True)
    model.register_comm_hook(state, pascaline.torch.hooks.mxint8)
    found = []
    for _ in range(3):
        model(torch.rand(4, 16)).sum().backward()
        ((_, feedback),) = state._kept.values()
        assert len(feedback) == 512
        found.append(feedback)
    assert found[0] is not found[1]
    assert found[1] is found[2]


def death(rank: int, ranks: int) -> None:
    """The last rank ends without a word; the others learn which it was."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(pascaline.PascalineError, match=f"rank {ranks - 1}") as told:
        dist.all_reduce(tensor)
    assert told.value.ranks == (ranks - 1,), told.value.ranks
    assert time.monotonic() - begun < 15
    print("told:", told.value, flush=True)
    # The ranks no longer wait for each other.
    os._exit(0)


def ring(rank: int, ranks: int) -> None:
    """The same in the middle of a long all-gather, which is Gloo's: the appliance names the dead."""
    whole, own = torch.zeros(ranks << 20), torch.full((1 << 20,), float(rank))
    dist.all_gather_into_tensor(whole, own)
    assert (whole.view(ranks, -1)[:, 0] == torch.arange(ranks)).all()
    assert pascaline.torch.group_of().calls["gloo"] == 1
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(pascaline.PascalineError, match=f"rank {ranks - 1}") as told:
        dist.all_gather_into_tensor(whole, own)
    assert told.value.ranks == (ranks - 1,), told.value.ranks
    assert time.monotonic() - begun < 15
    print("told:", told.value, flush=True)
    os._exit(0)


def elastic(rank: int, ranks: int) -> None:
    """Sums until a file is there; each rank writes once, when its first sum is right."""
    place = Path(os.environ["ELASTIC_PLACE"])
    told = False
    while True:
        tensor = torch.tensor([1.0, float((place / "end").exists())])
        dist.all_reduce(tensor)
        assert tensor[0] == ranks, tensor
        if not told:
            with (place / "sums").open("a") as file:
                file.write(f"{time.time()} {ranks} {rank} {os.getpid()}\n")
        told = True
        if tensor[1] > 0:
            return
        time.sleep(0.05)


def main() -> None:
    """One rank."""
    dist.init_process_group("pascaline", timeout=timedelta(seconds=30))
    programs = {"collectives": collectives, "death": death, "ring": ring, "elastic": elastic}
    programs[sys.argv[1]](dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
    print("right", flush=True)


if __name__ == "__main__":
    main()
