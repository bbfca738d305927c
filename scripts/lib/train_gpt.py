"""scripts/train gpt: a small GPT on the project's documents, through an appliance and over Gloo."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import programs
import train_bed
from appliance_shaped import configuration
from build import ROOT
from process import Child, Stop
from train_bed import Bed, watch
from train_ddp import KEYS

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


def add(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    train_bed.add_sizes(parser, 200)
    train_bed.add_width(parser, "--wide", 64, "width of the layers")
    train_bed.add_width(parser, "--layers", 2, "layers of attention")
    train_bed.add_links(parser)
    train_bed.add_hook(parser)
    parser.add_argument(
        "--tensorboard", type=Path, metavar="DIR", help="write losses for TensorBoard below this directory"
    )


def train(options: argparse.Namespace, bed: Bed, stop: Stop) -> dict[str, Any]:
    """Two trainings in the same processes."""
    network = bed.network(options.workers, options.mbit)
    bed.appliance(
        network, configuration(network, options.workers, 512, 4096, 512, "net_kernel0,iface=pas0"), stop
    )
    words: list[object] = ["--backends", *_BACKENDS]
    for name in ("steps", "wide", "layers", "seed", "hook"):
        words += [f"--{name}", getattr(options, name)]
    words += ["--feedback"] * options.feedback
    if options.tensorboard:
        words += ["--tensorboard", options.tensorboard.resolve()]
    children = bed.ranks(network, ROOT / "clients/examples/train/gpt.py", words, KEYS)
    watch(children, len(_BACKENDS), stop)
    return _judge(options, bed, children)


def _judge(options: argparse.Namespace, bed: Bed, children: list[Child]) -> dict[str, Any]:
    runs = [[said for said in programs.objects(child) if said.get("done")] for child in children]
    # The slowest rank's time is the training's; a loss is the mean of what all ranks have read.
    seconds = [max(run[number]["seconds"] for run in runs) for number in range(len(_BACKENDS))]
    losses = [
        [sum(step) / len(step) for step in zip(*(run[number]["losses"] for run in runs), strict=True)]
        for number in range(len(_BACKENDS))
    ]
    if options.picture:
        bed.draw(
            options.picture,
            "step",
            "loss, nats a character",
            dict(zip(("Pascaline", "Gloo"), losses, strict=True)),
        )
    calls = runs[0][0]["calls"]
    last = [sum(loss[-10:]) / len(loss[-10:]) for loss in losses]
    found = {
        "loss_first": round(losses[0][0], 4),
        "loss_last": round(last[0], 4),
        "gloo_loss_last": round(last[1], 4),
        "steps_per_s": round(options.steps / seconds[0], 2),
        "gloo_steps_per_s": round(options.steps / seconds[1], 2),
        "ratio": round(seconds[1] / seconds[0], 3),
        "workers": options.workers,
        "steps": options.steps,
        "mbit": options.mbit,
        "hook": options.hook,
        "feedback": options.feedback,
        "calls": calls,
    }
    conditions = {
        "the loss falls by a fifth": last[0] < 0.8 * losses[0][0],
        f"both end within {_NEAR} of each other": abs(last[0] - last[1]) < _NEAR,
        "every step goes through the appliance": calls["appliance"] >= options.steps,
    }
    train_bed.judge(found, conditions)
    return found


def text(found: dict[str, Any]) -> str:
    """For people."""
    return (
        f"{found['steps']} steps of {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"Pascaline {found['steps_per_s']} steps/s, Gloo {found['gloo_steps_per_s']}:"
        f" {found['ratio']} times\n"
        f"loss {found['loss_first']} → {found['loss_last']}; over Gloo {found['gloo_loss_last']}"
    )
