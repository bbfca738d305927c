"""How the updates of several workers come together."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .._asynchronous import AsyncWorker
from .._worker import Worker


class Learns(Protocol):
    """One worker that plays and learns: `Learner`, or one of another algorithm."""

    # All trained weights, as one array of float32, which stays the same array.
    weights: np.ndarray
    # Steps played in total.
    steps: int

    @property
    def reward(self) -> float:
        """The mean of the latest episodes."""

    def play(self, alive: Callable[[], object] = ...) -> Any:
        """One iteration's experience with the present weights. `alive` is called from time to time."""

    def improve(self, played: Any) -> np.ndarray:
        """The step that this makes, as an array like the weights, which stay as they are."""


@dataclass(frozen=True)
class Told:
    """A worker's report after an iteration."""

    iteration: int
    # The mean of its latest episodes.
    reward: float
    # Steps that it has played in total.
    steps: int
    # The outcome of its update; "none": it had none.
    update: str


def asynchronous(learner: Learns, worker: AsyncWorker, iterations: int, wait: float = 0.3) -> Iterator[Told]:
    """Olaf: an update leaves when an iteration ends, and no worker waits.

    The worker's weights are the learner's. The next iteration begins with the newest ones received: it
    waits for the answer for `wait` seconds at most. An update that is lost, or that cannot be sent since too
    many are in flight, is lost for the model, too.
    """
    if not np.shares_memory(worker.weights, learner.weights):
        raise ValueError("the worker has other weights than the learner: pass learner.weights to AsyncWorker")
    # The first offered weights are those of all.
    begun = time.monotonic()
    while not worker.poll() and time.monotonic() - begun < 5:
        worker.wait(0.1)
    for iteration in range(1, iterations + 1):
        played = learner.play(lambda: worker.poll(weights=False))
        update = worker.push(learner.improve(played), learner.reward)
        yield Told(iteration, learner.reward, learner.steps, update)
        if update == "sent":
            _answer(worker, wait)
        worker.poll()


def _answer(worker: AsyncWorker, wait: float) -> None:
    end = time.monotonic() + wait
    while not worker.poll() and (left := end - time.monotonic()) > 0:
        worker.wait(left)


def synchronous(learner: Learns, worker: Worker, iterations: int, rate: float = 1.0) -> Iterator[Told]:
    """SwitchML: all ranks make the mean of their updates in each iteration. All wait for the slowest.

    rate: by how much of the mean the weights move.
    """
    for iteration in range(1, iterations + 1):
        step = learner.improve(learner.play())
        worker.allreduce(step, "mean")
        learner.weights += rate * step
        yield Told(iteration, learner.reward, learner.steps, "sent")


def periodic(
    learner: Learns, worker: Worker, iterations: int, rate: float = 1.0, bound: int = 3
) -> Iterator[Told]:
    """iSwitch, Algorithm 1: an iteration is the mean of the first H of N updates; H is the job's threshold.

    The worker is one with `partial=True`. A thread plays on while iterations complete. An update that
    has missed its iteration is offered in the next one, unless its weights are more than `bound` iterations
    old; then it is discarded. A worker that is behind and has no update takes the results of the others
    nevertheless: it offers zeros meanwhile, of which the last ones count, when it has caught up. Results
    are kept for it, the last `spread` of them (512): one that falls further behind while it makes a single
    update ends with an exception.
    """
    player = _Player(learner)
    iteration, behind, held = 0, False, None
    with player:
        while iteration < iterations:
            update = held or player.next(wait=not behind)
            if update and iteration - update[0] > bound:
                held = None
                continue
            result = update[1].copy() if update else np.zeros_like(player.weights)
            behind = worker.rank in worker.allreduce(result, "mean").missing
            held = update if behind else None
            iteration += 1
            player.apply(rate * result)
            fate = "none" if update is None else "missed" if behind else "sent"
            yield Told(iteration, learner.reward, learner.steps, fate)
    learner.weights[:] = player.weights


class _Player:
    """Plays, and makes one update after the other, each from the newest weights."""

    def __init__(self, learner: Learns) -> None:
        self.weights = learner.weights.copy()
        self._learner = learner
        self._applied = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._made: queue.Queue[tuple[int, np.ndarray] | BaseException] = queue.Queue(1)
        self._thread = threading.Thread(target=self._play)

    def next(self, *, wait: bool) -> tuple[int, np.ndarray] | None:
        """An update, and how many results its weights had seen. None: there is no update yet."""
        try:
            made = self._made.get(block=wait)
        except queue.Empty:
            return None
        if isinstance(made, BaseException):
            raise made
        return made

    def apply(self, step: np.ndarray) -> None:
        """Takes a result."""
        with self._lock:
            self.weights += step
            self._applied += 1

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # A thread that waits for room continues, and sees the end.
        while self._thread.is_alive():
            with contextlib.suppress(queue.Empty):
                self._made.get(timeout=0.05)
        self._thread.join()

    def _play(self) -> None:
        try:
            while not self._over.is_set():
                with self._lock:
                    self._learner.weights[:], seen = self.weights, self._applied
                self._made.put((seen, self._learner.improve(self._learner.play())))
        except BaseException as error:
            self._made.put(error)
