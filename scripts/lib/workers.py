"""The workers of a run: one `pascaline worker allreduce` per namespace."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance import JOB, UDP_PORT
from netns import APPLIANCE_ADDRESS, Network
from options import Options
from process import Child, Failure, Stop

# When one worker has failed the others can only wait for their deadline; this is for what they still have to
# say.
_OTHERS_SECONDS = 2.0
_STOP_SECONDS = 2.0


@dataclass(frozen=True)
class Load:
    """What the workers do."""

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
    # Below one of several appliances: which of all workers the first one is, and how many they are.
    first: int = 0
    workers: int = 0
    # The first job's number.
    job: int = JOB
    # Who says where each rank's appliance is, several with spaces between; ranks are all workers' then.
    controller: str = ""

    @classmethod
    def of(cls, options: Options, network: Network, *, first: int = 0, workers: int = 0) -> Load:
        """What a run of scripts/demo asks of the workers of a network."""
        host = f"[{network.appliance_address}]" if network.ip6 else network.appliance_address
        return cls(
            allreduces=options.allreduces,
            bytes=options.bytes,
            dtype=options.dtype,
            payload=options.payload,
            in_flight=options.in_flight,
            seed=options.seed,
            deadline=options.timeout,
            order=options.order,
            jobs=options.jobs,
            udp_ports=options.udp_ports,
            appliance=f"{host}:{UDP_PORT}",
            collective=options.collective,
            root=options.root,
            wire=options.wire,
            first=first,
            workers=workers,
        )


@dataclass
class _Worker:
    job: int
    rank: int
    child: Child
    finished: int = 0
    read_to: int = 0

    def advance(self) -> None:
        """Counts the allreduces that it has reported since the last look."""
        with self.child.err.open("rb") as log:
            log.seek(self.read_to)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self.read_to += len(line)
                self.finished += _is_progress(line)


class Workers:
    """All workers, started together."""

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
        ranks = len(self._network.workers)
        places = [(job, rank) for job in range(load.jobs) for rank in range(ranks)]
        random.SystemRandom().shuffle(places)
        for job, rank in places:
            command = [str(self._binary), *_arguments(load, job, rank, ranks)]
            name = f"worker{rank}" if load.jobs == 1 else f"worker{job}-{rank}"
            child = Child(name, command, self._files, self._network.workers[rank])
            self._workers.append(_Worker(job, rank, child))
        self._workers.sort(key=lambda worker: (worker.job, worker.rank))

    def wait(self, stop: Stop, check: Callable[[], None], progress: Callable[[int], None]) -> None:
        """Returns when all have ended. `check` may raise; `progress` gets the allreduces of all ranks."""
        give_up: float | None = None
        while True:
            codes = [worker.child.exit_code() for worker in self._workers]
            for worker in self._workers:
                worker.advance()
            progress(self.finished())
            if None not in codes:
                return
            check()
            if any(codes):
                give_up = give_up or time.monotonic() + _OTHERS_SECONDS
                if time.monotonic() > give_up:
                    return
            stop.sleep()

    def finished(self) -> int:
        """Allreduces that have been reported, by all ranks of all jobs."""
        return sum(worker.finished for worker in self._workers)

    def done(self) -> int:
        """Allreduces that have been reported by now."""
        for worker in self._workers:
            worker.advance()
        return self.finished()

    def failed(self) -> bool:
        """Whether one has ended badly."""
        return any(worker.child.exit_code() for worker in self._workers)

    def all_have_done(self, allreduces: int) -> bool:
        """Whether every one has reported so many."""
        for worker in self._workers:
            worker.advance()
        return all(worker.finished >= allreduces for worker in self._workers)

    def ended(self) -> bool:
        """Whether none runs any more."""
        return all(worker.child.exit_code() is not None for worker in self._workers)

    def who_said(self, words: str) -> int:
        """How many have ended with this among their last words."""
        return sum(words in worker.child.tail() for worker in self._workers)

    def running(self) -> bool:
        """Whether none has ended yet."""
        return all(worker.child.exit_code() is None for worker in self._workers)

    def stop(self) -> None:
        """Ends those that still run."""
        for worker in self._workers:
            worker.child.stop(_STOP_SECONDS)

    def results(self) -> list[dict[str, Any]]:
        """What each said at its end, by job and rank. Raises with the words of those that failed."""
        self.stop()
        failed = [worker for worker in self._workers if worker.child.exit_code() != 0]
        # Where one failed the others had to be ended: they are no news.
        failed = [worker for worker in failed if not worker.child.ended_by_us] or failed
        if failed:
            names = ", ".join(f"{_name(w)} ended with exit code {w.child.exit_code()}" for w in failed)
            log = "\n".join(f"[{_name(w)}]\n{_without_progress(w.child.tail())}" for w in failed)
            raise Failure(names, log)
        return [{"job": self._first_job + worker.job, **_last_object(worker)} for worker in self._workers]


def _name(worker: _Worker) -> str:
    return f"worker {worker.rank} of job {JOB + worker.job}"


def _arguments(load: Load, job: int, rank: int, ranks: int) -> list[str]:
    options = {
        "--appliance": load.appliance,
        "--udp-ports": load.udp_ports,
        "--job": load.job + job,
        "--rank": rank,
        "--ranks": ranks,
        "--bytes": load.bytes,
        "--iterations": load.allreduces,
        "--collective": load.collective,
        "--root": load.root,
        "--dtype": load.dtype,
        "--order": load.order,
        "--payload": load.payload,
        "--in-flight": load.in_flight,
        "--seed": load.seed,
        "--deadline": f"{load.deadline:.0f}s",
        "--progress": "lines",
    }
    if load.wire:
        options["--wire"] = load.wire
    if load.controller:
        for told in ("--appliance", "--ranks"):
            del options[told]
        options["--rank"] = load.first + rank
    elif load.workers:
        options |= {"--first": load.first, "--workers": load.workers}
    words = [word for option, value in options.items() for word in (option, str(value))]
    words += [word for where in load.controller.split() for word in ("--controller", where)]
    return ["worker", "allreduce", *words, "--json"]


def _is_progress(line: bytes) -> bool:
    try:
        return "iteration" in json.loads(line)
    except (ValueError, TypeError):
        return False


def _without_progress(log: str) -> str:
    return "\n".join(line for line in log.splitlines() if not _is_progress(line.encode()))


def _last_object(worker: _Worker) -> dict[str, Any]:
    lines = worker.child.out.read_text(errors="replace").splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise Failure(f"{_name(worker)} ended well but reported nothing", worker.child.tail()) from error
    if not isinstance(found, dict):
        raise Failure(f"{_name(worker)} reported {lines[-1]!r} instead of an object")
    return found
