"""One rank of a job."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from ._arrays import Lent, lend
from ._core import Core, Feedback, Pending, Report
from ._numbers import checked
from .errors import ConfigurationError

THREADS_GONE = "threads is gone: one thread serves all trees of a worker; leave it out (a stream has its own)"


class Leaves(Protocol):
    """An object that leaves at the end of the program, if it has not before."""

    def leave(self) -> None:
        """Leaves."""


ALIVE: weakref.WeakSet[Leaves] = weakref.WeakSet()


@dataclass(frozen=True)
class Wish:
    """A request to the core."""

    collective: str
    dtype: str = "int32"
    op: str = "sum"
    root: int = 0
    counts: Sequence[int] | None = None
    layer: int = 0
    layers: int = 0
    wire: str | None = None
    feedback: Feedback | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        checked(root=self.root, layer=self.layer, layers=self.layers)
        for count in () if self.counts is None else self.counts:
            checked(counts=count)


@dataclass(frozen=True)
class Terms:
    """Options of the core beyond a worker's place."""

    payload: int | None = None
    in_flight: int | None = None
    spread: int | None = None
    udp_ports: int | None = None
    dscp: int | None = None
    bind: str | None = None
    timeout: float | None = None
    join_timeout: float | None = None
    linger: float | None = None
    partial: bool = False
    threads: None = None  # gone
    security: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            raise ConfigurationError(THREADS_GONE)
        checked(
            payload=self.payload,
            in_flight=self.in_flight,
            spread=self.spread,
            udp_ports=self.udp_ports,
            dscp=self.dscp,
        )


class Handle:
    """An operation in flight. The array belongs to it until `wait` has returned."""

    def __init__(self, pending: Pending, lent: Lent | None) -> None:
        self._pending = pending
        self._lent = lent

    def done(self) -> bool:
        """Whether `wait` would return at once."""
        return self._pending.done()

    def wait(self, timeout: float | None = None) -> Report:
        """Waits until the array holds the result.

        Raises the operation's error, and TimeoutError if it has not ended after `timeout` seconds: then
        the operation continues, and may be waited for again.
        """
        report = self._pending.wait(timeout)
        lent, self._lent = self._lent, None
        if lent and lent.put_back:
            lent.put_back()
        return report


class Worker:
    """One rank of a job, from joining to leaving.

    Joins, and waits until all ranks have. Arrays are of NumPy or PyTorch: float32, float64, float16,
    bfloat16, int32 (sums of it saturate) or uint32 (sums of it wrap, and it has no mean). Results come into
    the same memory; it is not copied if it is in one piece. All ranks call the same operations in the same
    order, with arrays of the same type and size. Every operation ends within its timeout, with the result or
    an exception of `pascaline.errors`.

    Operations run on a thread of the worker's own, without Python's lock. `with Worker(...)` leaves at the
    end; a program that ends without leaving is to the others one that has crashed. A worker is its process's
    alone: to one that forks off it is closed.
    """

    def __init__(
        self,
        appliance: str,
        job: int,
        rank: int,
        ranks: int,
        *,
        timeout: float | None = None,
        join_timeout: float | None = None,
        linger: float | None = None,
        payload: int | None = None,
        in_flight: int | None = None,
        spread: int | None = None,
        udp_ports: int | None = None,
        dscp: int | None = None,
        bind: str | None = None,
        partial: bool = False,
        threads: None = None,
        security: str | None = None,
        key: str | None = None,
    ) -> None:
        """Joins.

        appliance: its address or name, with or without a port (16420); behind a comma, its
        backups; behind a semicolon, those of further trees, whose jobs have the next numbers. The same at all
        ranks. timeout: seconds for each operation (30), and for joining unless
        join_timeout says otherwise. linger: seconds that `leave` helps others at most (2). payload: bytes of
        a packet, the same at all ranks, a multiple of 8 (the most that all paths carry). in_flight, spread:
        packets in flight, and how far one may run ahead. udp_ports: those of the appliance. dscp: 0 to 63, of
        this rank's packets and of the answers, for an appliance that tells its own by it (0). bind: the local
        address. partial: take results that lack ranks, which `Report.missing` names. security="masked": the
        appliance cannot read what it adds; key: the file that `pascaline job key --new FILE` has made, the
        same at all ranks. For sums and means of float32, float16, bfloat16 and int32, and for copies; raises
        IntegrityError where what arrives is not the sum. security="mac": packets prove their sender;
        "encrypt": no host on the path can read them, either. The job has the same `security` and key at the
        appliance.
        """
        checked(job=job, rank=rank, ranks=ranks)
        packets = (payload, in_flight, spread, udp_ports, dscp, bind)
        terms = Terms(*packets, timeout, join_timeout, linger, partial, threads, security, key)
        self._be(Core(appliance, job, rank, ranks, terms), job, rank, ranks)
        ALIVE.add(self)

    def _be(self, core: Core, job: int, rank: int, ranks: int) -> None:
        self._core, self.job, self.rank, self.ranks = core, job, rank, ranks

    @classmethod
    def of_stream(cls, core: Core, job: int, rank: int, ranks: int) -> Self:
        """One that has joined, and that is left with others: for `Streams`."""
        worker = cls.__new__(cls)
        worker._be(core, job, rank, ranks)
        return worker

    def allreduce(self, array: Any, op: str = "sum", **more: Any) -> Report:
        """Replaces every element by the sum (min, max, mean) of all ranks'.

        wire="bfloat16" or "float16": a float32 array travels in half the bytes, rounded; "mxint8" or "mxfp8":
        in a quarter, as blocks of 32 elements with one scale (sums and means alone). feedback: what that
        leaves is added to the next array that is passed with the same Feedback. layer, layers: which layer of
        a model it is, counted from 1 at the input, for its priority. timeout: seconds.
        """
        return self.allreduce_async(array, op, **more).wait()

    def allreduce_async(
        self,
        array: Any,
        op: str = "sum",
        *,
        wire: str | None = None,
        feedback: Feedback | None = None,
        layer: int = 0,
        layers: int = 0,
        timeout: float | None = None,
    ) -> Handle:
        """Starts an allreduce and returns at once."""
        lent = lend(array)
        more: dict[str, Any] = {"wire": wire, "feedback": feedback, "layer": layer, "layers": layers}
        return self.start(Wish("allreduce", lent.dtype, op, timeout=timeout, **more), lent)

    def reduce(self, array: Any, root: int = 0, op: str = "sum", *, timeout: float | None = None) -> Report:
        """As allreduce, at the root alone; the arrays of others stay as they are."""
        lent = lend(array)
        return self.start(Wish("reduce", lent.dtype, op, root, timeout=timeout), lent).wait()

    def broadcast(self, array: Any, root: int = 0, *, timeout: float | None = None) -> Report:
        """Replaces every rank's array by the root's, bit by bit. Any type of elements."""
        lent = lend(array, any_type=True)
        return self.start(Wish("broadcast", lent.dtype, root=root, timeout=timeout), lent).wait()

    def barrier(self, *, timeout: float | None = None) -> Report:
        """Returns once every rank has called it."""
        return self.start(Wish("barrier", timeout=timeout), None).wait()

    def reduce_scatter(
        self,
        array: Any,
        op: str = "sum",
        counts: Sequence[int] | None = None,
        *,
        timeout: float | None = None,
    ) -> Report:
        """Replaces this rank's part by the sum of that part over all ranks; the rest stays as it is.

        Parts are even, or as many elements for each rank as counts say; `part` tells where this rank's is.
        """
        lent = lend(array)
        wish = Wish("reduce_scatter", lent.dtype, op, counts=counts, timeout=timeout)
        return self.start(wish, lent).wait()

    def allgather(
        self, array: Any, counts: Sequence[int] | None = None, *, timeout: float | None = None
    ) -> Report:
        """Replaces every part by that of the rank whose part it is, bit by bit."""
        lent = lend(array)
        wish = Wish("allgather", lent.dtype, counts=counts, timeout=timeout)
        return self.start(wish, lent).wait()

    def part(self, elements: int, counts: Sequence[int] | None = None) -> slice:
        """The slice of this rank's part among this many elements."""
        checked(elements=elements)
        for count in () if counts is None else counts:
            checked(counts=count)
        first, length = self._core.part(elements, counts)
        return slice(first, first + length)

    @property
    def appliance(self) -> str:
        """Its address and port."""
        return self._core.appliance

    def statistics(self) -> Mapping[str, int]:
        """Packets and their outcomes, up to the latest operation that has ended."""
        return self._core.statistics()

    def leave(self) -> None:
        """Completes started operations, and leaves the job; helps ranks that still need results."""
        ALIVE.discard(self)
        self._core.leave()

    def abort(self) -> None:
        """Leaves at once: started operations fail with ClosedError.

        For a program that gives up: ranks that still need results from this one may fail, too.
        """
        ALIVE.discard(self)
        self._core.abort()

    def start(self, wish: Wish, lent: Lent | None) -> Handle:
        """Starts any operation: for `pascaline.torch`."""
        return Handle(self._core.start(wish, None if lent is None else lent.data), lent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"Worker(appliance={self.appliance!r}, job={self.job}, rank={self.rank}, ranks={self.ranks})"


@atexit.register
def _leave_all() -> None:
    for worker in list(ALIVE):
        worker.leave()
