"""Hands programs the Work that a group has made, where PyTorch would hand on less than it knows.

PyTorch's C++ (2.15) puts what a backend in Python returns into an object of its own, `PyWorkHolder` in
`py/PyProcessGroup.hpp`, which asks that Work for `wait()` and `get_future()` alone: `is_completed()` would
stay false, and Gloo's `source_rank()` lost. So the calls of a ProcessGroup from Python return the Work
itself, if one of this package's groups has made it. Calls from C++, such as those of
DistributedDataParallel, need no more than the two.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

_CALLS = (
    "_allgather_base",
    "_reduce_scatter_base",
    "all_gather_single",
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce",
    "allreduce_coalesced",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
)


class _Latest(threading.local):
    """The work that a group has made during the present call of this thread."""

    work: Any = None


_LATEST = _Latest()


def made(work: Any) -> Any:
    """Notes what a call returns. Of several, the last one counts."""
    _LATEST.work = work
    return work


def _handing_on(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def handing_on(self: Any, *arguments: Any, **more: Any) -> Any:
        _LATEST.work = None
        try:
            work = call(self, *arguments, **more)
            return work if _LATEST.work is None else _LATEST.work
        finally:
            _LATEST.work = None

    # To C++, a function in Python is a user's own version of the call, unless one of that name is what calls
    # it: without the name, a class of Python's that inherits the call would call itself without end.
    handing_on.__code__ = handing_on.__code__.replace(co_name=name)
    return functools.wraps(call)(handing_on)


def install() -> None:
    """Once, for all groups: those of other backends return what they always have."""
    for name in _CALLS:
        setattr(dist.ProcessGroup, name, _handing_on(name, getattr(dist.ProcessGroup, name)))
