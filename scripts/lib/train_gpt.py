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
    parser.add_argument("--workers", type=int, default=4, help="ranks (%(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of each training (%(default)s)")
    parser.add_argument("--wide", type=int, default=64, help="width of the layers (%(default)s)")
    parser.add_argument("--layers", type=int, default=2, help="layers of attention (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    parser.add_argument(
        "--mbit", type=int, default=200, help="rate of each worker's link; 0: as it is (%(default)s)"
    )
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
    children = bed.ranks(network, ROOT / "examples/train/gpt.py", words, KEYS)
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
    learned = last[0] < 0.8 * losses[0][0]
    found["ok"] = bool(learned and abs(last[0] - last[1]) < _NEAR and calls["appliance"] >= options.steps)
    return found


def text(found: dict[str, Any]) -> str:
    """For people."""
    return (
        f"{found['steps']} steps of {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"Pascaline {found['steps_per_s']} steps/s, Gloo {found['gloo_steps_per_s']}:"
        f" {found['ratio']} times\n"
        f"loss {found['loss_first']} → {found['loss_last']}; over Gloo {found['gloo_loss_last']}"
    )
