"""Starts and ends processes so that none outlives the script, however the script ends."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

POLL_SECONDS = 0.05
LOG_TAIL_LINES = 15


class Failure(Exception):
    """A required operation has failed. The message is for the person who started the script."""

    exit_code = 1

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log

    @property
    def whole(self) -> str:
        """The message and further details."""
        return f"{self}\n{self.log}" if self.log else str(self)


class Unable(Failure):
    """Neither this machine nor this user can run the script as it is. Nothing was made."""

    exit_code = 2


class Skipped(Exception):
    """A check cannot run on this machine. The message is the reason."""


class Interrupted(Exception):
    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class Stop:
    """Says when to give up: on a signal or when the time is over.

    The handler only remembers the signal; the script asks at points where it can be left safely. An exception
    raised by a handler could strike between creating a thing and noting that it has to be removed.
    """

    # For all instances: a script may start another one after the signal.
    _signum: ClassVar[int | None] = None

    def __init__(self, timeout: float, option: str = "") -> None:
        """`option` is the script's option for the time limit."""
        self._option = option
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self._remember)

    def _remember(self, signum: int, _frame: FrameType | None) -> None:
        Stop._signum = signum

    def restart_clock(self) -> None:
        """Starts the time limit anew, so that a build before does not count."""
        self._deadline = time.monotonic() + self._timeout

    def lift_limit(self) -> None:
        """From here on only a signal stops."""
        self._deadline = math.inf

    def check(self) -> None:
        """Raises on a signal or at the time limit."""
        if self._signum is not None:
            raise Interrupted(self._signum)
        if time.monotonic() > self._deadline:
            see = f" (see {self._option})" if self._option else ""
            raise Failure(f"not done after {self._timeout:.0f} s{see}")

    def sleep(self, seconds: float = POLL_SECONDS) -> None:
        """Sleeps, but not through a signal."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_SECONDS))

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Polls until the condition holds; false if it does not within the time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self.sleep()
        return True


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(*command: str, check: bool = True, timeout: float = 10.0) -> subprocess.CompletedProcess[str]:
    """Runs a short command, in a session of its own: after Ctrl-C this script still needs `ip`."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            start_new_session=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise Failure(f"{command[0]} is not installed: run scripts/setup") from error
    except subprocess.TimeoutExpired as error:
        raise Failure(f"no answer in {timeout:.0f} s from: {' '.join(command)}") from error
    if check and done.returncode != 0:
        raise Failure(f"failed ({done.returncode}): {' '.join(command)}", done.stderr.strip())
    return done


def run_long(
    command: Sequence[str],
    stop: Stop,
    failure: str | Callable[[], str],
    *,
    place: Path | None = None,
    may_ask: bool = False,
) -> str:
    """Runs a long command with its progress on our stderr, and returns its stdout.

    A signal ends it, with all that it has started; but not where it may ask for a password at our terminal.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=place, stdin=subprocess.DEVNULL, stdout=pipe, text=True, start_new_session=not may_ask
    ) as child:
        try:
            while True:
                stop.check()
                try:
                    output, _ = child.communicate(timeout=2 * POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if child.poll() is None:
                (os.kill if may_ask else os.killpg)(child.pid, signal.SIGTERM)
    if child.returncode != 0:
        why = failure if isinstance(failure, str) else failure()
        raise Failure(why, "\n".join(output.splitlines()[-LOG_TAIL_LINES:]))
    return output


class Child:
    """A process that this script started, in a process group of its own, with its output in files."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        logs: Path,
        namespace: str | None = None,
        *,
        realtime: bool = False,
        environment: Mapping[str, str] | None = None,
        place: Path | None = None,
    ) -> None:
        """`realtime`: it takes precedence over other processes, as if it had a processor of its own.

        `environment` and `place` are ours, unless they are given.
        """
        self.name = name
        self.out = logs / f"{name}.out"
        self.err = logs / f"{name}.err"
        self.ended_by_us = False
        prefix = ["ip", "netns", "exec", namespace] if namespace else []
        prefix += ["chrt", "--rr", "1"] if realtime else []
        # `ip netns exec`, chrt and setpriv replace themselves: the pid is that of the program. pdeathsig
        # covers the one end that this script cannot handle, its own SIGKILL.
        full = [*prefix, "setpriv", "--pdeathsig", "KILL", *command]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._popen = subprocess.Popen(
                full,
                cwd=place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def exit_code(self) -> int | None:
        """The exit code, none while it runs; negative if a signal ended it."""
        return self._popen.poll()

    def wait(self, seconds: float) -> int | None:
        """Its exit code, none if it still runs after that time."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, grace: float, signum: int = signal.SIGTERM) -> int:
        """Terminates it, kills it after `grace` seconds, and returns the exit code."""
        if self._popen.poll() is None:
            self.ended_by_us = True
            self._signal(signum)
            if self.wait(grace) is None:
                self._signal(signal.SIGKILL)
                self._popen.wait(5)
        return self._popen.returncode

    def kill(self) -> None:
        """Kills it."""
        self.stop(5, signal.SIGKILL)

    def _signal(self, signum: int) -> None:
        # Not reaped yet, so the id is still ours and cannot mean another process.
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, signum)

    def said(self) -> dict[str, Any]:
        """The JSON object that is its last line of output."""
        lines = self.out.read_text(errors="replace").splitlines()
        if not lines:
            raise Failure(f"{self.name} said nothing", self.tail())
        said: dict[str, Any] = json.loads(lines[-1])
        return said

    def tail(self) -> str:
        """The last lines that it wrote, for an error message."""
        return tail(self.err) or tail(self.out)


def tail(path: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a file, empty if there is none."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
