"""Gloo, for operations that an appliance does not support."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ._pieces import CopiedBack, Pieces
from ._works import made

# For these the number of elements counts. Gloo looks at the first size of a shape; a scalar has none.
_FLAT = ("reduce_scatter_single", "all_gather_single")


def gloo(store: Any, rank: int, size: int, timeout: timedelta, bind: str | None) -> Any:
    """A group of Gloo's, at the address `bind` unless the environment names an interface."""
    if bind is None or os.environ.get("GLOO_SOCKET_IFNAME"):
        return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = timeout
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=bind)]
    return dist.ProcessGroupGloo(store, rank, size, options)


def local_address(appliance: str) -> str | None:
    """The address of this host from which packets go to the appliance; None if there is no way to it.

    Gloo by itself takes the address of the host's name, which on many systems is 127.0.1.1.
    """
    place = appliance.split(";")[0].split(",")[0]
    host = place if place.count(":") > 1 and not place.startswith("[") else place.partition("]:")[0]
    host = host.strip("[]") if host.count(":") > 1 else host.partition(":")[0]
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM):
            with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
                # connect() of UDP sends no packet.
                probe.connect(address)
                return str(probe.getsockname()[0])
    except OSError:
        return None
    return None


def begin_mean(group: Any, tensor: Any, size: int) -> Callable[[], None]:
    """Begins a mean, of which Gloo itself has none; returns what waits for it.

    float16 is divided by a power of two before the sum, which would overflow; that keeps the bits of all
    normal numbers that remain normal.
    """
    power = 2.0 ** math.ceil(math.log2(size)) if tensor.dtype == torch.float16 else 1.0
    if power > 1.0:
        tensor.div_(power)
    work = group.allreduce([tensor], c10d.AllreduceOptions())

    def finish() -> None:
        work.wait()
        tensor.mul_(power / size) if power > 1.0 else tensor.div_(size)

    return finish


def abandon(group: Any) -> None:
    """Ends a group of Gloo's whose operations may never end.

    Its destructor would wait for them, so the object is never destroyed.
    """
    group.abort()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


class OverGloo(c10d.Backend):
    """A backend that passes its calls to a group of Gloo's, but for those that a subclass overrides."""

    # PyTorch's own attributes of these names would recurse without end in a Python class.
    supports_coalescing = False
    supports_reconfigure = False
    supports_shrinking = False
    supports_splitting = False
    supports_window = False
    _supports_time_estimate = False

    def __init__(self, group: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._gloo = group
        # How many calls went which way.
        self.calls = {"appliance": 0, "gloo": 0}
        self._counting = threading.Lock()

    @property
    def options(self) -> Any:
        """Those of the group of Gloo's."""
        return self._gloo.options

    def _count(self, **more: int) -> None:
        with self._counting:
            for way, calls in more.items():
                self.calls[way] += calls

    def _over_gloo(self, call: str, *arguments: Any) -> Any:
        self._count(gloo=1)
        # Gloo sees where memory begins, and no strides.
        pieces = Pieces(arguments, writes=call != "send", flat=call in _FLAT)
        work = getattr(self._gloo, call)(*pieces.arguments)
        return made(CopiedBack(work, pieces) if pieces.copied else work)

    def allgather_coalesced(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("allgather_coalesced", *arguments)

    def gather(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("gather", *arguments)

    def scatter(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("scatter", *arguments)

    def alltoall(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("alltoall", *arguments)

    def all_to_all_single(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("all_to_all_single", *arguments)

    def allreduce_sparse(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("allreduce", *arguments)

    def send(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("send", *arguments)

    def recv(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("recv", *arguments)

    def recv_anysource(self, *arguments: Any) -> Any:
        """Gloo's."""
        return self._over_gloo("recv_anysource", *arguments)
