"""FSDP2 on generated images: each rank has a part of every layer's weights, gradients and state.

    torchrun --nproc-per-node 2 clients/examples/train/fsdp.py --steps 50

Only the import of `pascaline.torch` and the backend's name refer to the network.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import common
import ddp


def sharded(net: Any) -> Any:
    """Shards each layer separately; it is gathered only while it is needed."""
    mesh = init_device_mesh("cpu", (common.RANKS,))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    return net


def main() -> None:
    """Trains."""
    options = ddp.arguments("FSDP2 on generated images").parse_args()
    common.trainings(options, *ddp.images(options), wrap=sharded)


if __name__ == "__main__":
    main()
