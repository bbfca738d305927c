"""DistributedDataParallel on generated images: ten patterns under noise, told apart by a small network.

    torchrun --nproc-per-node 2 clients/examples/train/ddp.py --steps 50

The one line that makes it go through the network is the import of `pascaline.torch`, with "pascaline" as the
backend.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import common

SIDE, KINDS, BATCH = 28, 10, 32


def arguments(text: str) -> argparse.ArgumentParser:
    """The options of a training on these images."""
    parser = common.arguments(text, 200)
    parser.add_argument("--hidden", type=int, default=256, help="width of the layers (%(default)s)")
    return parser


def images(options: argparse.Namespace) -> tuple[Callable[[], Any], Callable[[Any, int], float]]:
    """What makes the network, and what makes the gradients of one step."""
    patterns = torch.randn(KINDS, SIDE * SIDE, generator=torch.Generator().manual_seed(options.seed))
    loss_of = nn.CrossEntropyLoss()

    def model() -> Any:
        wide = options.hidden
        layers = [
            nn.Linear(SIDE * SIDE, wide),
            nn.ReLU(),
            nn.Linear(wide, wide),
            nn.ReLU(),
            nn.Linear(wide, KINDS),
        ]
        return nn.Sequential(*layers)

    def step(net: Any, number: int) -> float:
        # Each rank has images of its own, the same ones in every run.
        source = torch.Generator().manual_seed(options.seed + number * common.RANKS + common.RANK)
        kinds = torch.randint(KINDS, (BATCH,), generator=source)
        images = patterns[kinds] + 4 * torch.randn(BATCH, SIDE * SIDE, generator=source)
        loss = loss_of(net(images), kinds)
        loss.backward()
        return loss.item()

    return model, step


def main() -> None:
    """Trains."""
    options = arguments("DistributedDataParallel on generated images").parse_args()
    common.trainings(options, *images(options))


if __name__ == "__main__":
    main()
