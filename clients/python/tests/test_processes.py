"""Ranks that are processes: torchrun, groups with jobs of their own, a rank that is killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pascaline
from conftest import on_this_machine, together

HERE = Path(__file__).resolve().parent
_SECONDS = 120
_MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29872}


@pytest.mark.usefixtures("appliance")
@pytest.mark.parametrize("debug", ["OFF", "DETAIL"])
def test_torchrun_and_groups(debug: str) -> None:
    """The collectives of torch.distributed by their public names; the second group is a job of the range."""
    with pascaline.Appliance(2, admission="1000-1063") as appliance:
        command = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29871")
        done = subprocess.run(
            (sys.executable, *command, str(HERE / "rank_program.py"), "collectives"),
            env=on_this_machine(appliance, TORCH_DISTRIBUTED_DEBUG=debug),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.count("right") == 2
        assert appliance.explain(1)["bytes"]["aggregated"] > 0


@pytest.mark.usefixtures("appliance")
@pytest.mark.parametrize("during", ["death", "ring"])
def test_a_worker_that_is_killed_is_named(during: str) -> None:
    """By number, at every other rank, long before the group's timeout; also where a call is Gloo's."""
    with pascaline.Appliance(3, keys={"dead_after": "2s"}) as appliance:
        ranks = [
            subprocess.Popen(
                (sys.executable, str(HERE / "rank_program.py"), during),
                env=on_this_machine(appliance, RANK=rank, WORLD_SIZE=3, **_MEETING),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(3)
        ]
        said = [rank.communicate(timeout=_SECONDS) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, -9], said
    assert all("rank 2" in out for out, _ in said[:2])


@pytest.mark.parametrize("page", ["README.md", "docs/training.md"])
def test_the_first_example_works_as_printed(page: str, appliance: pascaline.Appliance, job: int) -> None:
    """At another address, with a gradient."""
    text = (HERE.parents[2] / page).read_text()
    example = re.search(r"```python\n(import pascaline\b.*?)```", text, re.DOTALL)
    assert example
    printed = example[1].replace("10.77.0.254", appliance.address)
    assert "job=1, rank=0, ranks=4" in printed

    def run(rank: int) -> float:
        names: dict[str, Any] = {"gradient": np.ones(1000, np.float32)}
        exec(printed.replace("job=1, rank=0, ranks=4", f"job={job}, rank={rank}, ranks=3"), names)
        return float(names["gradient"].sum())

    assert together(run) == [3000.0] * 3
