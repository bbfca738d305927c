"""What DQN and DDPG share: one environment, a replay memory, and training steps from it.

A learner of `pascaline.rl`'s modes: `play` and `improve` make an update, `weights` is all that is trained.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch

# A worker's reward is the mean of this many episodes.
EPISODES = 10
CAPACITY = 50_000
BATCH = 128


class Player:
    """One worker's environment and memory.

    Weights are the same for one seed; the episodes differ between ranks.
    """

    # The environment; how long an iteration plays, and how often it learns.
    environment: str
    plays: int
    learns: int

    def __init__(self, seed: int, rank: int) -> None:
        """A subclass makes its networks, and sets `weights`, from `random` numbers of PyTorch's."""
        torch.manual_seed(seed)
        first = 10_000 * seed + 100 * rank
        self.random = np.random.default_rng(first)
        self.env = gymnasium.make(self.environment)
        self._seen = self.env.reset(seed=first)[0]
        self._memory: deque[tuple[Any, ...]] = deque(maxlen=CAPACITY)
        self._ended: deque[float] = deque(maxlen=EPISODES)
        self._return = 0.0
        self.steps = 0
        self.weights = np.zeros(0, np.float32)

    def act(self, seen: np.ndarray) -> Any:
        """An action, with some randomness."""
        raise NotImplementedError

    def learn(self, batch: list[torch.Tensor]) -> None:
        """One step of `weights` by what was seen, done, rewarded, seen next, and over: a tensor each."""
        raise NotImplementedError

    def follow(self) -> None:
        """Has the target networks follow `weights`: once in an iteration, so that all ranks have the same."""
        raise NotImplementedError

    @property
    def reward(self) -> float:
        """The mean of the latest episodes; if none has ended, of the present one."""
        return float(np.mean(self._ended or [self._return]))

    def play(self, alive: Callable[[], object] = lambda: None) -> None:
        """One iteration's experience with the present weights. `alive` is called from time to time."""
        for step in range(self.plays):
            action = self.act(self._seen)
            found, reward, terminated, truncated, _ = self.env.step(action)
            self._memory.append((self._seen, action, float(reward), found, float(terminated)))
            self._seen, self._return = found, self._return + float(reward)
            if terminated or truncated:
                self._ended.append(self._return)
                self._seen, self._return = self.env.reset()[0], 0.0
            if step % 8 == 0:
                alive()
        self.steps += self.plays

    def improve(self, played: None) -> np.ndarray:
        """The step that a few batches from the memory make, as an array like the weights, which stay."""
        del played
        before = self.weights.copy()
        self.follow()
        for _ in range(self.learns):
            chosen = [self._memory[at] for at in self.random.integers(len(self._memory), size=BATCH)]
            columns = [np.array(column) for column in zip(*chosen, strict=True)]
            self.learn(
                [
                    torch.from_numpy(column if column.dtype == np.int64 else column.astype(np.float32))
                    for column in columns
                ]
            )
        step: np.ndarray = self.weights - before
        self.weights[:] = before
        return step
