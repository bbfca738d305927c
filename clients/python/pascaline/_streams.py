"""Several streams of operations on one job: an urgent one overtakes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self, overload

from ._core import join_streams, leave_streams
from ._numbers import checked
from ._worker import ALIVE, Terms, Worker


class Streams(Sequence[Worker]):
    """Several workers of one rank, each a stream of operations of its own.

        with pascaline.Streams("10.77.0.254", job=1, rank=0, ranks=4) as (bulk, urgent):
            handle = bulk.allreduce_async(gradient)
            urgent.allreduce(norm, layer=1, layers=48)  # does not wait for the gradient
            handle.wait()

    Operations of one stream do not wait for the others, at this rank or any other. Within a stream
    operations are carried out in the order of the calls, which must be the same at all ranks; between streams
    there is no order. Each stream has a thread and a window of its own, and may be used by another thread of
    Python's. Where streams or jobs contend for the appliance's memory, `layer` and `layers` decide.

    Each stream is a job of its own at the appliance: stream s of job j is job j + s; with t trees, it has the
    numbers from j + s * t on. Configure them with the same keys, or admit their numbers.
    """

    def __init__(
        self,
        appliance: str,
        job: int,
        rank: int,
        ranks: int,
        streams: int = 2,
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
        """Joins each stream in turn, and waits until all ranks have; if one cannot, none does.

        streams: how many, 1 to 64, the same at all ranks. The others are those of `Worker`, for each stream;
        a port in `bind` is the first one's.
        """
        checked(job=job, rank=rank, ranks=ranks, streams=streams)
        packets = (payload, in_flight, spread, udp_ports, dscp, bind)
        terms = Terms(*packets, timeout, join_timeout, linger, partial, threads, security, key)
        self._cores = join_streams(appliance, (job, rank, ranks), streams, terms)
        trees = appliance.count(";") + 1
        jobs = range(job, job + trees * streams, trees)
        made = zip(self._cores, jobs, strict=True)
        self._workers = tuple(Worker.of_stream(core, number, rank, ranks) for core, number in made)
        ALIVE.add(self)

    @overload
    def __getitem__(self, at: int) -> Worker: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Worker]: ...
    def __getitem__(self, at: int | slice) -> Worker | Sequence[Worker]:
        """The worker of a stream."""
        return self._workers[at]

    def __iter__(self) -> Iterator[Worker]:
        """The workers in the order of streams."""
        return iter(self._workers)

    def __len__(self) -> int:
        """How many streams there are."""
        return len(self._workers)

    def leave(self) -> None:
        """Completes all started operations of all streams, and leaves with all at the same time."""
        ALIVE.discard(self)
        leave_streams(self._cores)

    def abort(self) -> None:
        """Leaves at once, in all streams: started operations fail with ClosedError."""
        ALIVE.discard(self)
        for core in self._cores:
            core.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        first = self._workers[0]
        place = f"job={first.job}, rank={first.rank}, ranks={first.ranks}, streams={len(self)}"
        return f"Streams(appliance={first.appliance!r}, {place})"
