"""scripts/train gpt: a small GPT on the project's documents, through an appliance and over Gloo."""

import argparse
from typing import Any

import train_bed
from train_bed import Bed

DESCRIPTION = """\
Trains a small GPT on the text of docs/ with DistributedDataParallel: through an appliance, and over Gloo.
From the same seed, and over the same links.
"""
EXAMPLES = """\
Examples:
  scripts/train gpt --json
  scripts/train gpt --workers 4 --steps 300 --picture target/gpt.png
  scripts/train gpt --hook=bf16 --tensorboard target/gpt-logs
"""
_BACKENDS = ("pascaline", "gloo")
# Two trainings whose sums were rounded differently end as near as this, in nats a character.
_NEAR = 0.1


OPTIONS = {
    "workers": 4, "steps": 200, "seed": 1, "wide": 64, "layers": 2, "mbit": 200, "hook": "none",
    "feedback": False, "tensorboard": None, "picture": None,
}  # fmt: skip


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    words: list[object] = ["--backends", *_BACKENDS]
    words += train_bed.words(options, "steps", "wide", "layers", "seed", "hook", "feedback")
    if options.tensorboard:
        words += ["--tensorboard", options.tensorboard.resolve()]
    runs = train_bed.run(options, bed, "gpt", len(_BACKENDS), words)
    own, gloo = train_bed.slowest(runs)
    # A loss is the mean of what all ranks have read.
    losses = [
        [sum(step) / len(step) for step in zip(*(run[number]["losses"] for run in runs), strict=True)]
        for number in range(len(_BACKENDS))
    ]
    if options.picture:
        lines = dict(zip(("Pascaline", "Gloo"), losses, strict=True))
        bed.draw(options.picture, "step", "loss, nats a character", lines)
    calls = runs[0][0]["calls"]
    last = [sum(loss[-10:]) / len(loss[-10:]) for loss in losses]
    found = {
        "loss_first": round(losses[0][0], 4),
        "loss_last": round(last[0], 4),
        "gloo_loss_last": round(last[1], 4),
        **train_bed.speeds(options, own, gloo, gloo / own, "hook", "feedback"),
        "calls": calls,
    }
    conditions = {
        "the loss falls by a fifth": last[0] < 0.8 * losses[0][0],
        f"both end within {_NEAR} of each other": abs(last[0] - last[1]) < _NEAR,
        "every step goes through the appliance": calls["appliance"] >= options.steps,
    }
    return train_bed.judge(found, conditions)


def text(found: dict[str, Any]) -> str:
    return (
        f"{train_bed.speed_text(found)}\n"
        f"loss {found['loss_first']} → {found['loss_last']}; over Gloo {found['gloo_loss_last']}"
    )
