"""Where mistakes are made: an appliance and workers in network namespaces, and what each of them says.

A case is a function that makes one mistake in a `Bed` and then says which words must stand in whose text.
What does not hold is noted, and the case goes on, so that all of it is told.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance import JOB, UDP_PORT, Appliance, Settings, configuration
from metrics import RESULTS
from netns import APPLIANCE_ADDRESS, Network, worker_address
from process import Child, Failure, Stop, run

MIB = 1 << 20
RANKS = 3
# The namespace that is nobody's rank: parameter servers and strangers live there.
OUTSIDE = 3
# For how long a worker may take to be killed, and a text to come, before the case is given up.
_PATIENCE = 45.0
_KILL_SECONDS = 1.0
# Mistakes must be told of within this.
SOON = 2.0


@dataclass
class Outcome:
    """What came of a case."""

    name: str
    what: str
    limit: float
    seconds: float = 0.0
    texts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def named(self) -> bool:
        """Whether everybody was told what they must be told, in time."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """For --json."""
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

    def __init__(self, binary: Path, network: Network, files: Path, stop: Stop, outcome: Outcome) -> None:
        self.binary = binary
        self.network = network
        self.files = files
        self.stop = stop
        self.outcome = outcome
        self.appliances: list[Appliance] = []
        self.children: list[Child] = []
        self._undo: list[Callable[[], object]] = []
        self._since = time.monotonic()

    # ---- what there is ----

    def appliance(
        self, keys: str = "", more: str = "", *, policy: str = "default", slots: int = 4096
    ) -> Appliance:
        """Starts one with such lines in its job's table, and such tables; returns it once it is ready."""
        settings = self.settings(keys, more, policy=policy, slots=slots)
        appliance = Appliance(self.binary, self.network, settings, self.files)
        self.appliances.append(appliance)
        appliance.wait_ready(self.stop)
        return appliance

    def settings(self, keys: str = "", more: str = "", *, policy: str = "default", slots: int = 4096) -> str:
        """Its configuration."""
        settings = Settings(
            "af_packet", slots, 512, policy, more=more, job_keys=keys, fan_in=RANKS, name="mistakes"
        )
        return configuration(self.network, settings, self.files / "admin.sock")

    def worker(self, rank: int, **options: object) -> Child:
        """Starts a rank; options are those of `pascaline worker allreduce`, with `_` for `-`."""
        return self._start("allreduce", rank, {"job": JOB, "bytes": MIB, "iterations": 1000} | options)

    def updater(self, rank: int, **options: object) -> Child:
        """Starts a rank of an asynchronous job; options are those of `pascaline worker olaf`."""
        return self._start("olaf", rank, options)

    def command(self, rank: int, *words: str, **options: object) -> Child:
        """Starts a rank that commands the job: `pascaline worker command`."""
        return self._start("command", rank, {"job": JOB} | options, words)

    def _start(self, mode: str, rank: int, options: dict[str, object], more: tuple[str, ...] = ()) -> Child:
        words = {"appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}", "rank": rank, "ranks": RANKS} | options
        command = [str(self.binary), "worker", mode, *more, "--json"]
        for name, value in words.items():
            option = f"--{name.replace('_', '-')}"
            command += [option] if value is True else [option, str(value)]
        child = self.child(f"rank{rank}", command, self.network.workers[rank])
        self.mark()
        return child

    def workers(self, ranks: Iterable[int] = range(RANKS), **options: object) -> list[Child]:
        """Starts several that do the same."""
        return [self.worker(rank, **options) for rank in ranks]

    def child(self, name: str, command: list[str], namespace: str) -> Child:
        """Starts some other program in a namespace."""
        child = Child(f"{len(self.children)}-{name}", command, self.files, namespace)
        self.children.append(child)
        return child

    def pascaline(self, *words: str) -> str:
        """What a command of the program's says in the appliance's namespace, on both outputs."""
        done = run(
            "ip", "netns", "exec", self.network.appliance, str(self.binary), *words, check=False, timeout=20
        )
        return done.stdout + done.stderr

    def explain(self, job: int = JOB) -> str:
        """What `pascaline explain` says of a job."""
        return self.pascaline("explain", str(job), "--admin", f"unix:{self.files / 'admin.sock'}")

    def ip(self, namespace: str, *words: str) -> None:
        """Runs `ip` in a namespace."""
        run("ip", "-n", namespace, *words)

    def undo(self, action: Callable[[], object]) -> None:
        """Does something at the end, in reverse order."""
        self._undo.append(action)

    # ---- time ----

    def mark(self) -> None:
        """The mistake is made now: from here on the seconds count."""
        self._since = time.monotonic()

    def elapsed(self) -> float:
        """Since then."""
        return time.monotonic() - self._since

    def sleep(self, seconds: float) -> None:
        """Sleeps, but not through a signal."""
        self.stop.sleep(seconds)

    def await_work(self, seconds: float = 10.0) -> None:
        """Waits until results have gone out: the workers are at it."""
        appliance = self.appliances[-1]
        if not self.stop.wait_for(lambda: appliance.scrape().total(RESULTS) > 300, seconds):
            self.problem(f"no results after {seconds:.0f} s")

    # ---- what must hold ----

    def problem(self, text: str) -> None:
        """Notes what does not hold."""
        self.outcome.problems.append(text)

    def says(self, who: str, text: str, *patterns: str) -> None:
        """Every pattern must stand in the text."""
        self.outcome.texts[who] = " ".join(text.split())[:1200]
        for pattern in patterns:
            if not re.search(pattern, text, re.IGNORECASE | re.DOTALL):
                self.problem(f"{who} does not say {pattern!r}")

    def in_time(self, who: str, seconds: float) -> None:
        """Takes note of how long it took somebody to be told."""
        self.outcome.seconds = max(self.outcome.seconds, seconds)
        if seconds > self.outcome.limit:
            self.problem(f"{who}: {seconds:.2f} s, at most {self.outcome.limit:g} s")

    def fails(self, children: list[Child], *patterns: str) -> None:
        """Each of them ends, in time, with an error that says all of this."""
        self._end(children)
        for child in children:
            self.says(child.name, error_of(child), *patterns)
            if child.exit_code() == 0:
                self.problem(f"{child.name} ends as if all were well")

    def succeeds(self, children: list[Child], seconds: float = _PATIENCE) -> None:
        """Each of them ends well."""
        ended = self.stop.wait_for(lambda: all(c.exit_code() is not None for c in children), seconds)
        for child in children:
            if not ended and child.exit_code() is None:
                self.problem(f"{child.name} has not ended after {seconds:.0f} s")
            elif child.exit_code() != 0:
                self.problem(f"{child.name} fails: {error_of(child)}")

    def _end(self, children: list[Child]) -> None:
        """Waits for each, and notes when."""
        waiting = list(children)
        while waiting and self.elapsed() < max(_PATIENCE, self.outcome.limit + 5):
            for child in [child for child in waiting if child.exit_code() is not None]:
                waiting.remove(child)
                self.in_time(child.name, self.elapsed())
            self.stop.sleep(0.02)
        for child in waiting:
            self.in_time(child.name, self.elapsed())
            child.stop(_KILL_SECONDS)

    def appears(self, who: str, text: Callable[[], str], *patterns: str) -> None:
        """A text comes to say all of this, in time; it need not say so for long."""
        now = ""

        def there() -> bool:
            nonlocal now
            now = text()
            return all(re.search(pattern, now, re.IGNORECASE | re.DOTALL) for pattern in patterns)

        self.stop.wait_for(there, max(self.outcome.limit - self.elapsed(), 0) + 3)
        self.in_time(who, self.elapsed())
        self.says(who, now, *patterns)

    def close(self) -> None:
        """Ends everything."""
        for action in reversed(self._undo):
            action()
        for child in self.children:
            child.kill()
        for appliance in self.appliances:
            appliance.stop()


def error_of(child: Child) -> str:
    """What a worker tells its user: the errors and warnings on standard error, and the error of its JSON."""
    lines = [line for line in _read(child.err).splitlines() if line.startswith(("error:", "warning:"))]
    for line in _read(child.out).splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        error = found.get("error") if isinstance(found, dict) else None
        if error and not any(str(error) in told for told in lines):
            lines.append(f"json: {error}")
    return "\n".join(lines) or _read(child.err)[-600:]


def result_of(child: Child) -> dict[str, Any]:
    """The JSON of a worker that has ended."""
    lines = _read(child.out).splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise Failure(f"{child.name} printed no JSON", child.tail()) from error
    return dict(found)


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def suspended(child_pid: int) -> Callable[[], None]:
    """Stops a process; call what this returns to let it go on."""
    os.kill(child_pid, signal.SIGSTOP)
    return lambda: os.kill(child_pid, signal.SIGCONT)


def stalled_lcore(pid: int) -> Callable[[], None]:
    """Stops the first lcore of an appliance and nothing else; call what this returns to let it go on."""
    attach, detach, whole = 16, 17, 0x4000_0000
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [int(task.name) for task in tasks if re.match(r"(lcore|dpdk|rte)-worker", _read(task / "comm"))]
    if not found:
        raise Failure("the appliance has no thread that is called as DPDK calls lcores")
    trace = ctypes.CDLL(None, use_errno=True).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if trace(attach, found[0], None, None) != 0:
        raise Failure(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(found[0], whole)
    return lambda: trace(detach, found[0], None, None)


def address_of(rank: int) -> str:
    """A rank's address as a pattern."""
    return re.escape(worker_address(rank))
