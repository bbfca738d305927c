"""The backend: a group of processes that is a job of an appliance."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .._arrays import TRAVELS, lend
from .._streams import Streams
from .._worker import Handle, Wish, Worker
from . import _ring, _staging
from ._gloo import OverGloo, abandon, begin_mean, gloo, local_address
from ._jobs import Numbers
from ._meeting import compare, meet
from ._operations import Line, Operation, Works
from ._recovery import Recovery
from ._settings import Settings, current
from ._tensors import OPS, flat, named, plain, seconds, summed_as, type_of
from ._works import install, made

# Tensors in the host's memory, and their destinations.
Pairs = list[tuple[Any, Any]]
Parts = Callable[[Any], Pairs]

_GROUPS: dict[int, Group] = {}
# Seconds for joining, which takes one where there is an appliance: it may still be starting.
_JOIN = 60.0
# Seconds that a group which ends gives operations in flight.
_MOMENT = 0.5
# The store of the world's group, where further groups count their jobs.
_WORLD: list[Any] = []


class Group(OverGloo):
    """Collectives through the appliance where it can do them, the rest over Gloo.

    Sums, minima and maxima of float32, float64, float16, bfloat16, int32 and uint32, means of floats;
    broadcast, allgather, barrier; reduce and reduce_scatter. Everything else is Gloo's: other operations and
    types, sparse tensors, send and receive, gather, scatter, all-to-all.
    """

    def __init__(self, options: Any, settings: Settings, job: int, numbers: Numbers | None = None) -> None:
        """numbers: where the job's number came from, for a group beside the world's."""
        rank, size = options.group_rank, options.group_size
        store = dist.PrefixStore("pascaline", options.store)
        bind = local_address(settings.appliance)
        below = gloo(dist.PrefixStore("gloo", store), rank, size, options.timeout, bind)
        super().__init__(below, rank, size)
        self._size, self._rank = size, rank
        self._timeout = options.timeout
        # Operations in Gloo's ring do not wait for those of the appliance.
        self._line, self._round, self._ahead = Line(), Line(), Line()
        self._starts, self._starts_ahead = _staging.Starts(), _staging.Starts()
        self._worker: Worker | None = None
        # A stream of its own for the bucket that is needed first.
        self._urgent: Worker | None = None
        self._streams: Streams | None = None
        self.job = job
        terms = {"timeout": options.timeout.total_seconds()} | settings.worker
        # All ranks are here, those that torchrun has started last, too: they have met in the store.
        terms = {"join_timeout": min(terms["timeout"], _JOIN)} | terms
        recovery = Recovery(settings, store, rank, size, options.timeout, bind)
        if size > 1 and job:

            def join() -> Worker:
                return Worker(settings.appliance, job, rank, size, **terms)

            if settings.streams > 1:
                self._streams = Streams(settings.appliance, job, rank, size, settings.streams, **terms)
                self._worker, self._urgent = self._streams
            else:
                self._worker = recovery.joined(join, self._gloo, spare=numbers is not None)
        self._recovery, self._numbers = recovery, numbers
        _GROUPS[id(self)] = self

    def getBackendName(self) -> str:  # noqa: N802
        """Its name."""
        return "pascaline"

    def name(self) -> str:
        """Its name."""
        return "pascaline"

    def _get_sequence_number_for_group(self) -> int:
        """How many operations there have been, for messages."""
        return sum(self.calls.values())

    @property
    def worker(self) -> Worker | None:
        """The rank at the appliance; None where everything goes over Gloo."""
        return None if self._recovery.over else self._worker

    # ---- through the appliance ----

    def allreduce(self, tensors: list[Any], options: Any) -> Any:
        """Sums, or applies the given operation."""
        tensor, op = tensors[0], named(options.reduceOp)
        if len(tensors) != 1 or not self._takes(tensor, op):
            return self._over_gloo("allreduce", tensors, options)
        return self._allreduce(tensor, op, options.timeout)

    def mean_of_bucket(self, buffer: Any, *, layer: int, layers: int, **narrow: Any) -> Any:
        """For hooks: the mean. The first layers have a stream of their own. narrow: `wire` and `feedback`."""
        if self._worker is not None and not self._takes(buffer, "AVG"):
            return self._mean_over_gloo(buffer)
        more = {"layer": layer, "layers": layers} | (narrow if buffer.dtype == torch.float32 else {})
        if layer != 1 or self._urgent is None:
            return self._allreduce(buffer, "AVG", None, **more)
        self._count(appliance=1)
        wish, urgent = Wish("allreduce", type_of(buffer), OPS["AVG"], **more), self._urgent
        host, ready = _staging.fetch(buffer)
        started = self._starts_ahead.begin(lambda: urgent.start(wish, lend(host)), ready)

        def finish() -> _staging.Arrival | None:
            started().wait()
            return _staging.bring([(host, buffer)])

        return self._ahead.join(Operation([buffer], finish))

    def _mean_over_gloo(self, buffer: Any) -> Any:
        """Gloo itself has no means."""
        self._count(gloo=1)
        finish = begin_mean(self._gloo, buffer, self._size)
        return self._round.join(Operation([buffer], finish))

    def _allreduce(self, tensor: Any, op: str, timeout: timedelta | None, **more: Any) -> Any:
        return self._allreduce_of([tensor], tensor, op, timeout, lambda host: [(host, tensor)], **more)

    def _allreduce_of(
        self, results: list[Any], whole: Any, op: str, timeout: timedelta | None, parts: Parts, **more: Any
    ) -> Any:
        """Of one tensor, whose `parts` belong to several places."""
        wish = Wish("allreduce", summed_as(whole, op), OPS[op], timeout=seconds(timeout), **more)
        host, ready = _staging.fetch(whole)
        sum_again = functools.partial(self._sum_again, host, op)
        return self._begin(results, wish, host, sum_again, lambda: parts(host), ready=ready)

    def _sum_again(self, tensor: Any, op: str, group: Any) -> None:
        if op == "AVG":
            begin_mean(group, tensor.detach(), self._size)()
            return
        options = c10d.AllreduceOptions()
        options.reduceOp = getattr(dist.ReduceOp, op)
        group.allreduce([tensor], options).wait()

    def allreduce_coalesced(self, tensors: list[Any], options: Any) -> Any:
        """Several tensors in one operation."""
        op = named(options.reduceOp)
        if not all(self._takes(tensor, op) and tensor.dtype == tensors[0].dtype for tensor in tensors):
            return self._over_gloo("allreduce_coalesced", tensors, options)
        whole = torch.cat([tensor.reshape(-1) for tensor in tensors])

        def parts(host: Any) -> Pairs:
            pieces = host.split([tensor.numel() for tensor in tensors])
            return [(piece.view_as(to), to) for to, piece in zip(tensors, pieces, strict=True)]

        return self._allreduce_of(tensors, whole, op, options.timeout, parts)

    def broadcast(self, tensors: list[Any], options: Any) -> Any:
        """The root's tensor for all."""
        tensor = tensors[0]
        if len(tensors) != 1 or self._worker is None or not plain(tensor):
            return self._over_gloo("broadcast", tensors, options)
        wish = Wish("broadcast", root=options.rootRank, timeout=seconds(options.timeout))
        host, ready = _staging.fetch(tensor, read=self._rank == options.rootRank)

        def again(group: Any) -> None:
            group.broadcast([host], options).wait()

        return self._begin(tensors, wish, host, again, lambda: [(host, tensor)], ready=ready)

    def reduce(self, tensors: list[Any], options: Any) -> Any:
        """As allreduce, at the root."""
        tensor, op = tensors[0], named(options.reduceOp)
        if len(tensors) != 1 or not self._takes(tensor, op) or op == "AVG":
            return self._over_gloo("reduce", tensors, options)
        wish = Wish(
            "reduce", summed_as(tensor, op), OPS[op], root=options.rootRank, timeout=seconds(options.timeout)
        )
        host, ready = _staging.fetch(tensor)
        own = [(host, tensor)] if self._rank == options.rootRank else []

        def again(group: Any) -> None:
            group.reduce([host], options).wait()

        return self._begin(tensors, wish, host, again, lambda: own, ready=ready)

    def barrier(self, options: Any) -> Any:
        """Waits for all."""
        if self._worker is None:
            return self._over_gloo("barrier", options)
        wish = Wish("barrier", timeout=seconds(options.timeout))
        return self._begin([], wish, None, lambda group: group.barrier(options).wait())

    def all_gather_single(self, output: Any, tensor: Any, options: Any) -> Any:
        """One tensor of all ranks' tensors."""
        if self._worker is None or not (plain(output) and plain(tensor)):
            return self._over_gloo("all_gather_single", output, tensor, options)
        parts = list(output.view(self._size, -1).unbind()) if output.is_contiguous() else None
        if parts is None or output.numel() != self._size * tensor.numel() or output.dtype != tensor.dtype:
            return self._over_gloo("all_gather_single", output, tensor, options)
        return self._gather([output], parts, tensor, options)

    def allgather(self, outputs: list[list[Any]], tensors: list[Any], options: Any) -> Any:
        """A list of all ranks' tensors."""
        fit = len(tensors) == len(outputs) == 1 and len(outputs[0]) == self._size
        if self._worker is None or not fit:
            return self._over_gloo("allgather", outputs, tensors, options)
        parts, tensor = outputs[0], tensors[0]
        even = all(part.dtype == tensor.dtype and part.shape == tensor.shape for part in parts)
        if not even or not plain(tensor):
            return self._over_gloo("allgather", outputs, tensors, options)
        return self._gather(parts, parts, tensor, options)

    def _gather(self, results: list[Any], parts: list[Any], tensor: Any, options: Any) -> Any:
        if tensor.numel() == 0:
            return self._line.join(Operation(results, lambda: None))
        if _ring.is_quicker(tensor, parts):
            self._count(gloo=1)
            limit = seconds(options.timeout) or self._timeout.total_seconds()
            finish = _ring.gather(self._gloo, self.worker, parts, tensor, options, limit)
            return self._round.join(Operation(results, finish))
        size = tensor.numel() * tensor.element_size()
        # As whole integers, the type that is transmitted.
        room = torch.zeros(self._size, math.ceil(size / 4), dtype=torch.int32)
        own, ready = _staging.fetch(flat(tensor))

        def fill() -> None:
            room[self._rank].view(torch.uint8)[:size] = own.view(torch.uint8)

        def pairs() -> Pairs:
            found = [words.view(torch.uint8)[:size] for words in room]
            return [(f.view(part.dtype).view_as(part), part) for f, part in zip(found, parts, strict=True)]

        def again(group: Any) -> None:
            own = room[self._rank].clone()
            group.all_gather_single(room.view(-1), own, c10d.AllgatherOptions()).wait()

        wish = Wish("allgather", "int32", timeout=seconds(options.timeout))
        return self._begin(results, wish, room, again, pairs, ready=ready, before=fill)

    def reduce_scatter_single(self, output: Any, tensor: Any, options: Any) -> Any:
        """The sum, of which each rank gets a part."""
        op = named(options.reduceOp)
        fits = tensor.numel() == self._size * output.numel() and output.dtype == tensor.dtype
        if not self._takes(tensor, op) or not fits:
            return self._over_gloo("reduce_scatter_single", output, tensor, options)
        room, ready = _staging.fetch(flat(tensor), copy=True)
        return self._scatter(output, room, ready, [output.numel()] * self._size, op, options)

    def reduce_scatter(self, outputs: list[Any], lists: list[list[Any]], options: Any) -> Any:
        """The same, of a list with a tensor for each rank."""
        output, tensors, op = outputs[0], lists[0], named(options.reduceOp)
        whole = all(self._takes(tensor, op) and tensor.dtype == output.dtype for tensor in tensors)
        if len(outputs) != 1 or not whole:
            return self._over_gloo("reduce_scatter", outputs, lists, options)
        counts = [tensor.numel() for tensor in tensors]
        room, ready = _staging.fetch(torch.cat([flat(tensor) for tensor in tensors]))
        return self._scatter(output, room, ready, counts, op, options)

    def _scatter(self, output: Any, room: Any, ready: Any, counts: list[int], op: str, options: Any) -> Any:
        begin = sum(counts[: self._rank])
        part = room[begin : begin + counts[self._rank]].view_as(output)
        again = functools.partial(self._sum_again, room, op)
        limit = seconds(options.timeout)
        wish = Wish("reduce_scatter", summed_as(room, op), OPS[op], counts=counts, timeout=limit)
        return self._begin([output], wish, room, again, lambda: [(part, output)], ready=ready)

    def all_gather_single_coalesced(self, outputs: list[Any], tensors: list[Any], options: Any) -> Any:
        """Several, each through the appliance or over Gloo."""
        works = [self.all_gather_single(*pair, options) for pair in zip(outputs, tensors, strict=True)]
        return made(Works(works, outputs))

    def reduce_scatter_single_coalesced(self, outputs: list[Any], tensors: list[Any], options: Any) -> Any:
        """Several, each through the appliance or over Gloo."""
        works = [self.reduce_scatter_single(*pair, options) for pair in zip(outputs, tensors, strict=True)]
        return made(Works(works, outputs))

    def _takes(self, tensor: Any, op: str) -> bool:
        """Whether the appliance can do it: it has no mean of integers."""
        known = self._worker is not None and op in OPS and type_of(tensor) in TRAVELS
        return known and plain(tensor) and (op != "AVG" or tensor.is_floating_point())

    def _begin(
        self,
        results: list[Any],
        wish: Wish,
        data: Any | None,
        again: Callable[[Any], None],
        pairs: Callable[[], Pairs] = list,
        *,
        ready: _staging.Event | None = None,
        before: Callable[[], None] | None = None,
    ) -> Any:
        """Starts an operation on `data` in the host's memory; `pairs` has the destinations of its parts.

        again: the same over Gloo. ready: `data` is there then. before: fills it then.
        """
        # As long as the appliance does not fail meanwhile.
        self._count(appliance=1)
        number = self._recovery.next_number()

        def start() -> tuple[Handle | None, Any]:
            if before:
                before()
            kept = self._recovery.keep(data)
            if self._worker is None or self._recovery.over:
                return None, kept
            lent = None if data is None else lend(data, any_type=wish.collective == "broadcast")
            return self._worker.start(wish, lent), kept

        started = self._starts.begin(start, ready)

        def finish() -> _staging.Arrival | None:
            handle, kept = started()
            shared = wish.collective not in ("reduce", "reduce_scatter")
            if not self._recovery.complete(number, handle, data, kept, again, shared=shared):
                self._count(appliance=-1, gloo=1)
            return _staging.bring(pairs())

        return self._line.join(Operation(results, finish))

    def shutdown(self) -> None:
        """Leaves the job. Operations that do not end soon fail: other ranks may never call them."""
        self._end(_MOMENT)

    def abort(self) -> None:
        """Leaves the job at once: operations in flight fail."""
        self._end(0.0)

    def _end(self, grace: float) -> None:
        if _GROUPS.pop(id(self), None) is None:
            return
        end = time.monotonic() + grace
        lines = (self._line, self._round, self._ahead)
        member = self._streams or self._worker
        leaves = all(line.is_empty_within(end - time.monotonic()) for line in lines)
        if not leaves:
            self._recovery.abort()
            abandon(self._gloo)
            if member:
                member.abort()
        for line in lines:
            line.close(abort=not leaves)
        for starts in (self._starts, self._starts_ahead):
            starts.close()
        if member and leaves and not self._recovery.over:
            member.leave()
            # After an abort the appliance may still wait for ranks of this job.
            if self._numbers and self._rank == 0:
                self._numbers.give_back(self.job)


def group_of(group: Any = None, device: Any = None) -> Group:
    """The backend of a process group: for its statistics, and for hooks."""
    whole = group or dist.group.WORLD
    found = whole._get_backend(torch.device(device or "cpu"))
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL it is wrapped.
    found = getattr(found, "wrapped_pg", found)
    if not isinstance(found, Group):
        raise TypeError(f"the backend of this group is {dist.get_backend(group)}, and not pascaline")
    return found


def _create(options: Any, _: Any) -> Group:
    settings = current()
    rank, size = options.group_rank, options.group_size
    options.store = meet(options.store, rank, size, options.timeout)
    compare(options.store, rank, size, settings.common(), options.timeout)
    if not dist.is_initialized():
        _WORLD[:] = [options.store]
        # Without a job of its own, the world's group is the first of the range.
        return Group(options, settings, settings.job or (settings.jobs[0] if settings.jobs else 0))
    counter = _WORLD[0] if _WORLD else dist.distributed_c10d._get_default_store()
    numbers = Numbers(settings, counter)
    job = numbers.shared(options.store, rank, size)
    return Group(options, settings, job, numbers)


# A group with a device that is not there is asked to use it.
_DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
install()
dist.Backend.register_backend("pascaline", _create, extended_api=True, devices=_DEVICES)
