"""scripts/train arrival: when the first layers' gradients are there, with a stream of their own or not."""

from __future__ import annotations

import argparse
import re
import statistics
from typing import Any

import programs
import train_bed
from appliance_shaped import configuration
from build import ROOT
from process import Failure, Stop
from train_bed import Bed, watch
from train_ddp import KEYS

DESCRIPTION = """\
Times when the mean of the first layers' gradients is there. DistributedDataParallel reduces them last and the
next step needs them first: in the line of all buckets, and in a stream of their own (`streams=2`), in turns.
"""
EXAMPLES = """\
Examples:
  scripts/train arrival --json
  scripts/train arrival --workers 4 --mbit 1000 --layers 20 --turns 5
"""
# Sums in the order of ranks: two trainings differ by nothing.
_ORDER = '\norder = "rank"\nfan_in'


def add(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    train_bed.add_sizes(parser, 10)
    train_bed.add_width(parser, "--turns", 3, "trainings with either")
    train_bed.add_width(parser, "--layers", 10, "of 1 MiB each")
    train_bed.add_bucket(parser, 1.0)
    train_bed.add_links(parser)


def train(options: argparse.Namespace, bed: Bed, stop: Stop) -> dict[str, Any]:
    """Trainings in turns, in the same processes."""
    if options.picture:
        raise Failure("scripts/train arrival draws nothing: no --picture")
    network = bed.network(options.workers, options.mbit)
    text = configuration(network, options.workers, 512, 4096, 512, "net_kernel0,iface=pas0")
    text = text.replace("\nfan_in", _ORDER)
    found = re.search(r"\[\[jobs\]\].*?(?=\[telemetry\])", text, re.DOTALL)
    assert found
    second = found[0].replace("id = 1\n", "id = 2\n").replace('"bench"', '"urgent"')
    bed.appliance(network, text.replace(found[0], found[0] + second), stop)
    words: list[object] = []
    for name in ("steps", "turns", "layers", "bucket-mb", "seed"):
        words += [f"--{name}", getattr(options, name.replace("-", "_"))]
    children = bed.ranks(network, ROOT / "clients/examples/train/arrival.py", words, KEYS)
    watch(children, options.turns, stop)
    runs = [[said for said in programs.objects(child) if said.get("done")] for child in children]
    slowest = [
        {key: max(run[number][key] for run in runs) for key in ("first_layers_ms", "step_ms")}
        for number in range(2 * options.turns)
    ]
    return _judge(options, slowest, {run["weights"] for rank in runs for run in rank})


def _judge(
    options: argparse.Namespace, slowest: list[dict[str, float]], weights: set[float]
) -> dict[str, Any]:
    line, stream = slowest[::2], slowest[1::2]

    def ratio(key: str) -> list[float]:
        return [one[key] / other[key] for one, other in zip(stream, line, strict=True)]

    arrivals, steps = ratio("first_layers_ms"), ratio("step_ms")
    found = {
        "first_layers_ms": round(statistics.median(run["first_layers_ms"] for run in stream), 1),
        "in_line_ms": round(statistics.median(run["first_layers_ms"] for run in line), 1),
        "earlier_pct": round(100 * (1 - statistics.median(arrivals)), 1),
        "each_pct": [round(100 * (1 - share), 1) for share in arrivals],
        "step_ratio": round(statistics.median(steps), 3),
        "same_weights": len(weights) == 1,
        "workers": options.workers,
        "layers": options.layers,
        "mbit": options.mbit,
    }
    train_bed.judge(found, {"all trainings end with the same weights": len(weights) == 1})
    return found


def text(found: dict[str, Any]) -> str:
    """For people."""
    return (
        f"{found['layers']} layers of 1 MiB, {found['workers']} ranks, links of {found['mbit']} Mbit/s\n"
        f"the first layers' gradients are there after {found['first_layers_ms']} ms in a stream of their own,"
        f" after {found['in_line_ms']} ms without: {found['earlier_pct']} % earlier"
        f" ({', '.join(map(str, found['each_pct']))}); a step takes {found['step_ratio']} times as long"
    )
