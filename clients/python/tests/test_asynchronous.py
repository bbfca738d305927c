"""Asynchronous workers, from Python: updates to a real parameter server, and the weights that come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pascaline
from conftest import RANKS, together
from pascaline import errors

FLOATS = 100
JOBS = tuple(range(1, 11))


@pytest.fixture(scope="module")
def olaf(appliance: pascaline.Appliance) -> Iterator[pascaline.Appliance]:
    """An appliance with a parameter server for which every update counts, as it is."""
    del appliance
    keys = {"rule": "staleness", "learning_rate": 1.0, "half_age": "1h"}
    with pascaline.Appliance(RANKS, JOBS, keys={"kind": "updates"}, server=keys) as started:
        yield started


@pytest.fixture(scope="module")
def free() -> Iterator[int]:
    """Jobs that no test has had."""
    return iter(JOBS)


Act = Callable[[pascaline.AsyncWorker], Any]


@pytest.fixture
def workers(olaf: pascaline.Appliance, free: Iterator[int]) -> Callable[[Act], list[Any]]:
    """Calls a function with a worker of each rank; returns the outcomes in the order of ranks."""
    job = next(free)

    def run(act: Act) -> list[Any]:
        def one(rank: int) -> Any:
            weights = np.full(FLOATS, 10.0 * (rank + 1), np.float32)
            with pascaline.AsyncWorker(olaf.address, job, rank, RANKS, weights) as worker:
                return act(worker)

        return together(one)

    return run


def until(worker: pascaline.AsyncWorker, condition: Callable[[], bool]) -> None:
    """Waits until something holds; takes in what arrives meanwhile."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, dict(worker.statistics())
        worker.wait(0.05)
        worker.poll()


def test_each_update_moves_the_weights_of_all(workers: Callable[[Act], list[Any]]) -> None:
    """By what it says; the first weights are those of one of the ranks."""

    def act(worker: pascaline.AsyncWorker) -> tuple[float | None, np.ndarray]:
        until(worker, lambda: worker.version > 0)
        step = np.zeros(FLOATS, np.float32)
        step[worker.rank] = 1.0
        assert worker.push(step, 5.0) == "sent"
        until(worker, lambda: bool((worker.weights[:RANKS] != worker.weights[RANKS]).all()))
        statistics = worker.statistics()
        assert statistics["acknowledged"] == statistics["sent"] == 1
        assert statistics["applied"] >= 1
        return worker.round_trip, worker.weights.copy()

    found = workers(act)
    # Updates that were combined are answered once, in one name.
    assert any(round_trip is not None and round_trip > 0 for round_trip, _ in found)
    assert all((weights == found[0][1]).all() for _, weights in found)
    weights = found[0][1]
    assert weights[RANKS] in (10.0, 20.0, 30.0)
    # An update counts a little less the older it is.
    assert weights[:RANKS] == pytest.approx(weights[RANKS] + 1, rel=1e-3)


def test_poll_without_weights_leaves_them_alone(workers: Callable[[Act], list[Any]]) -> None:
    """As a learner does while it plays."""

    def act(worker: pascaline.AsyncWorker) -> None:
        before = worker.weights.copy()
        end = time.monotonic() + 10
        while worker.statistics()["weights"] == 0:
            assert time.monotonic() < end
            worker.wait(0.05)
            assert not worker.poll(weights=False)
        assert (worker.weights == before).all()
        assert worker.version == 0
        assert worker.poll()
        assert worker.version > 0

    workers(act)


def test_what_cannot_be_sent_is_told(workers: Callable[[Act], list[Any]]) -> None:
    """A gradient of another length or type; a reward that is no number; after the end."""
    found: list[pascaline.AsyncWorker] = []

    def act(worker: pascaline.AsyncWorker) -> None:
        found.append(worker)
        for gradient, reward, says in (
            (np.zeros(FLOATS + 1, np.float32), 0.0, "101 floats for a model of 100"),
            (np.zeros(FLOATS), 0.0, "float64"),
            (np.zeros(FLOATS, np.float32), float("nan"), "finite"),
        ):
            with pytest.raises(errors.ArgumentError, match=says):
                worker.push(gradient, reward)

    workers(act)
    for worker in found:
        with pytest.raises(errors.ClosedError):
            worker.push(np.zeros(FLOATS, np.float32), 0.0)
        assert worker.statistics()["sent"] == 0


@pytest.mark.parametrize(
    ("weights", "more", "says"),
    [
        (np.zeros(3000, np.float32), {}, "does not fit into one packet"),
        (np.zeros(0, np.float32), {}, "a model of 0 floats"),
        (np.zeros(400, np.float32), {}, "with an MTU of 1500"),
        (np.zeros(8), {}, "float32"),
        (np.zeros((4, 4), np.float32).T[::2], {}, "in one piece"),
        (np.zeros(8, np.float32), {"outstanding": 65}, "at most 64"),
        (np.zeros(8, np.float32), {"outstanding": 0}, "no update"),
        (np.zeros(8, np.float32), {"seed": -1}, "seed=-1"),
        (np.zeros(8, np.float32), {"control": "none"}, "urgency"),
    ],
)
def test_workers_that_cannot_be(
    olaf: pascaline.Appliance, weights: np.ndarray, more: dict[str, Any], says: str
) -> None:
    """The error says at once what to do."""
    with pytest.raises(ValueError, match=says):
        pascaline.AsyncWorker(olaf.address, 1, 0, RANKS, weights, join_timeout=2.0, **more)


def test_a_server_that_is_gone_is_named(appliance: pascaline.Appliance) -> None:
    """By an exception once the patience is over."""
    del appliance
    with pascaline.Appliance(1, keys={"kind": "updates"}, server={}) as alone:
        weights = np.zeros(FLOATS, np.float32)
        with pascaline.AsyncWorker(alone.address, 1, 0, 1, weights, patience=1.0) as worker:
            until(worker, lambda: worker.version > 0)
            alone.kill()
            with pytest.raises(errors.FutileError, match="no update that this worker has sent"):
                _push_for_ever(worker)


def _push_for_ever(worker: pascaline.AsyncWorker) -> None:
    for _ in range(200):
        worker.push(worker.weights, 1.0)
        worker.wait(0.05)
