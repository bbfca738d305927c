"""PPO on LunarLander-v3, distributed: each process is one worker, and says what each iteration brought.

    python examples/train/rl.py --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4    # and so on for others

Job 1 is for the first seed, job 2 for the second, and so on. For `--mode async` jobs have mode = "olaf", and
`pascaline ps` holds the model, with rule = "staleness"; for `periodic` they have profile = "iswitch". The
model's packets are 8,824 bytes long: links, appliance and server need an MTU of 9,000.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch

from pascaline import AsyncWorker, Worker, rl


def main() -> None:
    """Trains once for each seed."""
    parser = argparse.ArgumentParser(description="PPO on LunarLander-v3", allow_abbrev=False)
    parser.add_argument("--appliance", required=True, help="its address, with or without a port")
    parser.add_argument("--job", type=int, default=1, help="of the first seed (%(default)s)")
    parser.add_argument("--rank", type=int, required=True, help="of this worker")
    parser.add_argument("--ranks", type=int, required=True, help="of the job")
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
        learner = rl.Learner(rl.Settings(), seed, options.rank)
        begun = time.monotonic()
        with _worker(options, learner, options.job + number) as worker:
            for told in _train(options, learner, worker):
                say(seed=seed, seconds=round(time.monotonic() - begun, 3), **vars(told))
            statistics = dict(worker.statistics())
        say(seed=seed, done=True, seconds=time.monotonic() - begun, statistics=statistics)


def _worker(options: argparse.Namespace, learner: rl.Learner, job: int) -> Any:
    who = (options.appliance, job, options.rank, options.ranks)
    if options.mode == "async":
        more = {"outstanding": options.outstanding, "seed": 1 + options.rank, "patience": 30.0}
        return AsyncWorker(*who, learner.weights, join_timeout=60.0, **more)
    payload = -(-learner.weights.nbytes // 8) * 8
    return Worker(*who, payload=payload, partial=options.mode == "periodic", timeout=60.0)


def _train(options: argparse.Namespace, learner: rl.Learner, worker: Any) -> Iterator[rl.Told]:
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
