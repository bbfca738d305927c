"""Ray Train with the backend "pascaline": Ray starts the workers, an appliance adds up their gradients.

    PASCALINE_URL='pascaline://10.77.0.254:16420?job=1' python clients/examples/train/ray_train.py --workers 2

Two lines make it go through the network: the hook that imports `pascaline.torch` in each worker's process,
and the backend's name in TorchConfig. The job has as many ranks as there are workers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
from ray.train import Checkpoint
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def load() -> None:
    """Runs before a worker makes its group."""
    import pascaline.torch  # noqa: F401


def train(options: dict[str, Any]) -> None:
    """What each worker does."""
    import torch
    import torch.distributed as dist

    import pascaline.torch

    torch.manual_seed(options["seed"])
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    net = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    )
    truth = torch.randn(64, 8, generator=torch.Generator().manual_seed(options["seed"]))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for number in range(options["steps"]):
        source = torch.Generator().manual_seed(number * ranks + rank)
        seen = torch.randn(32, 64, generator=source)
        loss = torch.nn.functional.mse_loss(net(seen), seen @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    # All ranks must have the same bits: the largest and the smallest of each weight are equal.
    weights = torch.cat([weight.detach().flatten() for weight in net.parameters()])
    most, least = weights.clone(), weights.clone()
    dist.all_reduce(most, dist.ReduceOp.MAX)
    dist.all_reduce(least, dist.ReduceOp.MIN)
    group = pascaline.torch.group_of()
    told = {
        "losses": [losses[0], losses[-1]],
        "equal": bool(torch.equal(most, least)),
        "calls": dict(group.calls),
        "backend": dist.get_backend(),
    }
    # Ray keeps what is reported with a checkpoint.
    with tempfile.TemporaryDirectory() as directory:
        torch.save(net.state_dict(), Path(directory) / "weights.pt")
        checkpoint = Checkpoint.from_directory(directory) if rank == 0 else None
        ray.train.report(told, checkpoint=checkpoint)


def main() -> None:
    """Starts a cluster on this machine, unless there is one (RAY_ADDRESS), and trains on it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=2, help="workers, ranks of the job (%(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps of training (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    options = parser.parse_args()
    variables = {
        name: os.environ[name] for name in ("PASCALINE_URL", "GLOO_SOCKET_IFNAME") if name in os.environ
    }
    ray.init(
        num_cpus=None if "RAY_ADDRESS" in os.environ else options.workers + 1,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"worker_process_setup_hook": load, "env_vars": variables},
    )
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": options.steps, "seed": options.seed},
        torch_config=TorchConfig(backend="pascaline", timeout_s=60),
        scaling_config=ray.train.ScalingConfig(num_workers=options.workers),
        run_config=ray.train.RunConfig(storage_path=tempfile.mkdtemp(prefix="pascaline-ray-")),
    )
    found = dict(trainer.fit().metrics or {})
    names = ("losses", "equal", "calls", "backend")
    sys.stdout.write(json.dumps({name: found.get(name) for name in names} | {"ray": ray.__version__}) + "\n")
    ray.shutdown()


if __name__ == "__main__":
    main()
