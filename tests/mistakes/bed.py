"""The bed of the mistakes: an appliance and workers in network namespaces, and the messages of each.

A test makes one mistake in a `Bed` and then says which words must be in which text. A failed condition is
noted, and the test continues, so that all are reported at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import flood
from appliance import JOB, UDP_PORT, Settings, configuration
from metrics import RESULTS
from netns import APPLIANCE_ADDRESS, worker_address
from process import Child, Failure, Stop

from ..bed.appliance import Appliance
from ..bed.network import Host, Star
from ..bed.process import Processes, command
from .member import Member, socket_in

MIB = 1 << 20
RANKS = 3
# The host that is no rank: parameter servers and strangers live there.
OUTSIDE = 3
# The time limit of each step of a case.
PATIENCE = 60.0
# A busy machine may add so much to the time in which a mistake must be named: less than any deadline that
# the case has not set, by which it would come out as well.
_SLACK = 10.0
_KILL_SECONDS = 1.0
# A deadline begins with each operation. Short ones: one that is almost over when the mistake is made, on a
# slow machine, would not be stalled for long enough to learn why.
SHORT = {"bytes": 64 << 10, "iterations": 100_000}
# A mistake must be named within this time, where no deadline is longer.
SOON = 2.0
_FLAGS = re.IGNORECASE | re.DOTALL


def within(seconds: float, *, quick: bool = True) -> pytest.MarkDecorator:
    """The mistake must be named in this time, and some slack; `quick`: the short form makes it, too."""
    return pytest.mark.within(seconds, quick=quick)


@dataclass
class Outcome:
    name: str
    what: str
    limit: float
    seconds: float = 0.0
    texts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def named(self) -> bool:
        """Whether every rank received the right error, in time."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "what": self.what,
            "named": self.named,
            "seconds": round(self.seconds, 3),
            "limit_s": self.limit,
            "texts": self.texts,
            "problems": self.problems,
        }


class Bed:
    """One case's appliance, workers and other processes; everything ends with it."""

    def __init__(self, binary: Path, network: Star, files: Path, stop: Stop, outcome: Outcome) -> None:
        self.binary, self.network, self.files, self.stop, self.outcome = binary, network, files, stop, outcome
        self.hosts = network.at_workers
        self.appliances: list[Appliance] = []
        self._undo = ExitStack()
        self._children = self._undo.enter_context(Processes(files))
        self._since = time.monotonic()

    # ---- parts ----

    def appliance(self, keys: str = "", **terms: Any) -> Appliance:
        """Starts one with such settings; returns it once it is ready."""
        return self.started(self.settings(keys, **terms))

    def started(self, settings: str) -> Appliance:
        """Starts one with this configuration; returns it once it is ready."""
        appliance = self._undo.enter_context(Appliance(self.binary, self.network, settings, self.files))
        self.appliances.append(appliance)
        appliance.wait_ready(self.stop)
        return appliance

    def settings(self, keys: str = "", *, more: str = "", policy: str = "default", slots: int = 4096) -> str:
        """With such lines in its job's table, and such tables."""
        settings = Settings(
            "af_packet", slots, 512, policy, more=more, job_keys=keys, fan_in=RANKS, name="mistakes"
        )
        return configuration(self.network, settings, self.files / "admin.sock")  # type: ignore[arg-type]

    def worker(self, rank: int, **options: object) -> Child:
        """Starts a rank; options are those of `pascaline worker allreduce`, with `_` for `-`."""
        return self._start("allreduce", rank, {"job": JOB, "bytes": MIB, "iterations": 1000} | options)

    def workers(self, ranks: Iterable[int] = range(RANKS), **options: Any) -> list[Child]:
        return [self.worker(rank, **options) for rank in ranks]

    def updater(self, rank: int, **options: object) -> Child:
        """Starts a rank of an asynchronous job; options are those of `pascaline worker olaf`."""
        return self._start("olaf", rank, options)

    def command(self, rank: int, *words: str, **options: object) -> Child:
        """Starts a rank that commands the job: `pascaline worker command`."""
        return self._start("command", rank, {"job": JOB} | options, words)

    def _start(self, mode: str, rank: int, options: dict[str, object], more: tuple[str, ...] = ()) -> Child:
        words = {"appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}", "rank": rank, "ranks": RANKS} | options
        line = command(self.binary, "worker", mode, *more, "--json", **words)
        child = self.child(f"rank{rank}", line, self.hosts[rank])
        self.mark()
        return child

    def server(self) -> Child:
        """Starts the parameter server, on a host of its own."""
        command = [str(self.binary), "ps", "-c", str(self.files / "appliance.toml")]
        return self.child("ps", command, self.hosts[OUTSIDE])

    def child(self, name: str, command: list[str], host: Host | str) -> Child:
        return self._children.start(name, command, host if isinstance(host, str) else host.name)

    def member(
        self, rank: int, job: int = JOB, ranks: int = RANKS, *, payload: int = 1024, at: int = -1
    ) -> Member:
        """A rank that the test itself plays, on its host or another one."""
        found = Member(socket_in(self.hosts[rank if at < 0 else at]), job, rank, ranks, payload)
        self.undo(found.close)
        return found

    def flood(self, job: int, rate: int) -> None:
        """Has the outside host join a job of two ranks, and send gradients that never complete."""
        words = [job, rate, 1024, 512, "gradients"]
        child = self.child(
            "neighbour", [sys.executable, "-B", flood.__file__, *map(str, words)], self.hosts[OUTSIDE]
        )
        if not self.stop.wait_for(lambda: "joined" in child.out.read_text(), PATIENCE):
            raise Failure("the neighbour has not joined", child.tail())

    def pascaline(self, *words: str) -> str:
        """The output of a command of the program in the appliance's namespace."""
        return self.network.at_appliance.run(str(self.binary), *words, check=False)

    @property
    def admin(self) -> str:
        return f"unix:{self.files / 'admin.sock'}"

    def explain(self, job: int = JOB) -> str:
        return self.pascaline("explain", str(job), "--admin", self.admin)

    def readiness(self) -> str:
        return self.appliances[-1].get("/readyz").text

    def members(self) -> int:
        return self.appliances[-1].scrape().by_label("pascaline_job_members", "job_id").get(str(JOB), 0)

    def undo(self, action: Callable[..., object], *arguments: object, **named: object) -> None:
        """Does something at the end, in reverse order."""
        self._undo.callback(action, *arguments, **named)

    # ---- time ----

    def mark(self) -> None:
        """The mistake is made now: from here on the seconds count."""
        self._since = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._since

    def sleep(self, seconds: float) -> None:
        self.stop.sleep(seconds)

    def until(self, condition: Callable[[], bool], otherwise: str) -> None:
        """Waits until something holds; it is a problem if it never does."""
        if not self.stop.wait_for(condition, PATIENCE):
            self.problem(f"{otherwise} after {PATIENCE:.0f} s")

    def await_work(self, results: int = 300) -> None:
        """Waits until this many more results have been sent."""
        scrape = self.appliances[-1].scrape
        before = scrape().total(RESULTS)
        self.until(lambda: scrape().total(RESULTS) >= before + results, "no results")

    def at_work(self, **options: Any) -> list[Child]:
        """All ranks, once results have been sent."""
        children = self.workers(**options)
        self.await_work()
        return children

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Ends a process without a warning, or stops it: that is the mistake."""
        os.kill(pid, number)
        self.mark()

    # ---- what must hold ----

    def problem(self, text: str) -> None:
        self.outcome.problems.append(text)

    def says(self, who: str, text: str, *patterns: str) -> None:
        self.outcome.texts[who] = " ".join(text.split())[:1200]
        for pattern in patterns:
            if not re.search(pattern, text, _FLAGS):
                self.problem(f"{who} does not say {pattern!r}")

    def in_time(self, who: str, seconds: float | None = None) -> None:
        """Notes the time until this was named: so far, or `seconds`."""
        seconds = self.elapsed() if seconds is None else seconds
        self.outcome.seconds = max(self.outcome.seconds, seconds)
        if seconds > self.outcome.limit + _SLACK:
            self.problem(f"{who}: {seconds:.2f} s, at most {self.outcome.limit:g} s")

    def fails(self, children: list[Child], *patterns: str) -> None:
        """Each of them ends, in time, with an error that has all of these words."""
        self._end(children)
        for child in children:
            self.says(child.name, error_of(child), *patterns)
            if child.exit_code() == 0:
                self.problem(f"{child.name} ends as if all were well")

    def succeeds(self, children: list[Child]) -> None:
        self.ended(children)
        for child in children:
            if child.exit_code():
                self.problem(f"{child.name} fails: {error_of(child)}")

    def ended(self, children: list[Child]) -> None:
        self.until(lambda: all(child.exit_code() is not None for child in children), "not all have ended")

    def _end(self, children: list[Child]) -> None:
        waiting = list(children)
        while waiting and self.elapsed() < PATIENCE:
            for child in [child for child in waiting if child.exit_code() is not None]:
                waiting.remove(child)
                self.in_time(child.name)
            self.stop.sleep(0.02)
        for child in waiting:
            self.in_time(child.name)
            child.stop(_KILL_SECONDS)

    def appears(self, who: str, text: Callable[[], str], *patterns: str) -> None:
        """A text has all of these words, in time; it may change afterwards."""
        now = ""

        def there() -> bool:
            nonlocal now
            now = text()
            return all(re.search(pattern, now, _FLAGS) for pattern in patterns)

        self.stop.wait_for(there, max(self.outcome.limit - self.elapsed(), 0) + _SLACK)
        self.in_time(who)
        self.says(who, now, *patterns)

    def close(self) -> None:
        for child in self._children.all:
            child.kill()
        self._undo.close()


def error_of(child: Child) -> str:
    """A worker's messages to its user: errors and warnings on standard error, and the error of its JSON."""
    err = child.err.read_text(errors="replace")
    lines = [line for line in err.splitlines() if line.startswith(("error:", "warning:"))]
    for line in child.out.read_text(errors="replace").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        error = found.get("error") if isinstance(found, dict) else None
        if error and not any(str(error) in told for told in lines):
            lines.append(f"json: {error}")
    return "\n".join(lines) or err[-600:]


def stalled_lcore(pid: int) -> Callable[[], None]:
    """Stops the first lcore of an appliance and nothing else; call what this returns to let it continue."""
    attach, detach, whole = 16, 17, 0x4000_0000
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [
        int(task.name) for task in tasks if re.match(r"(lcore|dpdk|rte)-worker", (task / "comm").read_text())
    ]
    if not found:
        raise Failure("the appliance has no thread that is called as DPDK calls lcores")
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if trace(attach, found[0], None, None) != 0:
        raise Failure(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(found[0], whole)
    return lambda: trace(detach, found[0], None, None)


def address_of(rank: int) -> str:
    return re.escape(worker_address(rank))
