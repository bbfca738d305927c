"""How a worker of `pascaline.rl` goes on that is behind the others."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np

from pascaline import rl

BEHIND = 50


class _Learner:
    """Makes one update at once, and the second one when it is let."""

    steps, reward = 0, 0.0

    def __init__(self) -> None:
        self.weights = np.zeros(4, np.float32)
        self.goes_on = threading.Event()
        self.played = 0

    def play(self, alive: Any = None) -> None:
        del alive
        self.played += 1
        assert self.played == 1 or self.goes_on.wait(30), "waited for an update while it was behind"

    def improve(self, played: None) -> np.ndarray:
        del played
        return np.ones(4, np.float32)


class _Worker:
    """Rank 1 of a job that the others have brought BEHIND iterations further, each of them by 1."""

    rank = 1

    def __init__(self, learner: _Learner) -> None:
        self._learner = learner
        self.offered: list[float] = []

    def allreduce(self, array: np.ndarray, op: str) -> Any:
        assert op == "mean"
        self.offered.append(float(array[0]))
        late = len(self.offered) <= BEHIND
        if late:
            array[:] = 1.0
        else:
            self._learner.goes_on.set()
        return SimpleNamespace(missing=[self.rank] if late else [])


def test_a_worker_that_is_behind_waits_for_no_update() -> None:
    """It offers its own as long as it is young enough, then zeros, until it is where the others are."""
    learner = _Learner()
    worker: Any = _Worker(learner)
    told = list(rl.periodic(learner, worker, BEHIND + 3))
    # Of the weights that no result had changed: offered in four iterations.
    assert worker.offered[: BEHIND + 1] == [1.0] * 4 + [0.0] * (BEHIND - 3)
    assert [row.update for row in told[: BEHIND + 1]] == ["missed"] * 4 + ["none"] * (BEHIND - 3)
    # Then it waits for what it makes.
    assert "sent" in [row.update for row in told[BEHIND + 1 :]]
    assert learner.weights[0] == BEHIND + sum(worker.offered[BEHIND:])
