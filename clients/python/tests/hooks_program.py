"""One rank that trains with a hook of PyTorch's own: `hooks_program.py HOOK`, for test_futures.py.

The same training runs over Gloo in the same processes; the weights must end alike but for rounding.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

import pascaline.torch  # noqa: F401  (registers the backend)

_STEPS = 20


def _mend_pytorch() -> None:
    """PyTorch 2.15's batched hook passes one matrix to a function that demands a stack of them."""
    own = powerSGD_hook._orthogonalize

    def orthogonalize(matrices: torch.Tensor, epsilon: float = 0) -> None:
        own(matrices.unsqueeze(0) if matrices.dim() == 2 else matrices, epsilon)

    powerSGD_hook._orthogonalize = orthogonalize


def _register(model: Any, name: str, group: Any) -> None:
    power = {"start_powerSGD_iter": 2, "matrix_approximation_rank": 2, "min_compression_rate": 1}
    states = {
        "powerSGD_hook": lambda: powerSGD_hook.PowerSGDState(group, **power),
        "batched_powerSGD_hook": lambda: powerSGD_hook.PowerSGDState(group, **power),
        "post_localSGD_hook": lambda: post_localSGD_hook.PostLocalSGDState(group, group, 10),
    }
    rooms = (default_hooks, powerSGD_hook, post_localSGD_hook, quantization_hooks)
    hook = next(getattr(room, name) for room in rooms if hasattr(room, name))
    model.register_comm_hook(states[name]() if name in states else group, hook)


def train(name: str, group: Any) -> list[torch.Tensor]:
    """The weights after some steps."""
    torch.manual_seed(3)
    layers: Any = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.ReLU(), torch.nn.Linear(48, 8))
    if name == "batched_powerSGD_hook":
        # It makes a square of each bucket, which PyTorch cannot make longer: one of 40² gradients.
        layers = torch.nn.Linear(32, 50, bias=False)
    model = torch.nn.parallel.DistributedDataParallel(layers, process_group=group, bucket_cap_mb=0.005)
    _register(model, name, group)
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    torch.manual_seed(100 + dist.get_rank())
    for _ in range(_STEPS):
        optimiser.zero_grad()
        inputs = torch.rand(16, 32)
        (model(inputs)[:, :8] - inputs[:, :8]).square().mean().backward()
        optimiser.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def main() -> None:
    """Trains twice, and compares."""
    _mend_pytorch()
    dist.init_process_group("pascaline", timeout=timedelta(seconds=30))
    here = train(sys.argv[1], dist.group.WORLD)
    there = train(sys.argv[1], dist.new_group(backend="gloo"))
    difference = max(float((one - other).abs().max()) for one, other in zip(here, there, strict=True))
    assert difference < 1e-5, difference
    dist.destroy_process_group()
    print(f"right: {difference:.1e}", flush=True)


if __name__ == "__main__":
    main()
