"""The workers of a run: one `pascaline worker allreduce` per namespace."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configuration import JOB, UDP_PORT
from netns import APPLIANCE_ADDRESS, Network
from options import Options
from process import Child, Failure, Stop

# When one worker has failed the others can only wait for their deadline; this is the time for their reports.
_OTHERS_SECONDS = 2.0
_STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Load:
    allreduces: int
    bytes: int
    dtype: str
    payload: int
    in_flight: int
    seed: int
    deadline: float
    order: str = "arrival"
    jobs: int = 1
    udp_ports: int = 1
    appliance: str = f"{APPLIANCE_ADDRESS}:{UDP_PORT}"
    collective: str = "allreduce"
    root: int = 0
    wire: str | None = None
    security: str = "none"
    # The file with the key, if something protects tensors.
    key: str = ""
    # Below one of several appliances: the first worker's number among all, and how many there are.
    first: int = 0
    workers: int = 0
    # The first job's number.
    job: int = JOB
    # Controllers that name each rank's appliance, with spaces between; ranks are all workers' then.
    controller: str = ""

    @classmethod
    def of(cls, options: Options, network: Network, *, first: int = 0, workers: int = 0) -> Load:
        """The options of scripts/demo for the workers of a network."""
        host = f"[{network.appliance_address}]" if network.ip6 else network.appliance_address
        place = {"appliance": f"{host}:{UDP_PORT}", "first": first, "workers": workers}
        return cls(**options.shared(cls) | place | {"deadline": options.timeout})


@dataclass
class _Worker:
    job: int
    # Of all workers, wherever the appliance is that it is a rank of.
    rank: int
    child: Child
    finished: int = 0
    read_to: int = 0

    def advance(self) -> int:
        """Counts the allreduces that it has reported since the last look; returns how many there are."""
        with self.child.err.open("rb") as log:
            log.seek(self.read_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.read_to += len(line)
                self.finished += _is_progress(line)
        return self.finished


class Workers:
    def __init__(self, binary: Path, network: Network, files: Path) -> None:
        self._binary = binary
        self._network = network
        self._files = files
        self._workers: list[_Worker] = []
        self._first_job = JOB

    def start(self, load: Load) -> None:
        """Starts every rank of every job, in random order.

        `stop` ends those that were started, even if a later one could not be.
        """
        self._workers, self._first_job = [], load.job
        self.add(load, self._network)

    def add(self, load: Load, network: Network) -> None:
        """Starts more of them, below another appliance."""
        ranks = len(network.workers)
        places = [(job, rank) for job in range(load.jobs) for rank in range(ranks)]
        random.SystemRandom().shuffle(places)
        for job, rank in places:
            whole = load.first + rank
            command = [str(self._binary), *_arguments(load, job, rank, ranks)]
            name = f"worker{whole}" if load.jobs == 1 else f"worker{job}-{whole}"
            child = Child(name, command, self._files, network.workers[rank])
            self._workers.append(_Worker(job, whole, child))
        self._workers.sort(key=lambda worker: (worker.job, worker.rank))

    def wait(self, stop: Stop, check: Callable[[], None], progress: Callable[[int], None]) -> None:
        """Returns when all have ended. `check` may raise; `progress` gets the allreduces of all ranks."""
        give_up: float | None = None
        while True:
            codes = [worker.child.exit_code() for worker in self._workers]
            progress(self.done())
            if None not in codes:
                return
            check()
            if any(codes):
                give_up = give_up or time.monotonic() + _OTHERS_SECONDS
                if time.monotonic() > give_up:
                    return
            stop.sleep()

    def done(self) -> int:
        """Allreduces that have been reported by now, by all ranks of all jobs."""
        return sum(worker.advance() for worker in self._workers)

    def failed(self) -> bool:
        return any(worker.child.exit_code() for worker in self._workers)

    def all_have_done(self, allreduces: int) -> bool:
        return all(worker.advance() >= allreduces for worker in self._workers)

    def ended(self) -> bool:
        return all(worker.child.exit_code() is not None for worker in self._workers)

    def who_said(self, words: str) -> int:
        """How many have ended with this text in their last lines."""
        return sum(words in worker.child.tail() for worker in self._workers)

    def running(self) -> bool:
        """Whether none has ended yet."""
        return all(worker.child.exit_code() is None for worker in self._workers)

    def stop(self) -> None:
        for worker in self._workers:
            worker.child.stop(_STOP_SECONDS)

    def results(self) -> list[dict[str, Any]]:
        """The last report of each, by job and rank. Raises with the messages of those that failed."""
        self.stop()
        failed = [worker for worker in self._workers if worker.child.exit_code() != 0]
        # Where one failed the others were ended: they need no mention.
        failed = [worker for worker in failed if not worker.child.ended_by_us] or failed
        if failed:
            names = ", ".join(f"{_name(w)} ended with exit code {w.child.exit_code()}" for w in failed)
            log = "\n".join(f"[{_name(w)}]\n{_without_progress(w.child.tail())}" for w in failed)
            raise Failure(names, log)
        first = self._first_job
        return [{"job": first + w.job, **w.child.said(), "rank": w.rank} for w in self._workers]


def _name(worker: _Worker) -> str:
    return f"worker {worker.rank} of job {JOB + worker.job}"


def _arguments(load: Load, job: int, rank: int, ranks: int) -> list[str]:
    words = f"worker allreduce --udp-ports {load.udp_ports} --job {load.job + job} --dtype {load.dtype}"
    words += f" --bytes {load.bytes} --iterations {load.allreduces} --collective {load.collective}"
    words += f" --root {load.root} --order {load.order} --payload {load.payload}"
    words += f" --in-flight {load.in_flight} --seed {load.seed} --deadline {load.deadline:.0f}s"
    words += f" --wire {load.wire}" if load.wire else ""
    words += f" --security {load.security} --key {load.key}" if load.key else ""
    if load.controller:
        words += f" --rank {load.first + rank}"
        words += "".join(f" --controller {where}" for where in load.controller.split())
    else:
        words += f" --appliance {load.appliance} --rank {rank} --ranks {ranks}"
        words += f" --first {load.first} --workers {load.workers}" if load.workers else ""
    return [*words.split(), "--progress", "lines", "--json"]


def _is_progress(line: bytes) -> bool:
    try:
        return "iteration" in json.loads(line)
    except (ValueError, TypeError):
        return False


def _without_progress(log: str) -> str:
    return "\n".join(line for line in log.splitlines() if not _is_progress(line.encode()))
