"""Distributed PPO: policies that learn through an appliance, in the modes of Olaf's Figure 2.

Each worker plays in environments of its own, and improves its copy of the policy for a few epochs of PPO. The
step that this makes is its update: a policy gradient that Adam has scaled. Three ways bring updates together:

    asynchronous  sent at once, combined where it queues, added to the weights by `pascaline ps` (Olaf)
    periodic      the mean of the first H of N updates, while all continue to play (iSwitch, Algorithm 1)
    synchronous   the mean of all, for which all workers wait (SwitchML)

The policy and its value function share their layers, as in Olaf, section 8.2, so that all of it is one
packet: 8 → 40 → 40 → 4 + 1 has 2,205 weights, of the 2,230 that a frame of 9,000 bytes has room for.

`clients/examples/train/rl.py` is a program that uses this, `scripts/train rl` runs it. It adds DQN and
DDPG: any object with `weights`, `play` and `improve` (`Learns`) can be trained. Needs PyTorch and
gymnasium[box2d].
"""

from ._learner import Learner, Settings, in_one_piece, layers
from ._modes import Learns, Told, asynchronous, periodic, synchronous

__all__ = [
    "Learner",
    "Learns",
    "Settings",
    "Told",
    "asynchronous",
    "in_one_piece",
    "layers",
    "periodic",
    "synchronous",
]
