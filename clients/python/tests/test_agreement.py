"""What ranks compare when they meet, the numbers of jobs for groups, and what a group says of itself."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from conftest import RANKS, Groups, options, together
from pascaline import errors
from pascaline.torch import Group, Settings
from pascaline.torch._gloo import local_address
from pascaline.torch._jobs import Numbers
from pascaline.torch._meeting import compare

_SOON = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"fallback": True}, "PASCALINE_FALLBACK"),
        ({"streams": 2}, "streams"),
        ({"job": 7}, "job"),
        ({"jobs": (1000, 1003)}, "PASCALINE_JOBS"),
        ({"worker": {"payload": 512}}, "payload"),
        ({"appliance": "10.0.0.1;10.0.0.2"}, "the number of trees"),
    ],
)
def test_settings_that_differ_are_named_at_every_rank(change: dict[str, Any], named: str) -> None:
    """With both values and the rank; addresses may differ, since ranks may have appliances of their own."""
    store, usual = dist.HashStore(), Settings("10.0.0.1")
    others = [usual, replace(usual, appliance="10.0.0.9"), replace(usual, **change)]

    def one(rank: int) -> str:
        with pytest.raises(errors.MismatchError, match=named) as raised:
            compare(store, rank, RANKS, others[rank].common(), _SOON)
        assert raised.value.ranks == (2,)
        return str(raised.value)

    assert len(set(together(one))) == 1
    store = dist.HashStore()
    together(lambda rank: compare(store, rank, RANKS, usual.common(), _SOON))


def test_numbers_come_back() -> None:
    """Ten groups one after the other live on four numbers; the fifth at the same time has none."""
    numbers = Numbers(Settings("10.0.0.1", jobs=(1000, 1003)), dist.HashStore())
    for _ in range(10):
        job = numbers.shared(dist.HashStore(), 0, 2)
        assert 1000 <= job <= 1003
        numbers.give_back(job)
    held = [numbers.shared(dist.HashStore(), 0, 2) for _ in range(4)]
    assert sorted(held) == [1000, 1001, 1002, 1003]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert numbers.shared(dist.HashStore(), 0, 2) == 0
    assert "PASCALINE_JOBS" in str(told[0].message)
    numbers.give_back(held[1])
    assert numbers.shared(dist.HashStore(), 0, 2) == held[1]


def test_numbers_are_taken_once(job: int) -> None:
    """By many processes at the same time; each tree of each stream has its own."""
    assert job
    store = dist.HashStore()
    settings = Settings("10.0.0.1;10.0.0.2", job=0, jobs=(1000, 1064), streams=2)
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda _: Numbers(settings, store).shared(dist.HashStore(), 0, 2), range(15)))
    assert sorted(jobs) == list(range(1004, 1064, 4))


def test_a_group_says_what_it_can(groups: Groups) -> None:
    """Each of PyTorch's attributes of a backend has a value."""

    def act(group: Group) -> None:
        for name in (name for name in dir(group) if name.startswith(("supports_", "_supports_"))):
            assert not getattr(group, name) or callable(getattr(group, name)), name
        assert group.options is not None
        # The group goes on as before.
        tensor = torch.ones(3)
        group.allreduce([tensor], options()).wait()
        assert tensor.tolist() == [RANKS] * 3

    groups(act)


def test_means_of_halves_do_not_overflow(groups: Groups) -> None:
    """Through the appliance, over Gloo, and where float32 travels as float16."""

    def act(group: Group) -> None:
        for dtype, narrow in ((torch.float16, {}), (torch.float32, {"wire": "float16"})):
            tensor = torch.full((1000,), 30000.0, dtype=dtype)
            tensor[7] = 0.5 + group.rank()
            group.mean_of_bucket(tensor, layer=0, layers=0, **narrow).wait()
            assert tensor[0] == 30000
            assert tensor[7] == 1.5
        output = torch.zeros(4, dtype=torch.float16)
        whole = torch.full((4 * RANKS,), 60000.0, dtype=torch.float16)
        made = options("ReduceScatter", dist.ReduceOp.AVG)
        group.reduce_scatter_single(output, whole, made).wait()
        assert output.tolist() == [60000.0] * 4
        assert whole.tolist() == [60000.0] * 4 * RANKS
        gloo = torch.full((10,), 30000.0, dtype=torch.float16)
        group._mean_over_gloo(gloo).wait()
        assert gloo.tolist() == [30000.0] * 10

    groups(act)


def test_gloo_gets_the_address_that_leads_to_the_appliance() -> None:
    """By address, with a port, of several; None where there is no way."""
    for place in ("127.0.0.1", "127.0.0.1:16420", "127.0.0.1:16420,10.9.9.9", "127.0.0.1;10.9.9.9"):
        assert local_address(place) == "127.0.0.1"
    assert local_address("no such host") is None
