"""Starts measured programs, so that the machine's other work takes as little of their time as possible."""

import json
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from process import Child, Failure, Stop

# Where the kernel groups processes by session, `nice` has no effect between sessions: the group itself must
# ask. Only root may.
FIRST = ("bash", "-c", 'echo -20 2>/dev/null >/proc/self/autogroup || true; exec "$@"', "--")


def start(name: str, command: Sequence[object], logs: Path, namespace: str | None = None) -> Child:
    """Starts a program to measure, in a session of its own that comes first when cores are short."""
    return Child(name, [*FIRST, *map(str, command)], logs, namespace)


# Programs by name: the words of each, and its namespace, if any.
Commands = Mapping[str, tuple[Sequence[object], str | None]]


def run(commands: Commands, logs: Path, stop: Stop, seconds: float, *, apart: float = 0.0) -> list[Child]:
    """Starts programs, and returns them when all have ended well, within the time.

    `apart`: seconds from one start to the next.
    """
    children: list[Child] = []

    def over() -> bool:
        codes = [child.exit_code() for child in children]
        return None not in codes or any(codes)

    try:
        for name, (command, namespace) in commands.items():
            stop.sleep(apart if children else 0.0)
            children.append(start(name, command, logs, namespace))
        in_time = stop.wait_for(over, seconds)
        for child in children:
            if child.exit_code():
                raise Failure(f"{child.name} ended with exit code {child.exit_code()}", child.tail())
            if child.exit_code() is None and not in_time:
                raise Failure(f"{child.name} was not done after {seconds:.0f} s", child.tail())
        return children
    finally:
        for child in children:
            child.stop(2.0)


def objects(child: Child) -> list[dict[str, Any]]:
    """The JSON objects that a program printed, one per line; other lines are none."""
    found = []
    for line in child.out.read_text(errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def json_of(name: str, command: Sequence[object], logs: Path, stop: Stop, seconds: float) -> dict[str, Any]:
    """Runs a program that prints one JSON object, and returns that."""
    (child,) = run({name: (command, None)}, logs, stop, seconds)
    return last_object(child)


def last_object(child: Child) -> dict[str, Any]:
    """The last JSON object that a program printed in a line."""
    found = objects(child)
    if not found:
        raise Failure(f"{child.name} printed no JSON object", child.tail())
    return found[-1]


def slowest(reports: Sequence[Sequence[float]]) -> float:
    """From each rank's times: the median over the allreduces of what the slowest rank took."""
    return statistics.median(max(times) for times in zip(*reports, strict=True))


def whole_object(child: Child) -> dict[str, Any]:
    """The JSON object that a program printed over several lines."""
    try:
        found = json.loads(child.out.read_text(errors="replace"))
    except ValueError as error:
        raise Failure(f"{child.name} printed no JSON object", child.tail()) from error
    if not isinstance(found, dict):
        raise Failure(f"{child.name} printed no JSON object", child.tail())
    return found


def version(*command: str, whole: bool = False) -> str:
    """A program's `--version`, its first line or the whole output; empty if it is not installed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = (done.stdout or done.stderr).strip()
    return said if whole else said.partition("\n")[0]
