"""DDPG on Pendulum-v1: an actor is improved by the gradient of a critic."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from pascaline import rl
from replay import Player

ACTOR, CRITIC, RATE, GAMMA = 32, 28, 1e-3, 0.99
# Deviation of the noise on actions, as a part of the largest; and how fast the targets follow.
NOISE, FOLLOWS = 0.15, 0.01
# Of rewards, which are as large as 16 for each step.
SCALE = 0.1


class Learner(Player):
    """One worker: an actor of 3 → 32 → 32 → 1, a critic of 4 → 28 → 28 → 1; 2,198 weights."""

    # Small steps, as in dqn.py.
    environment, plays, learns = "Pendulum-v1", 4, 2

    def __init__(self, seed: int, rank: int) -> None:
        super().__init__(seed, rank)
        inputs, actions = self.env.observation_space.shape[0], self.env.action_space.shape[0]
        self._most = float(self.env.action_space.high[0])

        def both() -> nn.ModuleList:
            actor = rl.layers(inputs, ACTOR, ACTOR, actions)
            return nn.ModuleList([actor, rl.layers(inputs + actions, CRITIC, CRITIC, 1)])

        self._own, self._target = both(), both()
        self.weights = rl.in_one_piece(self._own)
        self._fixed = rl.in_one_piece(self._target)
        self._fixed[:] = self.weights
        self._actor, self._critic = (torch.optim.Adam(net.parameters(), lr=RATE) for net in self._own)

    def act(self, seen: np.ndarray) -> np.ndarray:
        """The actor's output, with noise."""
        with torch.no_grad():
            action = self._action(self._own, torch.from_numpy(seen)).numpy()
        noise = self.random.normal(0, NOISE * self._most, action.shape)
        chosen: np.ndarray = np.clip(action + noise, -self._most, self._most).astype(np.float32)
        return chosen

    def follow(self) -> None:
        """Moves the targets a small step."""
        self._fixed += FOLLOWS * (self.weights - self._fixed)

    def learn(self, batch: list[torch.Tensor]) -> None:
        """Moves the critic towards the targets' value, and the actor along the critic's gradient."""
        seen, actions, rewards, following, over = batch
        with torch.no_grad():
            later = self._value(self._target, following, self._action(self._target, following))
            wanted = SCALE * rewards + GAMMA * (1 - over) * later
        loss = nn.functional.mse_loss(self._value(self._own, seen, actions), wanted)
        self._step(self._critic, loss)
        self._step(self._actor, -self._value(self._own, seen, self._action(self._own, seen)).mean())

    def _action(self, nets: nn.ModuleList, seen: torch.Tensor) -> torch.Tensor:
        return self._most * torch.tanh(nets[0](seen))

    def _value(self, nets: nn.ModuleList, seen: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return nets[1](torch.cat([seen, actions], -1))[..., 0]

    def _step(self, adam: torch.optim.Optimizer, loss: torch.Tensor) -> None:
        self._own.zero_grad()
        loss.backward()
        adam.step()
