"""Arrays of NumPy and tensors of PyTorch as bytes in one piece, without a copy where possible."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ArgumentError

TRAVELS = ("float32", "float64", "int32", "uint32", "float16", "bfloat16")
_BARE = np.dtype(np.uint8)


@dataclass(frozen=True)
class Lent:
    """The bytes of an array."""

    dtype: str
    data: np.ndarray
    elements: int
    # Brings the bytes back to the array where they are a copy.
    put_back: Callable[[], None] | None = None


def lend(array: Any, *, any_type: bool = False) -> Lent:
    """The bytes of an array that an operation may write to. `any_type`: they are not summed.

    An array that is not in one piece is copied, and the result copied back.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _lend_tensor(torch, array, any_type=any_type)
    if not isinstance(array, np.ndarray):
        kind = type(array).__name__
        raise ArgumentError(
            f"a {kind} is neither a NumPy array nor a PyTorch tensor: results are written into the array"
        )
    dtype = _checked(array.dtype.name, any_type=any_type)
    if not array.flags["W"]:
        raise ArgumentError("the array cannot be written to, and results are written into it: pass a copy")
    if not array.dtype.isnative:
        raise ArgumentError(f"elements of {array.dtype} have the other byte order: pass a native array")
    if array.flags.c_contiguous:
        return Lent(dtype, array.reshape(-1).view(_BARE), array.size)
    copy = np.ascontiguousarray(array)

    def put_back() -> None:
        array[...] = copy

    return Lent(dtype, copy.reshape(-1).view(_BARE), array.size, put_back)


def _lend_tensor(torch: Any, tensor: Any, *, any_type: bool) -> Lent:
    dtype = _checked(str(tensor.dtype).removeprefix("torch."), any_type=any_type)
    if tensor.layout != torch.strided:
        raise ArgumentError(f"a tensor of layout {tensor.layout} has no plain memory: pass tensor.to_dense()")
    whole = tensor.detach()
    if tensor.device.type == "cpu" and whole.is_contiguous():
        return Lent(dtype, _bytes_of(torch, whole), whole.numel())
    # Pinned, so that the copies are what the device does best.
    copy = torch.empty(whole.shape, dtype=whole.dtype, pin_memory=tensor.device.type == "cuda")
    copy.copy_(whole)

    def put_back() -> None:
        whole.copy_(copy)

    return Lent(dtype, _bytes_of(torch, copy), whole.numel(), put_back)


def _bytes_of(torch: Any, tensor: Any) -> np.ndarray:
    if tensor.numel() == 0:
        return np.empty(0, _BARE)
    # The stride of a single element may be any.
    found: np.ndarray = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()
    return found


def _checked(dtype: str, *, any_type: bool) -> str:
    if dtype in TRAVELS:
        return dtype
    if any_type and dtype not in ("object", "str"):
        return "int32"
    raise ArgumentError(
        f"elements of {dtype} are not summed by an appliance; convert to one of {', '.join(TRAVELS)}"
    )
