"""Operations that are repeated over Gloo."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.distributed as dist

import pascaline
from conftest import RANKS, Groups, options
from pascaline.torch import Group

SUM = RANKS * (RANKS + 1) // 2


def test_pieces_that_are_summed_again_over_gloo(groups: Groups) -> None:
    """Because the appliance has gone: what lies between them stays as it is."""
    with pascaline.Appliance(RANKS, [1]) as other:
        gone = threading.Barrier(RANKS, action=other.kill)

        def act(group: Group) -> None:
            rank = group.rank()
            whole = torch.tensor([[2**30, 7], [5, 7]], dtype=torch.int32)
            group.allreduce([whole[:, 0]], options()).wait()
            assert whole.tolist() == [[3 * 2**30 - 2**32, 7], [15, 7]]
            gone.wait()
            whole = torch.tensor([[rank + 1.0, 7, rank + 1, 7]] * 2)
            pieces = whole[:, ::2]
            group.allreduce([pieces], options(op=dist.ReduceOp.AVG)).wait()
            assert whole.tolist() == [[SUM / RANKS, 7, SUM / RANKS, 7]] * 2
            pieces.fill_(rank)
            group.broadcast([pieces], options("Broadcast", root=1)).wait()
            group.reduce([pieces], options("Reduce", root=2)).wait()
            end = RANKS if rank == 2 else 1
            assert whole.tolist() == [[end, 7, end, 7]] * 2
            weights = torch.nn.Parameter(torch.full((3,), float(rank)))
            group.allreduce([weights], options(op=dist.ReduceOp.AVG)).wait()
            assert weights.tolist() == [1.0] * 3

        with pytest.warns(RuntimeWarning, match="everything goes over Gloo"):
            groups(act, at=other, fallback=True, worker={"timeout": 2.0})
