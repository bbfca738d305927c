"""Policies that learn together: each process is one worker, and prints the outcome of each iteration.

    python clients/examples/train/rl.py --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4   # others likewise

Job 1 is for the first seed, job 2 for the second, and so on. For `--mode async` jobs have kind = "updates",
and `pascaline ps` holds the model, with rule = "staleness"; for `periodic` they have kind = "iswitch". A
model's packets are up to 8,824 bytes long: links, appliance and server need an MTU of 9,000.

iSwitch (section 5.1) trains with four algorithms, on games that take days. Here they play small ones:

    ppo   LunarLander-v3, the policy of Olaf's section 8.2
    a2c   CartPole-v1. A2C is PPO with one epoch of one batch (Huang et al. 2022, arXiv 2205.09123)
    dqn   CartPole-v1, in dqn.py
    ddpg  Pendulum-v1, in ddpg.py
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import ddpg
import dqn
from pascaline import AsyncWorker, Worker, rl

A2C = rl.Settings("CartPole-v1", steps=16, epochs=1, minibatches=1, trace=1.0, rate=2e-3)
# Of a seed and a rank.
ALGORITHMS: dict[str, Callable[[int, int], rl.Learns]] = {
    "ppo": lambda seed, rank: rl.Learner(rl.Settings(), seed, rank),
    "a2c": lambda seed, rank: rl.Learner(A2C, seed, rank),
    "dqn": dqn.Learner,
    "ddpg": ddpg.Learner,
}


def main() -> None:
    """Trains once for each seed."""
    parser = argparse.ArgumentParser(description="Policies that learn together", allow_abbrev=False)
    parser.add_argument("--appliance", required=True, help="its address, with or without a port")
    parser.add_argument("--job", type=int, default=1, help="of the first seed (%(default)s)")
    parser.add_argument("--rank", type=int, required=True, help="of this worker")
    parser.add_argument("--ranks", type=int, required=True, help="of the job")
    parser.add_argument("--algorithm", choices=list(ALGORITHMS), default="ppo")
    parser.add_argument("--mode", choices=["async", "periodic", "sync"], default="async")
    parser.add_argument("--iterations", type=int, default=200, help="of each worker (%(default)s)")
    parser.add_argument("--seeds", type=int, default=1, help="trainings (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first one (%(default)s)")
    parser.add_argument("--rate", type=float, default=1.0, help="of the mean of updates (%(default)s)")
    parser.add_argument("--outstanding", type=int, default=8, help="updates under way (%(default)s)")
    parser.add_argument(
        "--wait", type=float, default=0.3, help="seconds for an answer, at most (%(default)s)"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    for number in range(options.seeds):
        seed = options.seed + number
        learner = ALGORITHMS[options.algorithm](seed, options.rank)
        # Warms up before joining, so that this rank does not fall behind the others.
        learner.improve(learner.play())
        begun = time.monotonic()
        with _worker(options, learner, options.job + number) as worker:
            for told in _train(options, learner, worker):
                say(seed=seed, seconds=round(time.monotonic() - begun, 3), **vars(told))
            statistics = dict(worker.statistics())
        more = {"floats": learner.weights.size, "steps": learner.steps, "statistics": statistics}
        say(seed=seed, done=True, seconds=time.monotonic() - begun, **more)


def _worker(options: argparse.Namespace, learner: rl.Learns, job: int) -> Any:
    who = (options.appliance, job, options.rank, options.ranks)
    if options.mode == "async":
        more = {"outstanding": options.outstanding, "seed": 1 + options.rank, "patience": 30.0}
        return AsyncWorker(*who, learner.weights, join_timeout=60.0, **more)
    payload = -(-learner.weights.nbytes // 8) * 8
    return Worker(*who, payload=payload, partial=options.mode == "periodic", timeout=60.0)


def _train(options: argparse.Namespace, learner: rl.Learns, worker: Any) -> Iterator[rl.Told]:
    if options.mode == "async":
        return rl.asynchronous(learner, worker, options.iterations, options.wait)
    train = rl.periodic if options.mode == "periodic" else rl.synchronous
    return train(learner, worker, options.iterations, options.rate)


def say(**what: Any) -> None:
    """A line of JSON."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
