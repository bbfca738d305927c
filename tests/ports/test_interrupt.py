"""Interrupts a real demo in the middle and looks for what is left: namespaces, processes, files.

After SIGKILL only the processes can be gone; the next run of the demo has to remove the rest.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from netns import NAMESPACES, work_directory
from tests.runner.shell import ROOT, Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]
_START_SECONDS = 60.0
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


def _namespaces(pids: set[int]) -> list[str]:
    """The namespaces of the runs of these processes."""
    prefixes = tuple(f"pas-{pid}-" for pid in pids)
    names = [path.name for path in NAMESPACES.iterdir()] if NAMESPACES.exists() else []
    return sorted(name for name in names if name.startswith(prefixes))


@pytest.mark.parametrize("how", _EXIT_CODES)
def test_nothing_is_left(how: str, shell: Shell, pascaline: Path) -> None:
    """Ctrl-C on the demo's terminal, SIGTERM, and SIGKILL with the run after it."""
    command = [str(ROOT / "scripts/demo"), "--binary", str(pascaline)]
    demo = Terminal([*command, "--allreduces", "100000"])
    # The bar shows the first finished allreduces: workers and appliance are in the middle of it.
    started = lambda: re.search(r"\b[1-9]\d*/\d+ allreduces", demo.output) is not None  # noqa: E731
    if not demo.wait(started, _START_SECONDS):
        os.kill(demo.pid, signal.SIGTERM)
        pytest.fail(f"the demo did not start:\n{demo.output}")
    children = psutil.Process(demo.pid).children(recursive=True)
    pids = {demo.pid, *(child.pid for child in children)}
    # An appliance and four workers.
    assert len(children) >= 5
    assert len(_namespaces(pids)) >= 5
    if how == "ctrl-c":
        demo.press_ctrl_c()
    else:
        os.kill(demo.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
    assert demo.wait(demo.ended, _END_SECONDS), "the demo still runs"
    assert demo.exit_code == _EXIT_CODES[how], demo.output
    _, alive = psutil.wait_procs(children, timeout=5)
    assert not alive
    if how == "kill":
        assert _namespaces(pids), "SIGKILL left nothing to clean up: this test tests nothing"
        shell(*command, "--allreduces", 1, "--bytes", "64KiB", seconds=60)
    assert not _namespaces(pids)
    assert not [pid for pid in pids if work_directory(pid).exists()]
