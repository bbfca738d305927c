"""Sums that the appliance cannot read, and packets that prove themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pascaline
from conftest import RANKS, together, train_beside_gloo
from pascaline import errors


def test_masked_sums_are_those_of_all_ranks(appliance: pascaline.Appliance, job: int, key: str) -> None:
    """And each fault leaves the ranks together."""

    def act(rank: int) -> None:
        terms: dict[str, Any] = {"timeout": 10, "security": "masked", "key": key}
        with pascaline.Worker(appliance.address, job, rank, RANKS, **terms) as worker:
            array = np.full(5000, 0.5 + rank, np.float32)
            worker.allreduce(array)
            assert (array == sum(0.5 + rank for rank in range(RANKS))).all()
            worker.broadcast(array[:7], root=1)
            with pytest.raises(errors.ArgumentError, match="sum of f64 cannot be masked"):
                worker.allreduce(np.ones(3))
            with pytest.raises(errors.ArgumentError, match="max of f32 cannot be masked"):
                worker.allreduce(array, op="max")
            with pytest.raises(errors.ArgumentError, match="infinite or not a number") as told:
                worker.allreduce(np.array([np.nan if rank == 1 else 1.0], np.float32))
            assert told.value.ranks == (1,)
            with pytest.raises(ValueError, match="wire"):
                worker.allreduce(array, wire="bfloat16")
            worker.barrier()

    together(act)


@pytest.mark.usefixtures("appliance")
@pytest.mark.parametrize("security", ["mac", "encrypt"])
def test_sealed_sums_are_those_of_all_ranks(key: str, security: str) -> None:
    """And a rank that seals nothing learns why it does not become a member."""
    with pascaline.Appliance(2, keys={"security": security, "key_file": key}) as sealed:

        def act(rank: int) -> None:
            terms: dict[str, Any] = {"timeout": 10, "security": security, "key": key}
            with pascaline.Worker(sealed.address, 1, rank, 2, **terms) as worker:
                array = np.arange(100_000, dtype=np.float32) + rank
                worker.allreduce(array)
                assert (array == 2 * np.arange(100_000) + 1).all()

        together(act, 2)
        with pytest.raises(errors.PascalineError, match="does not take the packets of rank 0"):
            pascaline.Worker(sealed.address, 1, 0, 2, join_timeout=10)


@pytest.mark.usefixtures("appliance")
@pytest.mark.parametrize("security", ["masked", "encrypt"])
def test_training_ends_with_the_weights_of_gloo(key: str, security: str) -> None:
    """DistributedDataParallel, whose gradients no host on the way can read."""
    keys = {} if security == "masked" else {"security": security, "key_file": key}
    with pascaline.Appliance(2, keys=keys) as appliance:
        train_beside_gloo(appliance, "allreduce_hook", f"&security={security}&key={key}")


def test_settings_of_security_that_are_wrong_are_told(tmp_path: Path, key: str) -> None:
    """Before anything is sent."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"security": "tls"}, "none, masked, mac and encrypt"),
        ({"security": "masked"}, "takes key="),
        ({"security": "mac"}, "takes key="),
        ({"security": "encrypt", "key": str(tmp_path)}, "not a regular file"),
        ({"key": key}, "goes with security"),
        ({"security": "masked", "key": str(tmp_path)}, "not a regular file"),
    ]
    for terms, says in wrong:
        with pytest.raises(ValueError, match=says):
            pascaline.Worker("10.77.0.254", 1, 0, 1, **terms)
