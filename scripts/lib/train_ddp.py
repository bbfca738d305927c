"""scripts/train ddp: DistributedDataParallel through an appliance, across its restart, and over Gloo."""

import argparse
import json
from typing import Any

import train_bed
from process import run
from train_bed import ROUNDING, Bed

DESCRIPTION = """\
Trains with PyTorch's DistributedDataParallel: twice through an appliance that adds in the order of ranks, the
second time with an appliance that is killed half way and started again, and once over Gloo, from the same
seed.
"""
EXAMPLES = """\
Examples:
  scripts/train ddp --json
  scripts/train ddp --workers 4 --mbit 200 --picture target/ddp.png
  scripts/train ddp --hook=bf16 --steps 50
  scripts/train ddp --steps 40 --hidden 1024 --bucket-mb 1 --trace target/trace.png   # what overlaps
"""


OPTIONS = {
    "workers": 4, "steps": 200, "seed": 1, "hidden": 256, "mbit": 200, "hook": "none", "feedback": False,
    "bucket-mb": 25.0, "trace": None, "no-restart": False, "picture": None,
}  # fmt: skip


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    """Three trainings; in the middle of the second one the appliance is killed and started again."""
    words: list[object] = ["--backends", "pascaline", "pascaline", "gloo", "--save", bed.files / "weights"]
    words += train_bed.words(options, "steps", "hidden", "seed", "hook", "bucket-mb", "feedback")
    if options.trace:
        options.trace.parent.mkdir(parents=True, exist_ok=True)
        words += ["--trace", options.trace.resolve()]
    restarts = 0

    def middle(latest: dict[str, Any]) -> None:
        nonlocal restarts
        second = latest["run"] == 1 and latest.get("step", 0) > options.steps // 3
        if second and not restarts and not options.no_restart:
            bed.appliances["appliance"].kill_and_restart(bed.stop)
            restarts += 1

    runs = train_bed.run(options, bed, "ddp", 3, words, order="rank", each=middle)
    return _judge(options, bed, runs, restarts)


_COMPARE = """
import json, sys, torch
first, second, gloo = (torch.load(f"{sys.argv[1]}.{run}") for run in range(3))
differs = max(float((first[name] - gloo[name]).abs().max()) for name in first)
equal = all(torch.equal(first[name], second[name]) for name in first)
largest = max(float(weight.abs().max()) for weight in first.values())
print(json.dumps({"differs": differs, "equal": equal, "largest": largest}))
"""


def _judge(
    options: argparse.Namespace, bed: Bed, runs: list[list[dict[str, Any]]], restarts: int
) -> dict[str, Any]:
    compare = (str(bed.python), "-c", _COMPARE, str(bed.files / "weights"))
    weights = json.loads(run(*compare, timeout=60).stdout)
    seconds = train_bed.slowest(runs)
    losses = [run["losses"] for run in runs[0]]
    if options.picture:
        names = ("Pascaline", "Pascaline, appliance restarted", "Gloo")
        bed.draw(options.picture, "step", "loss at rank 0", dict(zip(names, losses, strict=True)))
    calls = runs[0][0]["calls"]
    found = {
        "max_weight_diff_vs_gloo": weights["differs"],
        "bit_equal_rank_order": weights["equal"],
        **train_bed.speeds(options, seconds[0], seconds[2], seconds[2] / seconds[0], "hook", "feedback"),
        "largest_weight": weights["largest"],
        "restarts": restarts,
        "calls": calls,
        "losses": [round(losses[0][at], 4) for at in (0, -1)],
    }
    if options.trace:
        found["trace"] = runs[0][0]["trace"]
    conditions = {
        "the two trainings in the order of ranks end with the same bits": weights["equal"],
        "the loss falls": losses[0][-1] < losses[0][0],
        "weights are those of Gloo, up to rounding": options.hook in ROUNDING
        or weights["differs"] < 1e-3 * weights["largest"],
        "every step goes through the appliance": calls["appliance"] >= options.steps,
        "the appliance is restarted once (it takes --steps for that)": options.no_restart or restarts == 1,
    }
    return train_bed.judge(found, conditions)


def text(found: dict[str, Any]) -> str:
    trace = found.get("trace")
    overlap = (
        f"\nallreduces take {trace['allreduce_ms']} ms of a step, of which {trace['hidden_pct']} % lie behind"
        f" computation ({trace['computing_ms']} ms)"
        if trace
        else ""
    )
    return (
        f"{train_bed.speed_text(found)}\n"
        f"weights differ by {found['max_weight_diff_vs_gloo']:.2e} at most, of {found['largest_weight']:.2f};"
        f" two runs in the order of ranks are {'equal' if found['bit_equal_rank_order'] else 'NOT equal'},"
        f" {found['restarts']} restarts of the appliance\n"
        f"loss {found['losses'][0]} → {found['losses'][1]}{overlap}"
    )
