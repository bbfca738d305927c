"""Callbacks of futures may block, raise, and start further operations."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

import pascaline
from conftest import RANKS, Groups, options, train_beside_gloo
from pascaline import errors
from pascaline.torch import Group
from pascaline.torch._promises import Keepers

_HOOKS = (
    "allreduce_hook",
    "fp16_compress_hook",
    "bf16_compress_hook",
    "powerSGD_hook",
    "batched_powerSGD_hook",
    "post_localSGD_hook",
    "quantization_pertensor_hook",
    "quantization_perchannel_hook",
)


@pytest.mark.usefixtures("appliance")
@pytest.mark.parametrize("hook", _HOOKS)
def test_hooks_of_pytorch_end_with_the_weights_of_gloo(hook: str) -> None:
    """Some of them wait, inside a callback, for an operation that they begin there."""
    with pascaline.Appliance(2) as appliance:
        train_beside_gloo(appliance, hook)


def test_callbacks_wait_for_later_operations(groups: Groups) -> None:
    """Three deep, for several at a time, and beside operations that another caller waits for."""

    def act(group: Group) -> None:
        def deeper(depth: int, tensor: Any) -> Any:
            future = group.allreduce([tensor], options()).get_future()
            if depth == 0:
                return future
            return future.then(lambda done: deeper(depth - 1, done.value()[0].clone()).wait())

        assert deeper(3, torch.ones(10)).wait()[0].tolist() == [RANKS**4] * 10
        for _ in range(20):
            tensor = torch.ones(10)
            again = group.allreduce([tensor], options())
            again.wait()
            assert tensor.tolist() == [RANKS] * 10

    groups(act)


def test_a_callback_that_raises_fails_its_own_future_alone(groups: Groups) -> None:
    """The next operations and their callbacks go on."""

    def act(group: Group) -> None:
        def fail(_: Any) -> None:
            raise ValueError("a mistake of the program's")

        tensor = torch.ones(3)
        failing = group.allreduce([tensor], options()).get_future().then(fail)
        with pytest.raises(Exception, match="a mistake of the program's"):
            failing.wait()
        other = torch.ones(3)
        future = group.allreduce([other], options()).get_future().then(lambda done: done.value()[0].sum())
        assert future.wait() == 3 * RANKS

    groups(act)


def test_an_abort_fails_what_is_pending_at_once(groups: Groups) -> None:
    """Of an operation that the other ranks never call; also by the end of the group."""
    for end in ("abort", "shutdown"):

        def act(group: Group, end: str = end) -> float:
            if group.rank():
                # It comes too late to complete anything.
                time.sleep(2)
                return 0.0
            works = [
                group.allreduce([torch.ones(3)], options()),
                group.allgather(
                    [[torch.zeros(3, dtype=torch.int64) for _ in range(RANKS)]],
                    [torch.ones(3, dtype=torch.int64)],
                    options("Allgather"),
                ),
            ]
            integers = group.allreduce([torch.ones(3)], options())
            begun = time.monotonic()
            getattr(group, end)()
            for work in (works[0], integers):
                with pytest.raises(errors.ClosedError, match="aborted"):
                    work.wait()
            return time.monotonic() - begun

        assert groups(act)[0] < 3


def test_calls_that_block_do_not_hold_up_those_behind_them() -> None:
    """Calls are made in order, and where one asks for what has not ended, or takes long, the next starts."""
    keepers = Keepers()
    order: list[str] = []
    opened, done = threading.Event(), threading.Event()

    def asks() -> None:
        Keepers.step_aside()
        opened.wait(10)
        order.append("asked")

    def blocks() -> None:
        opened.wait(10)
        order.append("blocked")

    keepers.submit(lambda: order.append("first"))
    keepers.submit(asks)
    keepers.submit(blocks)
    keepers.submit(lambda: order.append("last"))
    keepers.submit(done.set)
    assert done.wait(10)
    assert order == ["first", "last"]
    opened.set()
    keepers.drain()
    end = time.monotonic() + 10
    while len(order) < 4 and time.monotonic() < end:
        time.sleep(0.001)
    assert sorted(order[2:]) == ["asked", "blocked"]
