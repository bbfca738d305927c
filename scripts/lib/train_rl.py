"""scripts/train rl: policies that learn through an appliance's queue, FIFO or Olaf's, or by collectives."""

import argparse
import statistics
from dataclasses import dataclass
from typing import Any

import programs
import shaped
import train_bed
from build import ROOT
from configuration import UDP_PORT, Tables, base, port, telemetry
from process import Child
from quantities import between, real
from train_bed import Bed

_MTU = 9000
# The sizes of PPO's model, and of the other clusters' updates; no model is larger.
_FLOATS = 2205
# Ethernet with preamble, checksum and gap, IPv4, UDP, Pascaline's header, floats, trailer.
_FRAME_BITS = (14 + 24 + 20 + 8 + 22 + 4 * _FLOATS + 16) * 8
# Clusters that share the queue with the learning one, and the queue's length.
_OTHERS = 8
_PLACES = 8
_FIRST_OTHER = 1001
# Iterations that have to be as good in the mean for a reward to count as reached.
_STEADY = 10
_GAMES = {"ppo": "LunarLander-v3", "a2c": "CartPole-v1", "dqn": "CartPole-v1", "ddpg": "Pendulum-v1"}
_MODES = {"async": "asynchronous", "periodic": "periodic aggregation", "sync": "synchronous"}

DESCRIPTION = """\
Trains a policy together, through an appliance: PPO on LunarLander-v3, A2C or DQN on CartPole-v1, DDPG on
Pendulum-v1. Asynchronous workers send their updates through a queue that eight other clusters congest, to
`pascaline ps`; periodic and synchronous ones use collectives. Each seed is a training of its own.
"""
EXAMPLES = """\
Examples:
  scripts/train rl --queue olaf --json
  scripts/train rl --queue both --picture target/rl.png
  scripts/train rl --mode sync --workers 8 --seeds 1
  scripts/train rl --algorithm dqn --mode periodic --rate 1 --iterations 4000  # iSwitch, Algorithm 1
  scripts/train rl --queue fifo --load 0 --workers 1 --iterations 100      # without congestion
"""


OPTIONS = {
    "algorithm": "ppo", "mode": "async", "queue": "olaf", "rule": "staleness", "workers": 4, "seeds": 3,
    "seed": 1, "iterations": 100, "rate": 0.5, "load": 4.0, "line": 50.0, "wait": 0.3, "reward": 0.0,
    "picture": None,
}  # fmt: skip
OWN = {
    "algorithm": (tuple(_GAMES), "to learn by"),
    "mode": (tuple(_MODES), "of training"),
    "queue": (
        ("fifo", "olaf", "both"),
        "of the port to the parameter server, for --mode async; both: one after the other",
    ),
    "rule": (
        ("staleness", "olaf"),
        "of the server: every update counts, or one with the best reward so far",
    ),
    "workers": (between(1, train_bed.MOST), "of the job"),
    "seeds": (between(1, 64), "trainings"),
    "seed": (between(0, 2**16), "the first one"),
    "iterations": (between(1, 10**7), "of each worker"),
    "rate": (real(0, 100, above=True), "by how much of an update the weights move"),
    "load": (real(0, 50), "what other clusters offer, as a multiple of what the port lets through"),
    "line": (real(0, 10**5, above=True), "updates per second that it lets through"),
    "wait": (real(0, 3600), "seconds that a worker waits for an answer"),
    "reward": (float, "tell when the mean of ten iterations reached it"),
}


@dataclass
class Run:
    name: str
    # For each seed and worker, the reports after each iteration.
    said: list[list[list[dict[str, Any]]]]
    ended: list[list[dict[str, Any]]]
    lost_pct: float | None
    aggregated: int | None
    applied: int | None

    def curve(self) -> list[list[float]]:
        """For each seed, the mean reward of its workers after each iteration."""
        return [
            [statistics.fmean(row["reward"] for row in rows) for rows in zip(*seed, strict=True)]
            for seed in self.said
        ]

    def when(self, reward: float) -> tuple[list[int | None], list[float | None]]:
        """The iterations and seconds after which the workers' mean reached it, seed by seed.

        The mean over several iterations: those of the first one are the rewards of a few episodes only.
        """
        iterations: list[int | None] = []
        seconds: list[float | None] = []
        for seed, curve in zip(self.said, self.curve(), strict=True):
            means = [
                statistics.fmean(curve[at + 1 - _STEADY : at + 1]) for at in range(_STEADY - 1, len(curve))
            ]
            at = next((at for at, mean in enumerate(means, _STEADY - 1) if mean >= reward), None)
            iterations.append(None if at is None else at + 1)
            seconds.append(None if at is None else round(max(row[at]["seconds"] for row in seed), 1))
        return iterations, seconds

    def to_json(self, reward: float) -> dict[str, Any]:
        """The JSON report. A training's reward is the mean over workers and its last fifth."""
        curve = self.curve()
        last = max(1, len(curve[0]) // 5)
        rewards = [statistics.fmean(seed[-last:]) for seed in curve]
        iterations, seconds = self.when(reward)
        fates: dict[str, int] = {}
        for seed in self.said:
            for told in (row for rows in seed for row in rows):
                fates[told["update"]] = fates.get(told["update"], 0) + 1
        return {
            "queue": self.name if self.name in ("fifo", "olaf") else None,
            "mode": next((mode for mode, words in _MODES.items() if words == self.name), "async"),
            "seeds": len(curve),
            "mean_reward": round(statistics.fmean(rewards), 2),
            "spread": round(statistics.pstdev(rewards), 2),
            "rewards": [round(value, 2) for value in rewards],
            "updates_lost_pct": self.lost_pct,
            "updates_aggregated": self.aggregated,
            "updates_applied": self.applied,
            "updates": fates,
            "given_up_pct": self._given_up(),
            "reached": {"reward": reward, "iterations": iterations, "seconds": seconds},
            "seconds": round(sum(max(row["seconds"] for row in seed) for seed in self.ended), 1),
            "curve": [
                round(statistics.fmean(seed[at] for seed in curve), 1)
                for at in range(0, len(curve[0]), max(1, len(curve[0]) // 20))
            ],
        }

    def _given_up(self) -> float | None:
        """The number of the learning workers' updates that were never answered."""
        rows = [row["statistics"] for seed in self.ended for row in seed if "given_up" in row["statistics"]]
        sent = sum(row["sent"] for row in rows)
        return round(100 * sum(row["given_up"] for row in rows) / sent, 2) if sent else None

    def line(self) -> dict[str, list[float]]:
        """For the picture: the mean over seeds, and their standard deviation."""
        columns = list(zip(*self.curve(), strict=True))
        return {
            "x": [float(at + 1) for at in range(len(columns))],
            "y": [statistics.fmean(column) for column in columns],
            "spread": [statistics.pstdev(column) for column in columns],
        }


def train(options: argparse.Namespace, bed: Bed) -> dict[str, Any]:
    network = bed.network(options.workers + 2, 0, _MTU)
    queues = ("fifo", "olaf") if options.queue == "both" else (options.queue,)
    if options.mode == "async":
        runs = [_asynchronous(options, bed, network, queue) for queue in queues]
    else:
        runs = [_collective(options, bed, network)]
    if options.picture:
        what = f"{options.algorithm} on {_GAMES[options.algorithm]}"
        title = f"{what}, {options.workers} workers, {options.seeds} seeds: mean and deviation"
        lines = {run.name: run.line() for run in runs}
        bed.draw(options.picture, "iteration", "reward of the latest episodes", lines, title)
    found = {run.name: run.to_json(options.reward) for run in runs}
    whole = next(iter(found.values())) if len(runs) == 1 else found
    sizes = {"workers": options.workers, "iterations": options.iterations, "algorithm": options.algorithm}
    sizes["floats"] = runs[0].ended[0][0]["floats"]
    told = {**whole, **sizes, "load": options.load}
    conditions = (pair for name, run in found.items() for pair in _conditions(name, run))
    return train_bed.judge(told, dict(conditions))


def _conditions(name: str, found: dict[str, Any]) -> list[tuple[str, bool]]:
    applied = found["updates_applied"]
    return [
        (f"{name}: rewards are numbers", all(abs(reward) < 1e6 for reward in found["rewards"])),
        (f"{name}: updates are applied", applied is None or applied > 0),
    ]


def _asynchronous(options: argparse.Namespace, bed: Bed, network: shaped.Shaped, queue: str) -> Run:
    appliance = bed.appliance(network, _tables(options, network, queue))
    command = [bed.binary, "ps", "-c", bed.files / "appliance.toml"]
    server = bed.child(f"ps-{queue}", command, network.workers[-2])
    others = _others(options, bed, network) if options.load else []
    ranks = _ranks(options, bed, network, queue)
    _wait(options, bed, ranks, [server, *others])
    metrics = appliance.scrape()
    received = metrics.total("pascaline_olaf_received_total")
    dropped = metrics.by_label("pascaline_olaf_dropped_total", "cause").get("full", 0)
    aggregated = sum(metrics.total(f"pascaline_olaf_{what}_total") for what in ("aggregated", "replaced"))
    for child in (*others, server):
        child.stop(5.0)
    appliance.stop()
    run = _read(options, queue, ranks)
    run.lost_pct = round(100 * dropped / received, 2) if received else None
    run.aggregated = int(aggregated)
    # Every worker of a cluster receives each update that was applied.
    run.applied = sum(max(row["statistics"]["applied"] for row in seed) for seed in run.ended)
    return run


def _collective(options: argparse.Namespace, bed: Bed, network: shaped.Shaped) -> Run:
    tables = train_bed.tables(network, options.workers, window=64, slots=1024)
    (job,) = tables["jobs"]
    if options.mode == "periodic":
        job |= {"kind": "iswitch", "early": {"threshold": max(1, options.workers - 1)}}
    seeds = range(options.seeds)
    tables["jobs"] = [{**job, "id": 1 + number, "name": f"seed {number}"} for number in seeds]
    appliance = bed.appliance(network, tables)
    ranks = _ranks(options, bed, network, options.mode)
    _wait(options, bed, ranks, [])
    appliance.stop()
    return _read(options, _MODES[options.mode], ranks)


def _ranks(options: argparse.Namespace, bed: Bed, network: shaped.Shaped, name: str) -> list[Child]:
    words: list[object] = ["--appliance", f"{shaped.APPLIANCE}:{UDP_PORT}", "--ranks", options.workers]
    words += train_bed.words(options, "algorithm", "mode", "seeds", "seed", "iterations", "rate", "wait")
    python = ["env", "OMP_NUM_THREADS=1", bed.python, "-B", ROOT / "clients/examples/train/rl.py"]
    return [
        bed.child(f"{name}-{rank}", [*python, *words, "--rank", rank], network.workers[rank])
        for rank in range(options.workers)
    ]


def _others(options: argparse.Namespace, bed: Bed, network: shaped.Shaped) -> list[Child]:
    """Clusters of one worker each, whose updates have no meaning, and which never end."""
    interval = _OTHERS / (options.load * options.line)
    words = f"worker olaf --json --poisson --appliance {shaped.APPLIANCE}:{UDP_PORT} --rank 0 --ranks 1"
    words += f" --floats {_FLOATS} --interval {1000 * interval:.3f}ms --updates 10000000"
    command = [bed.binary, *words.split(), "--outstanding", 64, "--patience", "1h"]
    return [
        bed.child(f"other{number}", [*command, "--job", _FIRST_OTHER + number], network.workers[-1])
        for number in range(_OTHERS)
    ]


def _wait(options: argparse.Namespace, bed: Bed, ranks: list[Child], around: list[Child]) -> None:
    def place(said: dict[str, Any]) -> str:
        iteration = f"iteration {said['iteration']} of {options.iterations}"
        return f"seed {said['seed']}, {iteration}: reward {said['reward']:.0f}"

    bed.attend(ranks, "iteration", place, around=around)


def _read(options: argparse.Namespace, name: str, ranks: list[Child]) -> Run:
    seeds = range(options.seed, options.seed + options.seeds)
    whole = [programs.objects(rank) for rank in ranks]
    said = [
        [[row for row in rows if row["seed"] == seed and "reward" in row] for rows in whole] for seed in seeds
    ]
    ended = [
        [row for rows in whole for row in rows if row["seed"] == seed and "done" in row] for seed in seeds
    ]
    return Run(name, said, ended, None, None, None)


def _tables(options: argparse.Namespace, network: shaped.Shaped, queue: str) -> Tables:
    members = [shaped.address(rank) for rank in range(options.workers)]
    around = [shaped.address(options.workers + 1)]
    jobs = [_job(1 + number, members) for number in range(options.seeds)]
    jobs += [_job(_FIRST_OTHER + number, around) for number in range(_OTHERS if options.load else 0)]
    line = {"discipline": queue, "length": _PLACES, "rate": round(options.line * _FRAME_BITS)}
    server = {
        "mode": "external",
        "address": shaped.address(options.workers),
        "rule": options.rule,
        "learning_rate": options.rate,
        "half_age": "1s",
        "checkpoint": "no",
    }
    return {
        **base(network.appliance, shaped.APPLIANCE, drain="100ms"),
        "ports": [port("p0", "net_kernel0,iface=pas0", _MTU, queue=line)],
        "jobs": jobs,
        "ps": server,
        "telemetry": telemetry(),
    }


def _job(number: int, members: list[str]) -> Tables:
    return {"id": number, "fan_in": len(members), "kind": "updates", "members": members}


def text(found: dict[str, Any]) -> str:
    runs = [found] if "rewards" in found else [found["fifo"], found["olaf"]]
    what = f"{found['algorithm']}, {found['workers']} workers, {found['iterations']} iterations of each"
    lines = [f"{what}, load {found['load']}"]
    for run in runs:
        name = run["queue"] or run["mode"]
        reached = run["reached"]
        lines.append(
            f"{name}: reward {run['mean_reward']} ± {run['spread']} in the last fifth, {run['rewards']};"
            f" {run['updates_lost_pct']} % of all updates lost; {reached['reward']} reached after"
            f" {reached['iterations']} iterations, {reached['seconds']} s; {run['seconds']} s in all"
        )
    return "\n".join(lines)
