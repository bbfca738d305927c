"""FSDP2, ZeRO and torchrun's restarts over the backend, unchanged: the numbers are Gloo's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pascaline
import sharded_program
from conftest import on_this_machine

_PROGRAM = str(Path(__file__).resolve().parent / "sharded_program.py")
_SECONDS = 120


def _torchrun(env: dict[str, str], port: int, *arguments: str, restarts: int = 0) -> str:
    """Two ranks; what they have said. torchrun ends its ranks when it is asked to end."""
    options = ("--nproc-per-node=2", f"--master-port={port}", f"--max-restarts={restarts}")
    command = (sys.executable, "-m", "torch.distributed.run", *options, _PROGRAM, *arguments)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True) as agent:
        try:
            out, err = agent.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            agent.terminate()
            out, err = agent.communicate(timeout=_SECONDS)
    assert agent.returncode == 0, out + err[-3000:]
    return out


@pytest.fixture(scope="module")
def trained(appliance: pascaline.Appliance, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The weights of all trainings, and where calls went."""
    del appliance
    file = tmp_path_factory.mktemp("trained") / "weights.json"
    with pascaline.Appliance(2) as own:
        _torchrun(on_this_machine(own), 29881, "compare", str(file))
        assert own.explain(1)["bytes"]["aggregated"] > 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize("kind", ["fsdp", "zero"])
def test_sharded_training_ends_with_the_weights_of_gloo(kind: str, trained: dict[str, Any]) -> None:
    """Within the rounding of sums of two; and the appliance has done all but long all-gathers."""
    gloo, own = (torch.tensor(trained[kind][backend]) for backend in ("gloo", "pascaline"))
    assert len(own) > 2000
    torch.testing.assert_close(own, gloo, rtol=1e-5, atol=1e-6)
    assert trained[kind]["calls"]["appliance"] >= sharded_program.STEPS
    assert trained[kind]["calls"]["gloo"] == 0


def _alone() -> list[Any]:
    """The weights of the same training in one process."""
    net = sharded_program.small_model()
    optimizer = torch.optim.SGD(net.parameters(), lr=sharded_program.RATE)
    for step in range(sharded_program.STEPS):
        optimizer.zero_grad()
        for rank in (0, 1):
            sharded_program.add_gradients(net, step, rank)
        for weights in net.parameters():
            assert weights.grad is not None
            weights.grad /= 2
        optimizer.step()
    return [weights.detach() for weights in net.parameters()]


@pytest.mark.usefixtures("appliance")
def test_torchrun_starts_a_new_generation_when_a_rank_has_died(tmp_path: Path) -> None:
    """At the same job, with no timeout set anywhere; the weights are those of a run without a death."""
    file = tmp_path / "state"
    with pascaline.Appliance(2) as appliance:
        env = on_this_machine(appliance, PASCALINE_URL=f"pascaline://{appliance.address}?job=1")
        said = _torchrun(env, 29892, "elastic", str(file), "7", restarts=1)
    assert said.count("life 0 from step 0") == 2, said
    assert said.count("life 1 from step 8") == 2, said
    state = torch.load(file)
    assert state["step"] == sharded_program.STEPS - 1
    torch.testing.assert_close(list(state["weights"].values()), _alone(), rtol=1e-5, atol=1e-6)
