"""Several tensors in one call."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from conftest import RANKS, Groups, options
from pascaline.torch import Group, _ring


def test_coalesced(groups: Groups) -> None:
    """Several tensors in one sum."""

    def act(group: Group) -> None:
        tensors = [torch.ones(3), torch.ones(2, 2)]
        made = c10d.AllreduceCoalescedOptions()
        made.reduceOp = dist.ReduceOp.SUM
        group.allreduce_coalesced(tensors, made).wait()
        assert all((tensor == RANKS).all() for tensor in tensors)
        assert group.calls["appliance"] == 1

    groups(act)


def test_coalesced_ends_with_all_of_them(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one goes round and takes long, the second one does not: it waits, and fails, with both."""
    gather, ended = _ring.gather, []

    def late(*arguments: Any) -> Any:
        finish = gather(*arguments)

        def later() -> None:
            time.sleep(0.3)
            finish()
            ended.append(arguments)
            if len(ended) > 2 * RANKS:
                raise RuntimeError("the ring is broken")

        return later

    def act(group: Group) -> None:
        tensors = [torch.ones(2 * _ring.STEP), torch.ones(2)]
        outputs = [torch.zeros(RANKS * tensor.numel()) for tensor in tensors]

        def gathered() -> Any:
            return group.all_gather_single_coalesced(outputs, tensors, options("Allgather"))

        def of_this_rank() -> int:
            return sum(arguments[3] is tensors[0] for arguments in ended)

        assert gathered().wait()
        assert of_this_rank() == 1
        assert gathered().get_future().wait()[0] is outputs[0]
        assert of_this_rank() == 2
        met.wait(20)
        broken = gathered()
        assert not broken.is_completed()
        with pytest.raises(RuntimeError, match="timed out"):
            broken.wait(timedelta(milliseconds=10))
        with pytest.raises(RuntimeError, match="broken"):
            broken.wait()
        assert broken.is_completed()
        assert not broken.is_success()
        assert "broken" in str(broken.exception())
        assert group.all_gather_single_coalesced([], [], options("Allgather")).wait()
        lists = [torch.ones(RANKS), torch.ones(2 * RANKS, dtype=torch.int32)]
        totals = [torch.zeros(1), torch.zeros(2, dtype=torch.int32)]
        scattered = group.reduce_scatter_single_coalesced(totals, lists, options("ReduceScatter"))
        scattered.wait()
        assert (scattered.is_success(), scattered.exception()) == (True, None)
        assert [total.tolist() for total in totals] == [[RANKS], [RANKS] * 2]

    met = threading.Barrier(RANKS)
    monkeypatch.setattr(_ring, "gather", late)
    groups(act)
