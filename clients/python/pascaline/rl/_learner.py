"""One worker of distributed PPO: a policy, its environments, and the steps that it computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Settings:
    """How to learn. One iteration is `envs` x `steps` steps of play."""

    environment: str = "LunarLander-v3"
    envs: int = 8
    steps: int = 64
    hidden: int = 40
    epochs: int = 4
    minibatches: int = 2
    rate: float = 1e-3
    gamma: float = 0.99
    trace: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01
    value: float = 0.5
    # Of rewards, so that a value's error weighs about as much as a policy's.
    scale: float = 0.02
    # A worker's reward is the mean of this many episodes.
    episodes: int = 20


class Learner:
    """One worker's policy and environments. `weights` is all of the policy, as one array of float32."""

    def __init__(self, settings: Settings, seed: int, rank: int = 0) -> None:
        """Weights are the same for one seed; the episodes differ between ranks."""
        self.settings = settings
        self._envs = [gymnasium.make(settings.environment) for _ in range(settings.envs)]
        first = 10_000 * seed + 100 * rank
        starts = [env.reset(seed=first + at)[0] for at, env in enumerate(self._envs)]
        self._seen = np.array(starts, np.float32)
        self._random = np.random.default_rng(first)
        torch.manual_seed(seed)
        inputs, wide = self._seen.shape[1], settings.hidden
        actions = int(self._envs[0].action_space.n)
        layers = [nn.Linear(inputs, wide), nn.Linear(wide, wide), nn.Linear(wide, actions + 1)]
        for layer, gain in zip(layers, (2**0.5, 2**0.5, 0.01), strict=True):
            nn.init.orthogonal_(layer.weight, gain)
            nn.init.zeros_(layer.bias)
        self._net = nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])
        self.weights = in_one_piece(self._net)
        self._flat = torch.from_numpy(self.weights)
        self._layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers]
        self._adam = torch.optim.Adam(self._net.parameters(), lr=settings.rate, eps=1e-5, fused=True)
        self._returns = np.zeros(settings.envs)
        self._ended: deque[float] = deque(maxlen=settings.episodes)
        self.steps = 0

    @property
    def reward(self) -> float:
        """The mean of the latest episodes; if none has ended, of the present ones."""
        return float(np.mean(self._ended or self._returns))

    def play(self, alive: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """One iteration's experience with the present weights. `alive` is called from time to time."""
        here = self.settings
        shape = (here.steps, here.envs)
        seen = np.empty((*shape, self._seen.shape[1]), np.float32)
        actions, rewards = np.empty(shape, np.int64), np.empty(shape, np.float32)
        ends = np.empty(shape, np.float32)
        for step in range(here.steps):
            seen[step] = self._seen
            scores = self._forward(self._seen)[:, :-1]
            # The largest of scores with Gumbel's noise is distributed as softmax says.
            actions[step] = np.argmax(scores + self._random.gumbel(size=scores.shape), axis=1)
            for at, env in enumerate(self._envs):
                found, reward, terminated, truncated, _ = env.step(int(actions[step, at]))
                self._returns[at] += float(reward)
                reward = here.scale * float(reward)
                if truncated and not terminated:
                    # A game cut off by the time limit is not over: its expected value counts.
                    reward += here.gamma * float(self._forward(found[None])[0, -1])
                ends[step, at] = terminated or truncated
                if terminated or truncated:
                    self._ended.append(float(self._returns[at]))
                    self._returns[at] = 0.0
                    found = env.reset()[0]
                rewards[step, at], self._seen[at] = reward, found
            if step % 8 == 0:
                alive()
        self.steps += here.steps * here.envs
        return {"seen": seen, "actions": actions, "rewards": rewards, "ends": ends, "next": self._seen}

    def improve(self, played: dict[str, Any], *, keep: bool = False) -> np.ndarray:
        """The step that a few epochs of PPO make, as an array like the weights.

        These stay as they are, or take the step if they are to `keep` it.
        """
        here, before = self.settings, self._flat.clone()
        advantages, targets = self._advantages(played)
        seen = torch.from_numpy(played["seen"]).flatten(0, 1)
        actions = torch.from_numpy(played["actions"]).flatten()
        with torch.no_grad():
            old = torch.log_softmax(self._net(seen)[:, :-1], 1).gather(1, actions[:, None])[:, 0]
        for _ in range(here.epochs):
            order = torch.from_numpy(self._random.permutation(len(actions)))
            for part in order.chunk(here.minibatches):
                self._step(seen[part], actions[part], old[part], advantages[part], targets[part])
        step = (self._flat - before).numpy()
        if not keep:
            self._flat.copy_(before)
        return step

    def _step(self, seen: Any, actions: Any, old: Any, advantages: Any, targets: Any) -> None:
        here, out = self.settings, self._net(seen)
        logarithms, values = torch.log_softmax(out[:, :-1], 1), out[:, -1]
        ratio = (logarithms.gather(1, actions[:, None])[:, 0] - old).exp()
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = ratio.clamp(1 - here.clip, 1 + here.clip)
        gain = torch.minimum(scaled * ratio, scaled * clipped).mean()
        entropy = -(logarithms.exp() * logarithms).sum(1).mean()
        error = ((values - targets) ** 2).mean()
        loss = here.value * error - gain - here.entropy * entropy
        self._adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._net.parameters(), 0.5)
        self._adam.step()

    def _advantages(self, played: dict[str, Any]) -> tuple[Any, Any]:
        """Generalised advantages, and the targets of the values."""
        here, rewards, ends = self.settings, played["rewards"], played["ends"]
        shape = played["seen"].shape
        values = self._forward(played["seen"].reshape(-1, shape[2]))[:, -1].reshape(shape[:2])
        following, trace = self._forward(played["next"])[:, -1], np.zeros(here.envs, np.float32)
        found = np.empty_like(rewards)
        for step in reversed(range(here.steps)):
            goes_on = 1.0 - ends[step]
            error = rewards[step] + here.gamma * following * goes_on - values[step]
            trace = error + here.gamma * here.trace * goes_on * trace
            found[step], following = trace, values[step]
        return torch.from_numpy(found).flatten(), torch.from_numpy(found + values).flatten()

    def _forward(self, seen: np.ndarray) -> np.ndarray:
        """The scores of actions, and the value, without PyTorch, which is slower for few inputs."""
        for weight, bias in self._layers[:-1]:
            seen = np.tanh(seen @ weight.T + bias)
        weight, bias = self._layers[-1]
        return seen @ weight.T + bias


def layers(*sizes: int) -> nn.Sequential:
    """Layers of these widths, each of all to all, with ReLU between them."""
    found: list[nn.Module] = []
    for before, after in pairwise(sizes):
        found += [nn.ReLU()] * bool(found) + [nn.Linear(before, after)]
    return nn.Sequential(*found)


def in_one_piece(net: nn.Module) -> np.ndarray:
    """Moves all parameters of a network into one array, which is then its weights."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in net.parameters()])
    begin = 0
    for parameter in net.parameters():
        end = begin + parameter.numel()
        parameter.data = flat[begin:end].view(parameter.shape)
        begin = end
    whole: np.ndarray = flat.numpy()
    return whole
