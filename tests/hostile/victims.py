"""Four workers that allreduce without end: set after set, each joining, summing, leaving and being judged."""

from __future__ import annotations

import json
import time
from pathlib import Path

from process import Failure, Stop

from ..bed.process import Process, command
from .bed import APPLIANCE_ADDRESS, Bed, worker_address, worker_port
from .frames import PORT, RANKS

_BYTES = 256 << 10
_FIRST_ITERATIONS = 12
# A set lasts about as long, so that joining and leaving are under attack as well.
_SET_SECONDS = 6.0
_DEADLINE_SECONDS = 10
_STOP_SECONDS = 3.0
_LOOK_SECONDS = 0.01
_READY_SECONDS = 30.0
_AFTER_FAILURE_SECONDS = 0.3


class Victims:
    def __init__(self, binary: Path, bed: Bed, files: Path, job: int, **more: object) -> None:
        """Of a job; `more` are further options of each worker."""
        self._binary, self._bed, self._files, self.job = binary, bed, files, job
        self._more = more
        self._children: list[Process] = []
        self._read: list[int] = []
        self._lines: dict[int, list[float]] = {}
        self._iterations = _FIRST_ITERATIONS
        self._started = 0.0
        self._done: list[tuple[float, float]] = []
        self.sums = 0
        self.sets = 0
        self.problems: list[str] = []

    @property
    def at_work(self) -> bool:
        return bool(self._children)

    def start(self) -> None:
        self._read, self._lines, self._started = [0] * RANKS, {}, time.monotonic()
        self._children = []
        for rank in range(RANKS):
            line = command(
                self._binary,
                *("worker", "allreduce", "--json", "--progress", "lines"),
                appliance=f"{APPLIANCE_ADDRESS}:{PORT}",
                bind=f"{worker_address(rank)}:{worker_port(self.job, rank)}",
                job=self.job,
                rank=rank,
                ranks=RANKS,
                bytes=_BYTES,
                iterations=self._iterations,
                deadline=f"{_DEADLINE_SECONDS}s",
                join_deadline=f"{_DEADLINE_SECONDS}s",
                seed=1 + self.sets,
                **self._more,
            )
            host = self._bed.workers[rank].name
            self._children.append(Process(f"victim{rank}", line, self._files, host))

    def step(self) -> None:
        """Reads their reports; a set that has ended is judged and followed by another."""
        now = time.monotonic()
        for rank, child in enumerate(self._children):
            self._advance(rank, child, now)
        codes = [child.exit_code() for child in self._children]
        if any(codes):
            self._fail()
        elif None not in codes:
            self._judge()
            self.start()

    def run(self, stop: Stop, seconds: float) -> list[tuple[float, float]]:
        """Watches for a while. Returns the start and end of each completed allreduce."""
        end, self._done = time.monotonic() + seconds, []
        while time.monotonic() < end:
            self.step()
            stop.sleep(_LOOK_SECONDS)
        return [(at - took, at) for at, took in self._done]

    def ready(self, stop: Stop) -> bool:
        """Whether allreduces complete within the time a set may take to form."""
        before = self.sums

        def moved() -> bool:
            self.step()
            return self.sums > before

        return stop.wait_for(moved, _READY_SECONDS)

    def finish(self, stop: Stop) -> None:
        """Lets the present set end, and judges it."""
        if not self._children:
            return
        stop.wait_for(lambda: all(c.exit_code() is not None for c in self._children), 3 * _DEADLINE_SECONDS)
        for rank, child in enumerate(self._children):
            self._advance(rank, child, time.monotonic())
        if any(child.exit_code() != 0 for child in self._children):
            self._fail(again=False)
        else:
            self._judge()
        self.stop()

    def stop(self) -> None:
        for child in self._children:
            child.stop(_STOP_SECONDS)
        self._children = []

    def _advance(self, rank: int, child: Process, now: float) -> None:
        with child.err.open("rb") as log:
            log.seek(self._read[rank])
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read[rank] += len(line)
                self._note(line, now)

    def _note(self, line: bytes, now: float) -> None:
        try:
            found = json.loads(line)
            iteration, seconds = int(found["iteration"]), float(found["seconds"])
        except (ValueError, TypeError, KeyError):
            return
        ranks = self._lines.setdefault(iteration, [])
        ranks.append(seconds)
        # An allreduce is done when the last rank has its result.
        if len(ranks) == RANKS:
            self._done.append((now, max(ranks)))
            self.sums += 1

    def _judge(self) -> None:
        self.sets += 1
        checksums = set()
        for rank, child in enumerate(self._children):
            try:
                found = json.loads(child.out.read_text(errors="replace").splitlines()[-1])
            except (IndexError, ValueError):
                raise Failure(f"victim {rank} ended well but reported nothing", child.tail()) from None
            checksums.add(found["checksum"])
            if found["verified"] != self._iterations or found["mismatches"]:
                self.problems.append(
                    f"rank {rank}: {found['verified']} of {self._iterations} sums exact, "
                    f"{found['mismatches']} wrong"
                )
        if len(checksums) != 1:
            self.problems.append("the ranks' results differ")
        each = (time.monotonic() - self._started) / self._iterations
        self._iterations = max(_FIRST_ITERATIONS, round(_SET_SECONDS / each))

    def _fail(self, *, again: bool = True) -> None:
        """Reports the first failure, ends the others, and starts another set."""
        self.sets += 1
        failed = [child for child in self._children if child.exit_code() not in (0, None)]
        for child in failed[:1] or self._children[:1]:
            words = " ".join(line for line in child.tail().splitlines() if not line.startswith("{"))
            # Without the counts in brackets: the same failure is the same text.
            self.problems.append(f"a rank ended with {child.exit_code()}: {words.split(' (')[0]}")
        self.stop()
        if again:
            # Sets that are refused at once must not take all of the processor.
            time.sleep(_AFTER_FAILURE_SECONDS)
            self.start()
