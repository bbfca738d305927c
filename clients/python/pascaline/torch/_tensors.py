"""What a group asks about tensors and operations of PyTorch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

# PyTorch's operations that the appliance has, too.
OPS = {"SUM": "sum", "AVG": "mean", "MIN": "min", "MAX": "max"}


def named(op: Any) -> str:
    """The name of an operation, or "other"."""
    return next((name for name in OPS if op == getattr(dist.ReduceOp, name)), "other")


def type_of(tensor: Any) -> str:
    """The name of its elements' type."""
    return str(tensor.dtype).removeprefix("torch.")


def summed_as(tensor: Any, op: str) -> str:
    """The type as which an appliance combines its elements: sums of signed integers are to wrap."""
    return "uint32" if tensor.dtype == torch.int32 and op == "SUM" else type_of(tensor)


def plain(tensor: Any) -> bool:
    """Whether it has plain memory."""
    return bool(tensor.layout == torch.strided)


def is_here(tensor: Any) -> bool:
    """Whether it lies in the host's memory, and not on a device."""
    return bool(tensor.device.type == "cpu")


def flat(tensor: Any) -> Any:
    """Its elements in one piece: a copy, if they are not."""
    # A single element is in one piece whatever its stride, with which its bytes could not be seen.
    return tensor.detach().contiguous().as_strided((tensor.numel(),), (1,))


def seconds(timeout: timedelta | None) -> float | None:
    """What a call says of its time; usually nothing, which is a negative number."""
    found = timeout.total_seconds() if timeout else 0.0
    return found if found > 0 else None
