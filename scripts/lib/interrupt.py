"""Interrupts a real demo in the middle and looks for what is left: namespaces, processes, files.

`ctrl-c` types Ctrl-C on the demo's terminal, `term` sends SIGTERM. `kill` sends SIGKILL, after which only the
processes can be gone; the next run of the demo has to remove the rest.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from build import ROOT
from netns import NAMESPACES, work_directory

DEMO = str(ROOT / "scripts/demo")
_START_SECONDS = 900.0  # may include a build
_END_SECONDS = 30.0
_EXIT_CODES = {"ctrl-c": 128 + signal.SIGINT, "term": 128 + signal.SIGTERM, "kill": -signal.SIGKILL}


class Terminal:
    """A demo on a terminal of its own."""

    def __init__(self, command: list[str]) -> None:
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execv(command[0], command)
        self.output = ""
        self._code: int | None = None

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Reads along until the condition holds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()
            if condition():
                return True
        return False

    def press_ctrl_c(self) -> None:
        """The terminal turns this into SIGINT for the whole foreground process group."""
        os.write(self._terminal, b"\x03")

    def ended(self) -> bool:
        """Whether it has ended; the exit code is kept."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    @property
    def exit_code(self) -> int | None:
        """Negative if a signal ended it."""
        return self._code

    def _read(self) -> None:
        if not select.select([self._terminal], [], [], 0.05)[0]:
            return
        try:
            self.output += os.read(self._terminal, 65536).decode(errors="replace")
        except OSError:
            time.sleep(0.05)  # the other side is closed: nothing will come any more


def descendants(ancestor: int) -> dict[int, str]:
    """All processes below one: pid and start time, which together never mean another process."""
    parents = {pid: (parent, start) for pid, parent, start in _processes()}
    found: dict[int, str] = {}
    wave = {ancestor}
    while wave:
        wave = {pid for pid, (parent, _) in parents.items() if parent in wave and pid not in found}
        found.update({pid: parents[pid][1] for pid in wave})
    return found


def _processes() -> Iterator[tuple[int, int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] != "Z":
                yield int(entry.name), int(fields[1]), fields[19]


def alive(processes: dict[int, str]) -> list[int]:
    """Those that still run."""
    now = {pid: start for pid, _, start in _processes()}
    return [pid for pid, start in processes.items() if now.get(pid) == start]


def namespaces(pids: set[int]) -> list[str]:
    """The namespaces of the runs of these processes."""
    prefixes = {f"pas-{pid}-" for pid in pids}
    names = [path.name for path in NAMESPACES.iterdir()] if NAMESPACES.exists() else []
    return sorted(name for name in names if any(name.startswith(prefix) for prefix in prefixes))


def interrupt(how: str, command: list[str]) -> list[str]:
    """Interrupts one demo; returns what is wrong afterwards."""
    demo = Terminal(command)
    # The bar shows the first finished allreduces: workers and appliance are in the middle of it.
    if not demo.wait(
        lambda: re.search(r"\b[1-9]\d*/\d+ allreduces", demo.output) is not None, _START_SECONDS
    ):
        os.kill(demo.pid, signal.SIGTERM)
        return [f"the demo did not get going:\n{demo.output}"]
    children = descendants(demo.pid)
    pids = {demo.pid, *children}
    problems = []
    if len(children) < 5 or len(namespaces(pids)) < 5:
        problems.append(
            f"expected an appliance and 4 workers, found processes {children}, {namespaces(pids)}"
        )
    if how == "ctrl-c":
        demo.press_ctrl_c()
    else:
        os.kill(demo.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
    if not demo.wait(demo.ended, _END_SECONDS):
        problems.append(f"the demo still runs {_END_SECONDS:.0f} s later")
    elif demo.exit_code != _EXIT_CODES[how]:
        problems.append(f"exit code {demo.exit_code} instead of {_EXIT_CODES[how]}:\n{demo.output}")
    if not demo.wait(lambda: not alive(children), 5.0):
        problems.append(f"processes left: {alive(children)}")
    if how == "kill":
        problems += _next_run_cleans_up(pids, command)
    problems += [f"namespace left: {name}" for name in namespaces(pids)]
    problems += [f"files left: {work_directory(pid)}" for pid in pids if work_directory(pid).exists()]
    return problems


def _next_run_cleans_up(pids: set[int], command: list[str]) -> list[str]:
    if not namespaces(pids):
        return ["SIGKILL left nothing to clean up: this check checks nothing"]
    again = [command[0], "--allreduces", "1", "--bytes", "64KiB", *command[3:]]
    done = subprocess.run(again, capture_output=True, text=True, timeout=_START_SECONDS, check=False)
    return [] if done.returncode == 0 else [f"the next run failed:\n{done.stdout}{done.stderr}"]


def main(how: str, *more: str) -> int:
    """Exit code 0 if nothing is left."""
    problems = interrupt(how, [DEMO, "--allreduces", "100000", *more])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in _EXIT_CODES:
        sys.exit(f"usage: interrupt.py {'|'.join(_EXIT_CODES)} [DEMO OPTION...]")
    sys.exit(main(*sys.argv[1:]))
