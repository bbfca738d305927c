"""The worker of one rank that trains asynchronously, as Python programs see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from ._arrays import lend
from ._core import AsyncCore
from ._numbers import checked
from .errors import ArgumentError


@dataclass(frozen=True)
class _Terms:
    """Options of the core beyond a worker's place."""

    outstanding: int
    control: str
    threshold: float
    seed: int
    dscp: int
    bind: str | None
    join_timeout: float
    patience: float
    linger: float
    security: str | None
    key: str | None


class AsyncWorker:
    """One rank of a job of kind "updates", from joining to leaving, without waiting.

    `push` sends an update, made of a gradient and a reward, and returns at once; `poll` takes in the weights
    that the parameter server (`pascaline ps`) answers with. The weights, a float32 array in one piece, are
    those to begin with, and `poll` writes into the same memory. A model is one packet: at most 356 floats
    with an MTU of 1,500 bytes, 2,230 with one of 9,000. Lost packets are not sent again.

    The weights that any rank offers first are those of all; until the server has answered with them, updates
    are "busy". Call `poll` or `push` several times a second: this keeps the rank alive at the appliance.
    """

    def __init__(
        self,
        appliance: str,
        job: int,
        rank: int,
        ranks: int,
        weights: Any,
        *,
        outstanding: int = 1,
        control: str = "off",
        threshold: float = 0.4,
        seed: int = 1,
        dscp: int = 0,
        bind: str | None = None,
        join_timeout: float = 30.0,
        patience: float = 10.0,
        linger: float = 0.5,
        security: str | None = None,
        key: str | None = None,
    ) -> None:
        """Joins, and waits until all ranks have.

        outstanding: updates that may be in flight, at most 64. control: "off", Olaf's "urgency" or "fairness"
        with its threshold in seconds, or "paced". dscp: of its packets, as of a Worker's.
        patience: seconds after which `push` raises an error if nothing was applied. linger: seconds that
        `leave` waits for the others at most. security: "mac" or "encrypt", with the file of the job's key, as
        of a Worker.
        """
        lent = lend(weights)
        if lent.put_back or lent.dtype != "float32":
            raise ArgumentError("weights are a float32 array in one piece, in the host's memory")
        checked(job=job, rank=rank, ranks=ranks, outstanding=outstanding, seed=seed, dscp=dscp)
        times = (join_timeout, patience, linger)
        terms = _Terms(outstanding, control, threshold, seed, dscp, bind, *times, security, key)
        self.job, self.rank, self.ranks = job, rank, ranks
        self.weights = weights
        # How often weights have come: 0 means that they are still this rank's own.
        self.version = 0
        self._data = lent.data
        self._core = AsyncCore(appliance, (job, rank, ranks), lent.data, terms)

    def push(self, gradient: Any, reward: float) -> str:
        """Offers an update made just now, and returns its outcome.

        "sent"; "skipped" by transmission control; "busy" while enough are in flight. The server adds to
        the weights, it does not subtract: pass the direction of the step. Raises FutileError if nothing was
        applied for as long as `patience`.
        """
        lent = lend(gradient)
        if lent.dtype != "float32":
            raise ArgumentError(f"a gradient of {lent.dtype}: float32 travels")
        return self._core.push(lent.data, reward)

    def poll(self, *, weights: bool = True) -> bool:
        """Takes in what has arrived; whether the weights are new. `weights=False` leaves them alone."""
        version = self._core.poll(self._data if weights else None, self.version)
        new = weights and version != self.version
        if new:
            self.version = version
        return new

    def wait(self, seconds: float) -> None:
        """Waits until something arrives or is due, or until the timeout."""
        self._core.wait(seconds)

    def statistics(self) -> Mapping[str, Any]:
        """Updates and their outcomes; `refused` counts the reasons for which some were not taken."""
        return self._core.statistics()

    @property
    def round_trip(self) -> float | None:
        """Seconds from an update to its answer, smoothed."""
        return self._core.round_trip()

    @property
    def appliance(self) -> str:
        """Its address and port."""
        return self._core.appliance

    def leave(self) -> None:
        """Leaves the job, once."""
        self._core.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        place = f"job={self.job}, rank={self.rank}, ranks={self.ranks}"
        return f"AsyncWorker(appliance={self.appliance!r}, {place})"
