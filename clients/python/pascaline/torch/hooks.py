"""What DistributedDataParallel may be given to reduce its buckets: `model.register_comm_hook(None, hook)`.

All of them divide by the number of ranks in the network, and give each bucket its place among the layers:
DistributedDataParallel fills the first bucket with the last layers, whose gradients are needed last. Those
that round have what they leave added to the bucket's next gradients, if `Buckets(feedback=True)` is passed in
place of None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .._core import Feedback
from ._group import group_of


class Buckets:
    """A hook's state: one for each model.

    group: of which the mean is, if not of all ranks. feedback: what rounding leaves of a bucket is kept,
    eight bytes for each element, and added to its next gradients.
    """

    def __init__(self, group: Any = None, *, feedback: bool = False) -> None:
        self.group = group
        # As the hooks learn it.
        self.count = 1
        self._keeps = feedback
        # By bucket, with the parameters that are in it.
        self._kept: dict[int, tuple[list[int], Feedback]] = {}

    def kept(self, bucket: Any) -> Feedback | None:
        """The rounding error of this bucket; none if DistributedDataParallel has filled it anew."""
        if not self._keeps:
            return None
        index, inside = bucket.index(), [id(parameter) for parameter in bucket.parameters()]
        if index not in self._kept or self._kept[index][0] != inside:
            self._kept[index] = inside, Feedback()
        return self._kept[index][1]


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


@annotated
def mxint8(state: Buckets | None, bucket: Any) -> Any:
    """In a quarter of the bytes: OCP MXINT8, 7 bits and sign, and a scale for 32 gradients."""
    return _reduce(state, bucket, "mxint8")


@annotated
def mxfp8(state: Buckets | None, bucket: Any) -> Any:
    """The same as OCP MXFP8 (E4M3): fewer digits, and small gradients beside large ones keep theirs."""
    return _reduce(state, bucket, "mxfp8")


def _reduce(state: Buckets | None, bucket: Any, wire: str | None) -> Any:
    state = state or _USUAL
    group = state.group or dist.group.WORLD
    count = bucket.index() + 1
    # The last one knows how many there are, in this model and from this step on.
    state.count = count if bucket.is_last() else max(state.count, count)
    buffer = bucket.buffer()
    narrow = {"wire": wire, "feedback": state.kept(bucket)} if wire else {}
    work = group_of(group, buffer.device).mean_of_bucket(
        buffer, layer=state.count - bucket.index(), layers=state.count, **narrow
    )
    return work.get_future().then(lambda done: done.value()[0])
