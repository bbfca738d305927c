"""scripts/train: models that learn over the appliance, beside Gloo and behind queues."""

from pathlib import Path

import pytest

from tests.runner.shell import Shell, holds

pytestmark = [pytest.mark.ports, pytest.mark.all]

# Words, and what holds of the report.
_TRAININGS = {
    # Weights as with Gloo, the same bits in the order of ranks, across a restart of the appliance.
    "ddp": (
        "ddp --workers 2 --steps 100",
        "bit_equal_rank_order; max_weight_diff_vs_gloo < 0.001; steps_per_s > 0; gloo_steps_per_s > 0;"
        "restarts == 1; calls['appliance'] > 100; losses[1] < losses[0]",
    ),
    # Several buckets by a hook, and a time line of them.
    "ddp-in-buckets": (
        "ddp --workers 2 --steps 20 --hidden 512 --bucket-mb 0.5 --hook bf16 --no-restart"
        " --trace {files}/trace.png",
        "hook == 'bf16'; trace['buckets'] >= 2; trace['allreduce_ms'] > 0; trace['hidden_pct'] > 0",
    ),
    "gpt": (
        "gpt --workers 2 --steps 40 --hook mxint8 --feedback",
        "loss_last < 0.8 * loss_first; calls['appliance'] >= 40; calls['gloo'] == 0; hook == 'mxint8';"
        "feedback",
    ),
    # Long all-gathers go round in Gloo's ring, sums through the appliance.
    "fsdp": (
        "fsdp --workers 2 --steps 10 --turns 1",
        "loss_diff_vs_gloo < 0.01; ratio > 0; calls['appliance'] >= 30; calls['gloo'] > 0",
    ),
    # The first layers' gradients overtake in a stream of their own, and the weights are the same bits.
    "arrival": (
        "arrival --workers 2 --steps 5 --turns 1 --layers 8",
        "same_weights; earlier_pct > 20; step_ratio > 0",
    ),
    # PPO on LunarLander-v3 behind a congested port: the FIFO loses what Olaf combines.
    "rl-behind-both-queues": (
        "rl --queue both --workers 2 --seeds 1 --iterations 12",
        "olaf['updates_applied'] > 0; olaf['updates_aggregated'] > 0; fifo['updates_lost_pct'] > 20;"
        "olaf['updates_lost_pct'] < fifo['updates_lost_pct'] / 4; fifo['rewards'][0] < 500;"
        "olaf['rewards'][0] > -2000",
    ),
    # Two seeds are two jobs; each rank gets what all of them found.
    "rl-in-step": (
        "rl --mode sync --workers 2 --seeds 2 --iterations 3",
        "mode == 'sync'; updates['sent'] == 12; rewards[1] < 500",
    ),
    "rl-a2c": (
        "rl --algorithm a2c --mode sync --workers 2 --seeds 1 --iterations 60 --rate 1",
        "algorithm == 'a2c'; mean_reward > 30",
    ),
    "rl-dqn": (
        "rl --algorithm dqn --mode periodic --workers 2 --seeds 1 --iterations 20",
        "mode == 'periodic'; floats == 1922; updates['sent'] >= 10",
    ),
    # Behind an idle port.
    "rl-ddpg": (
        "rl --algorithm ddpg --load 0 --workers 2 --seeds 1 --iterations 10",
        "queue == 'olaf'; updates_applied > 0; mean_reward < 0",
    ),
}


@pytest.mark.parametrize("name", _TRAININGS)
def test_train(name: str, shell: Shell, pascaline: Path, tmp_path: Path) -> None:
    """It ends well. PyTorch may have to be installed first."""
    words, wants = _TRAININGS[name]
    command = ("scripts/train", *words.format(files=tmp_path).split(), "--json", "--binary", pascaline)
    holds(shell.json(*command, seconds=600), f"ok; {wants}")


def test_ray() -> None:
    """Weights are equal, and calls went through the appliance."""
    pytest.skip("Ray is another 200 MB: scripts/train ray")
