"""scripts/train arrival: when the first layers' gradients are there, with a stream of their own or not."""

import argparse
import statistics
from typing import Any

import train_bed
from quantities import between
from train_bed import Bed

DESCRIPTION = """\
Times when the mean of the first layers' gradients is there. DistributedDataParallel reduces them last and the
next step needs them first: in the line of all buckets, and in a stream of their own (`streams=2`), in turns.
"""
EXAMPLES = """\
Examples:
  scripts/train arrival --json
  scripts/train arrival --workers 4 --mbit 1000 --layers 20 --turns 5
"""


OPTIONS = {"workers": 4, "steps": 10, "seed": 1, "turns": 3, "layers": 10, "bucket-mb": 1.0, "mbit": 200}
OWN = {"turns": (between(1, 2**16), "trainings with either"), "layers": (between(1, 2**16), "of 1 MiB each")}


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    words = train_bed.words(options, "steps", "turns", "layers", "bucket-mb", "seed")
    # Sums in the order of ranks: two trainings have the same bits.
    job = {"id": 2, "name": "urgent"}
    runs = train_bed.run(options, bed, "arrival", options.turns, words, order="rank", job=job)
    first, steps = (train_bed.slowest(runs, key) for key in ("first_layers_ms", "step_ms"))
    weights = {run["weights"] for rank in runs for run in rank}
    arrivals = [own / line for own, line in zip(first[1::2], first[::2], strict=True)]
    ratios = [own / line for own, line in zip(steps[1::2], steps[::2], strict=True)]
    found = {
        "first_layers_ms": round(statistics.median(first[1::2]), 1),
        "in_line_ms": round(statistics.median(first[::2]), 1),
        "earlier_pct": round(100 * (1 - statistics.median(arrivals)), 1),
        "each_pct": [round(100 * (1 - share), 1) for share in arrivals],
        "step_ratio": round(statistics.median(ratios), 3),
        "same_weights": len(weights) == 1,
        "workers": options.workers,
        "layers": options.layers,
        "mbit": options.mbit,
    }
    return train_bed.judge(found, {"all trainings end with the same weights": len(weights) == 1})


def text(found: dict[str, Any]) -> str:
    return (
        f"{found['layers']} layers of 1 MiB, {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"the first layers' gradients are there after {found['first_layers_ms']} ms in a stream of their own,"
        f" after {found['in_line_ms']} ms without: {found['earlier_pct']} % earlier"
        f" ({', '.join(map(str, found['each_pct']))}); a step takes {found['step_ratio']} times as long"
    )
