"""scripts/train: models that learn over the appliance, beside Gloo and behind queues."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]
Train = Callable[..., dict[str, Any]]


@pytest.fixture
def train(shell: Shell, pascaline: Path) -> Train:
    def run(words: str, *more: object, seconds: float = 300) -> dict[str, Any]:
        tail = ("--json", "--binary", pascaline, *map(str, more))
        said = shell.json("scripts/train", *words.split(), *tail, seconds=seconds)
        assert said["ok"]
        return said

    return run


def test_ddp(train: Train) -> None:
    """Weights as with Gloo, the same bits in the order of ranks, across a restart of the appliance."""
    # PyTorch may have to be installed first.
    said = train("ddp --workers 2 --steps 100", seconds=600)
    assert said["bit_equal_rank_order"]
    assert said["max_weight_diff_vs_gloo"] < 0.001
    assert said["steps_per_s"] > 0
    assert said["gloo_steps_per_s"] > 0
    assert said["restarts"] == 1
    assert said["calls"]["appliance"] > 100
    assert said["losses"][1] < said["losses"][0]


def test_ddp_in_buckets(train: Train, tmp_path: Path) -> None:
    """Several buckets by a hook, and a time line of them."""
    words = "ddp --workers 2 --steps 20 --hidden 512 --bucket-mb 0.5 --hook bf16 --no-restart"
    said = train(words, "--trace", tmp_path / "trace.png", seconds=120)
    assert said["hook"] == "bf16"
    assert said["trace"]["buckets"] >= 2
    assert said["trace"]["allreduce_ms"] > 0
    assert said["trace"]["hidden_pct"] > 0


def test_gpt(train: Train) -> None:
    """A small GPT learns the documents, as well as over Gloo."""
    said = train("gpt --workers 2 --steps 40 --hook mxint8 --feedback")
    assert said["loss_last"] < 0.8 * said["loss_first"]
    assert said["calls"]["appliance"] >= 40
    assert said["calls"]["gloo"] == 0
    assert said["hook"] == "mxint8"
    assert said["feedback"]


def test_fsdp(train: Train) -> None:
    """FSDP2 ends as over Gloo; long all-gathers go round in Gloo's ring, sums through the appliance."""
    said = train("fsdp --workers 2 --steps 10 --turns 1")
    assert said["loss_diff_vs_gloo"] < 0.01
    assert said["ratio"] > 0
    assert said["calls"]["appliance"] >= 30
    assert said["calls"]["gloo"] > 0


def test_arrival(train: Train) -> None:
    """The first layers' gradients overtake in a stream of their own, and the weights are the same bits."""
    said = train("arrival --workers 2 --steps 5 --turns 1 --layers 8")
    assert said["same_weights"]
    assert said["earlier_pct"] > 20
    assert said["step_ratio"] > 0


def test_ray() -> None:
    """Weights are equal, and calls went through the appliance."""
    pytest.skip("Ray is another 200 MB: scripts/train ray")


def test_rl_behind_both_queues(train: Train) -> None:
    """PPO on LunarLander-v3 behind a congested port: the FIFO loses what Olaf combines."""
    said = train("rl --queue both --workers 2 --seeds 1 --iterations 12")
    olaf, fifo = said["olaf"], said["fifo"]
    assert olaf["updates_applied"] > 0
    assert olaf["updates_aggregated"] > 0
    assert fifo["updates_lost_pct"] > 20
    assert olaf["updates_lost_pct"] < fifo["updates_lost_pct"] / 4
    assert fifo["rewards"][0] < 500
    assert olaf["rewards"][0] > -2000


def test_rl_in_step(train: Train) -> None:
    """Two seeds are two jobs; each rank gets what all of them found."""
    said = train("rl --mode sync --workers 2 --seeds 2 --iterations 3", seconds=120)
    assert said["mode"] == "sync"
    assert said["updates"]["sent"] == 12
    assert said["rewards"][1] < 500


def test_rl_a2c(train: Train) -> None:
    words = "rl --algorithm a2c --mode sync --workers 2 --seeds 1 --iterations 60 --rate 1"
    said = train(words, seconds=120)
    assert said["algorithm"] == "a2c"
    assert said["mean_reward"] > 30


def test_rl_dqn(train: Train) -> None:
    """Another one, periodically."""
    said = train("rl --algorithm dqn --mode periodic --workers 2 --seeds 1 --iterations 20", seconds=120)
    assert said["mode"] == "periodic"
    assert said["floats"] == 1922
    assert said["updates"]["sent"] >= 10


def test_rl_ddpg(train: Train) -> None:
    """Another one, behind an idle port."""
    said = train("rl --algorithm ddpg --load 0 --workers 2 --seeds 1 --iterations 10", seconds=120)
    assert said["queue"] == "olaf"
    assert said["updates_applied"] > 0
    assert said["mean_reward"] < 0
