"""When the first layers' gradients arrive: with a stream of their own, and in the same stream as all others.

    torchrun --nproc-per-node 2 clients/examples/train/arrival.py --steps 10

DistributedDataParallel reduces the last layers first, and the first layers last, whose weights the next step
needs first. With `streams=2` in PASCALINE_URL, hooks.mean lets the latter overtake. The appliance admits the
next job's number, too.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

import torch
from torch import nn

import common
import pascaline.torch

WIDE, BATCH = 512, 16


class Stopwatch:
    """How long after the first bucket has left the mean of the last one is there, step by step."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._begun = 0.0

    def hook(self, state: Any, bucket: Any) -> Any:
        """As hooks.mean, timed."""
        if bucket.index() == 0:
            self._begun = time.perf_counter()
        future, last = pascaline.torch.hooks.mean(state, bucket), bucket.is_last()

        def done(ended: Any) -> Any:
            if last:
                self.took.append(1e3 * (time.perf_counter() - self._begun))
            return ended.value()

        return future.then(done)


def train(options: Any, turn: int, streams: int) -> None:
    """One training; the first steps count for nothing, since the buckets are made anew after one."""
    pascaline.torch.configure(f"{os.environ['PASCALINE_URL']}&streams={streams}")
    with common.group("pascaline", 2 * turn + streams - 1, options.timeout):
        torch.manual_seed(options.seed)
        layers = [nn.Linear(WIDE, WIDE) for _ in range(options.layers)]
        whole = nn.Sequential(*layers)
        net = torch.nn.parallel.DistributedDataParallel(whole, bucket_cap_mb=options.bucket_mb)
        watch = Stopwatch()

        def timed(state: Any, bucket: Any) -> Any:
            return watch.hook(state, bucket)

        net.register_comm_hook(pascaline.torch.hooks.Buckets(), pascaline.torch.hooks.annotated(timed))
        optimizer = common.descent(net.parameters())
        source = torch.Generator().manual_seed(options.seed + common.RANK)
        took = []
        for step in range(options.steps + 2):
            optimizer.zero_grad()
            begun = time.perf_counter()
            loss = net(torch.randn(BATCH, WIDE, generator=source)).square().mean()
            loss.backward()
            optimizer.step()
            took.append(1e3 * (time.perf_counter() - begun))
            common.say({"run": turn, "backend": f"{streams} streams", "step": step, "loss": loss.item()})
        weights = float(sum(part.double().sum() for part in net.parameters()))
        found = {"first_layers_ms": statistics.median(watch.took[2:]), "step_ms": statistics.median(took[2:])}
        common.say({"done": True, "streams": streams, "weights": weights, **found}, every_rank=True)


def main() -> None:
    """Trains in turns."""
    parser = common.arguments("When the first layers' gradients arrive", 10)
    parser.add_argument("--layers", type=int, default=10, help="of 1 MiB each (%(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="trainings with either (%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for turn in range(options.turns):
        for streams in (1, 2):
            train(options, turn, streams)


if __name__ == "__main__":
    main()
