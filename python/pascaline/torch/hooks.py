"""What DistributedDataParallel may be given to reduce its buckets: `model.register_comm_hook(None, hook)`.

All of them divide by the number of ranks in the network, and give each bucket its place among the layers:
DistributedDataParallel fills the first bucket with the last layers, whose gradients are needed last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from ._group import group_of


class Buckets:
    """How many buckets there are, as the hooks learn it: pass one as the hook's state, or None."""

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.count = 1


_USUAL = Buckets()
_Hook = Callable[[Any, Any], Any]


def annotated(hook: _Hook) -> _Hook:
    """A function of one's own as a hook: DistributedDataParallel wants these annotations, and not as text."""
    hook.__annotations__ |= {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}
    return hook


@annotated
def mean(state: Buckets | None, bucket: Any) -> Any:
    """The mean of every gradient, with the bucket's priority."""
    return _reduce(state, bucket, None)


@annotated
def bf16(state: Buckets | None, bucket: Any) -> Any:
    """The same, in half the bytes: float32 gradients travel as bfloat16."""
    return _reduce(state, bucket, "bfloat16")


@annotated
def fp16(state: Buckets | None, bucket: Any) -> Any:
    """The same as float16: more digits, and no number above 65,504."""
    return _reduce(state, bucket, "float16")


def _reduce(state: Buckets | None, bucket: Any, wire: str | None) -> Any:
    state = state or _USUAL
    group = state.group or dist.group.WORLD
    count = bucket.index() + 1
    # The last one knows how many there are, in this model and from this step on.
    state.count = count if bucket.is_last() else max(state.count, count)
    buffer = bucket.buffer()
    work = group_of(group, buffer.device).mean_of_bucket(
        buffer, wire=wire, layer=state.count - bucket.index(), layers=state.count
    )
    return work.get_future().then(lambda done: done.value()[0])
