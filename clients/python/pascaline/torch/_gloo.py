"""Gloo, for what an appliance does not do."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from ._works import made


def gloo(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """A group of Gloo's."""
    return dist.ProcessGroupGloo(store, rank, size, timeout=timeout)


class OverGloo(c10d.Backend):
    """A backend whose calls are a group of Gloo's, but for those that a subclass has."""

    def __init__(self, group: Any, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self._gloo = group
        # How many calls went which way.
        self.calls = {"appliance": 0, "gloo": 0}
        self._counting = threading.Lock()

    def _count(self, **more: int) -> None:
        with self._counting:
            for way, calls in more.items():
                self.calls[way] += calls

    def _over_gloo(self, call: str, *arguments: Any) -> Any:
        self._count(gloo=1)
        return made(getattr(self._gloo, call)(*arguments))

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
