"""Processes in namespaces: started, watched and ended with everything that they have started, by psutil."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from process import POLL_SECONDS, Child, Failure, Stop

_GRACE_SECONDS = 5.0


class Deadline(Stop):
    """A time limit in the form of a `Stop`; signals are left to pytest."""

    def __init__(self, seconds: float) -> None:
        self._option = ""
        self._timeout = seconds
        self._deadline = time.monotonic() + seconds


class Process(Child):
    """A program with its output in files: the demo's, with its entry in psutil."""

    @property
    def ps(self) -> psutil.Process:
        """Its entry in the process table: `memory_info()`, `cpu_times()`, `threads()` and so on."""
        return psutil.Process(self.pid)

    def memory(self) -> int:
        return int(self.ps.memory_info().rss)

    def log(self) -> str:
        return self.err.read_text(errors="replace") + self.out.read_text(errors="replace")

    def wait(self, seconds: float) -> int:
        """Its exit code, once it has ended; fails if it does not within the time."""
        wait_for(lambda: self.exit_code() is not None, seconds, lambda: f"{self.name} still runs")
        code = self.exit_code()
        assert code is not None
        return code


class Processes:
    """All processes of a run, in the order of their start. Use it in a `with`: they end with it."""

    def __init__(self, files: Path) -> None:
        """`files` is the directory for their outputs."""
        self.files = files
        self.all: list[Process] = []

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, name: str, command: Sequence[str | Path], host: str | None = None) -> Process:
        """Starts a program, in the namespace of this name if there is one."""
        words = [str(word) for word in command]
        child = Process(f"{len(self.all)}-{name}", words, self.files, host)
        self.all.append(child)
        return child

    def close(self, grace: float = _GRACE_SECONDS) -> None:
        """Ends all, the last one first, and then their remaining processes."""
        left: list[psutil.Process] = []
        for child in reversed(self.all):
            with contextlib.suppress(psutil.Error):
                left += child.ps.children(recursive=True)
            child.stop(grace)
        for orphan in left:
            with contextlib.suppress(psutil.Error):
                orphan.kill()
        psutil.wait_procs(left, grace)


def command(binary: Path, *words: str, **options: object) -> list[str]:
    """A command line: `join_deadline="3s"` is `--join-deadline 3s`, and True an option by itself."""
    line = [str(binary), *words]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        line += [option] if value is True else [option, str(value)]
    return line


def wait_for(
    condition: Callable[[], object], seconds: float, otherwise: str | Callable[[], str], log: str = ""
) -> None:
    """Returns once the condition holds; fails with `otherwise` if it does not within the time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            what = otherwise if isinstance(otherwise, str) else otherwise()
            raise Failure(f"{what} after {seconds:g} s", log)
        time.sleep(POLL_SECONDS)
