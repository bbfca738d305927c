"""What programs pass that cannot be, told by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pascaline
from pascaline import errors


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"ranks": 0}, "0 ranks"),
        ({"rank": 9}, "rank 9 of 2"),
        ({"payload": 7}, "payload of 7 bytes"),
        ({"dscp": 64}, "dscp=64: a whole number from 0 to 63"),
        ({"job": -1}, "job=-1: a whole number from 0 to 65535"),
        ({"rank": 70_000}, "rank=70000"),
        ({"ranks": "2"}, "ranks='2'"),
        ({"payload": -8}, "payload=-8"),
        ({"timeout": -1.0}, "not negative"),
        ({"threads": False}, "threads is gone: one thread serves all trees"),
        ({"appliance": "no such host"}, "no known host"),
    ],
)
def test_what_no_worker_can_be_is_a_value_error(more: dict[str, Any], says: str) -> None:
    """Without a packet."""
    place: dict[str, Any] = {"appliance": "127.0.0.1", "job": 1, "rank": 0, "ranks": 2, "timeout": 1.0} | more
    with pytest.raises(ValueError, match=says):
        pascaline.Worker(**place)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda worker: worker.reduce(np.zeros(3), root=-1), "root=-1"),
        (lambda worker: worker.allreduce(np.zeros(3), layer=-1), "layer=-1"),
        (lambda worker: worker.allgather(np.zeros(8), counts=[-1, 9]), "counts=-1"),
        (lambda worker: worker.part(-1), "elements=-1"),
    ],
)
def test_numbers_that_cannot_be_are_named(
    appliance: pascaline.Appliance, call: Callable[[pascaline.Worker], Any], says: str
) -> None:
    """By an ArgumentError, before anything is sent."""
    worker = pascaline.Worker(appliance.address, 1050, 0, 1, timeout=10)
    with worker, pytest.raises(errors.ArgumentError, match=says):
        call(worker)
    with pytest.raises(errors.ArgumentError, match="streams=-1"):
        pascaline.Streams(appliance.address, 1050, 0, 1, streams=-1)


def test_an_admin_address_that_is_none_is_told() -> None:
    """As one that does not answer."""
    with pytest.raises(errors.ApplianceError, match="localhost:http"):
        pascaline.explain(1, "localhost:http")
