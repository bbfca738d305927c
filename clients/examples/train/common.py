"""What the examples of training share: the place of a rank, and its output during training.

Started as torchrun starts programs: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment, and
PASCALINE_URL beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import pascaline.torch
from trace_steps import Trace

RANK = int(os.environ["RANK"])
RANKS = int(os.environ["WORLD_SIZE"])


def arguments(text: str, steps: int) -> argparse.ArgumentParser:
    """The options of every example."""
    parser = argparse.ArgumentParser(description=text, allow_abbrev=False)
    parser.add_argument("--steps", type=int, default=steps, help="steps of training (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of an operation (%(default)s)")
    parser.add_argument(
        "--backends",
        nargs="+",
        default=["pascaline"],
        help="of torch.distributed, one training after the other with each (%(default)s)",
    )
    hooks = ["none", "mean", "bf16", "fp16", "mxint8", "mxfp8"]
    parser.add_argument("--hook", choices=hooks, default="none", help="of DDP (%(default)s)")
    parser.add_argument(
        "--feedback", action="store_true", help="what the hook's rounding leaves comes with the next step"
    )
    parser.add_argument(
        "--bucket-mb", type=float, default=25.0, help="of gradients in one allreduce (%(default)s)"
    )
    parser.add_argument(
        "--trace",
        type=Path,
        help="rank 0 draws a few steps of the first training, if that is over pascaline, into this PNG",
    )
    parser.add_argument("--save", help="rank 0 writes the weights of each training to FILE.0, FILE.1, ...")
    return parser


@contextmanager
def group(backend: str, number: int, timeout: float) -> Iterator[None]:
    """The group of all ranks; each training has one of its own."""
    place = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + number}"
    dist.init_process_group(
        backend, init_method=place, rank=RANK, world_size=RANKS, timeout=timedelta(seconds=timeout)
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def descent(weights: Any) -> torch.optim.Optimizer:
    """The default optimizer."""
    return torch.optim.SGD(weights, lr=0.02, momentum=0.9)


def trainings(
    options: argparse.Namespace,
    model: Callable[[], Any],
    step: Callable[[Any, int], float],
    change: Callable[[Any], torch.optim.Optimizer] = descent,
    wrap: Callable[[Any], Any] | None = None,
) -> None:
    """Trains anew with each backend. `step` makes the gradients of one step and returns the loss.

    wrap: makes the network one of all ranks, if that is not DistributedDataParallel; hooks and `--save` are
    the latter's.
    """
    torch.set_num_threads(1)
    for number, backend in enumerate(options.backends):
        with group(backend, number, options.timeout):
            torch.manual_seed(options.seed)
            traced = options.trace and number == 0 and backend == "pascaline"
            trace = Trace(options.steps // 2) if traced else None
            net = wrap(model()) if wrap else _data_parallel(options, model(), backend, trace)
            names = {"run": number, "backend": backend}
            _train(options, net, step, change(net.parameters()), names, trace)
            if options.save and RANK == 0 and not wrap:
                torch.save(net.module.state_dict(), f"{options.save}.{number}")


def _data_parallel(options: argparse.Namespace, net: Any, backend: str, trace: Trace | None) -> Any:
    net = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=options.bucket_mb)
    hook = getattr(pascaline.torch.hooks, "mean" if options.hook == "none" else options.hook)
    state = pascaline.torch.hooks.Buckets(feedback=options.feedback)
    if trace:
        net.register_comm_hook(state, trace.hook(hook))
    elif (options.hook != "none" or options.trace) and backend == "pascaline":
        # As in the traced training: dividing after the sum would give other bits.
        net.register_comm_hook(state, hook)
    return net


def _train(
    options: argparse.Namespace,
    net: Any,
    step: Callable[[Any, int], float],
    optimizer: torch.optim.Optimizer,
    names: dict[str, Any],
    trace: Trace | None,
) -> None:
    losses = []
    logs = _logs(options, names)
    dist.barrier()
    begun = time.perf_counter()
    for number in range(options.steps):
        if trace and RANK == 0:
            trace.step(number)
        optimizer.zero_grad()
        losses.append(step(net, number))
        optimizer.step()
        if logs:
            logs.add_scalar("loss", losses[-1], number + 1)
        say({"step": number + 1, "of": options.steps, "loss": losses[-1], **names})
    if logs:
        logs.close()
    dist.barrier()
    seconds = time.perf_counter() - begun
    calls = {}
    if names["backend"] == "pascaline":
        found = pascaline.torch.group_of()
        calls = dict(found.calls) | {
            "packets": found.worker.statistics()["packets_sent"] if found.worker else 0
        }
    if trace and RANK == 0:
        names["trace"] = trace.write(options.trace)
    say({"done": True, "seconds": seconds, "losses": losses, "calls": calls, **names}, every_rank=True)


def _logs(options: argparse.Namespace, names: dict[str, Any]) -> Any:
    """TensorBoard's own writer, if rank 0 is to write."""
    if RANK != 0 or not getattr(options, "tensorboard", None):
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(f"{options.tensorboard}/{names['run']}-{names['backend']}")


def say(what: dict[str, Any], *, every_rank: bool = False) -> None:
    """A line of JSON."""
    if RANK == 0 or every_rank:
        sys.stdout.write(json.dumps({"rank": RANK, **what}) + "\n")
        sys.stdout.flush()
