"""DQN on CartPole-v1: the value of each action, learned from a memory; doubled, as by van Hasselt."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pascaline import rl
from replay import Player

WIDE, RATE, GAMMA = 40, 1e-3, 0.99
# Steps until random actions are rare, and iterations for which the target stays.
CHANCE_STEPS, LEAST_CHANCE, TARGET_EVERY = 10_000, 0.05, 160


class Learner(Player):
    """One worker: 4 → 40 → 40 → 2, which is 1,922 weights."""

    # A small step after a few plays, as by Mnih et al.: where others' updates come in between, it still fits.
    environment, plays, learns = "CartPole-v1", 4, 1

    def __init__(self, seed: int, rank: int) -> None:
        super().__init__(seed, rank)
        sizes = (self.env.observation_space.shape[0], WIDE, WIDE, int(self.env.action_space.n))
        self._values, self._target = rl.layers(*sizes), rl.layers(*sizes)
        self.weights = rl.in_one_piece(self._values)
        self._fixed = rl.in_one_piece(self._target)
        self._adam = torch.optim.Adam(self._values.parameters(), lr=RATE)
        self._iterations = 0

    def act(self, seen: np.ndarray) -> int:
        """The best action, or a random one."""
        if self.random.random() < max(LEAST_CHANCE, 1 - self.steps / CHANCE_STEPS):
            return int(self.random.integers(self.env.action_space.n))
        with torch.no_grad():
            return int(self._values(torch.from_numpy(seen)).argmax())

    def follow(self) -> None:
        """Copies the learned weights to the target, every few iterations."""
        if self._iterations % TARGET_EVERY == 0:
            self._fixed[:] = self.weights
        self._iterations += 1

    def learn(self, batch: list[torch.Tensor]) -> None:
        """Moves towards the reward plus the target's value of the action that is best at present."""
        seen, actions, rewards, following, over = batch
        with torch.no_grad():
            best = self._values(following).argmax(1, keepdim=True)
            later = self._target(following).gather(1, best)[:, 0]
        values = self._values(seen).gather(1, actions[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(values, rewards + GAMMA * (1 - over) * later)
        self._adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._values.parameters(), 10.0)
        self._adam.step()
