"""What the ranks of test_sharded.py run: `sharded_program.py compare FILE`, or `elastic FILE STEP`.

The first trains with FSDP2 and ZeRO, over Gloo and over Pascaline; rank 0 writes all weights to the file. The
second is a training that torchrun starts anew when a rank dies, which it does at that step, and that goes on
from what rank 0 has saved.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import pascaline.torch

STEPS = 20
RATE = 0.05
_BATCH, _INPUT, _HIDDEN = 16, 31, 37


def small_model() -> nn.Sequential:
    """The same weights at every rank."""
    torch.manual_seed(1)
    hidden = (nn.Linear(_INPUT, _HIDDEN), nn.Tanh(), nn.Linear(_HIDDEN, _HIDDEN), nn.Tanh())
    return nn.Sequential(*hidden, nn.Linear(_HIDDEN, 3))


def add_gradients(net: Any, step: int, rank: int) -> None:
    """From numbers that each rank has of its own, the same ones in every training."""
    source = torch.Generator().manual_seed(1000 * step + rank)
    given, wanted = torch.randn(_BATCH, _INPUT, generator=source), torch.randn(_BATCH, 3, generator=source)
    (net(given) - wanted).square().mean().backward()


def _train(net: Any, optimizer: torch.optim.Optimizer, steps: range) -> Iterator[int]:
    for step in steps:
        optimizer.zero_grad()
        add_gradients(net, step, dist.get_rank())
        optimizer.step()
        yield step


def fsdp() -> Any:
    """FSDP2: each rank has a part of each layer's weights, gradients and state."""
    net, mesh = small_model(), init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    for _ in _train(net, torch.optim.AdamW(net.parameters(), lr=0.01), range(STEPS)):
        pass
    return [weights.full_tensor() for weights in net.parameters()]


def zero() -> Any:
    """ZeRO's first stage: each rank has a part of the optimizer's state."""
    net = DistributedDataParallel(small_model())
    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=0.01)
    for _ in _train(net, optimizer, range(STEPS)):
        pass
    return list(net.parameters())


def compare(file: Path) -> None:
    """Each kind of training over both backends."""
    found: dict[str, dict[str, Any]] = {"fsdp": {}, "zero": {}}
    rank, ranks, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    for backend in ("gloo", "pascaline"):
        for name, training in (("fsdp", fsdp), ("zero", zero)):
            # Gloo would find the former group's addresses in the store that torchrun offers.
            port += 1
            place = f"tcp://127.0.0.1:{port}"
            dist.init_process_group(
                backend, init_method=place, rank=rank, world_size=ranks, timeout=timedelta(seconds=30)
            )
            weights = torch.cat([part.detach().reshape(-1) for part in training()])
            found[name][backend] = weights.tolist()
            if backend == "pascaline":
                found[name]["calls"] = pascaline.torch.group_of().calls
            dist.destroy_process_group()
    if rank == 0:
        file.write_text(json.dumps(found))


def elastic(file: Path, dies_at: int) -> None:
    """Rank 1 dies in its first life; the next life goes on from the latest state that rank 0 has saved."""
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    dist.init_process_group("pascaline")
    net = DistributedDataParallel(small_model())
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    first = 0
    if file.exists():
        state = torch.load(file)
        first = state["step"] + 1
        net.module.load_state_dict(state["weights"])
    print(f"life {life} from step {first}", flush=True)
    for step in _train(net, optimizer, range(first, STEPS)):
        if dist.get_rank() == 0:
            torch.save({"step": step, "weights": net.module.state_dict()}, file)
        # No rank continues before the state is on disk.
        dist.barrier()
        if life == 0 and step == dies_at and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    dist.destroy_process_group()


def main() -> None:
    """One rank."""
    torch.set_num_threads(1)
    kind, file, *more = sys.argv[1:]
    if kind == "elastic":
        elastic(Path(file), int(more[0]))
    else:
        compare(Path(file))


if __name__ == "__main__":
    main()
