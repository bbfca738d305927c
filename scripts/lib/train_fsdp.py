"""scripts/train fsdp: FSDP2 through an appliance and over Gloo, in turns."""

import argparse
import statistics
from typing import Any

import train_bed
from train_bed import Bed

DESCRIPTION = """\
Trains with PyTorch's FSDP2 (`fully_shard`) through an appliance and over Gloo, in turns, from the same seed.
Ratios are of neighbours: whatever else the machine does disturbs both.
"""
EXAMPLES = """\
Examples:
  scripts/train fsdp --json
  scripts/train fsdp --workers 4 --mbit 1000 --hidden 1024 --turns 5
"""
# Two trainings whose sums were rounded differently end as near as this.
_NEAR = 1e-2


OPTIONS = {"workers": 4, "steps": 20, "seed": 1, "turns": 3, "hidden": 512, "mbit": 200, "picture": None}


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    words: list[object] = ["--backends", *("pascaline", "gloo") * options.turns]
    words += train_bed.words(options, "steps", "hidden", "seed")
    runs = train_bed.run(options, bed, "fsdp", 2 * options.turns, words)
    seconds = train_bed.slowest(runs)
    own, gloo = seconds[::2], seconds[1::2]
    losses = [[run["losses"] for run in rank[:2]] for rank in runs]
    if options.picture:
        lines = dict(zip(("Pascaline", "Gloo"), losses[0], strict=True))
        bed.draw(options.picture, "step", "loss at rank 0", lines)
    ratios = [theirs / ours for ours, theirs in zip(own, gloo, strict=True)]
    differs = max(abs(ours[-1] - theirs[-1]) for ours, theirs in losses)
    mine, theirs, ratio = (statistics.median(times) for times in (own, gloo, ratios))
    found = {
        **train_bed.speeds(options, mine, theirs, ratio, "hidden"),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "loss_diff_vs_gloo": differs,
        "losses": [round(losses[0][0][at], 4) for at in (0, -1)],
        "calls": runs[0][0]["calls"],
    }
    conditions = {
        "the loss falls": losses[0][0][-1] < losses[0][0][0],
        f"losses are those of Gloo up to {_NEAR}": differs < _NEAR,
        "every step goes through the appliance": found["calls"]["appliance"] >= options.steps,
    }
    return train_bed.judge(found, conditions)


def text(found: dict[str, Any]) -> str:
    return (
        f"{train_bed.speed_text(found)} ({', '.join(map(str, found['ratios']))})\n"
        f"loss {found['losses'][0]} → {found['losses'][1]}, over Gloo the same up to"
        f" {found['loss_diff_vs_gloo']:.1e}"
    )
