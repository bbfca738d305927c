"""Starting what is measured, so that the machine's other work takes as little of its time as possible."""

import json
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from process import Child, Failure, Stop

# Where the kernel groups processes by session, `nice` has no effect between sessions: the group itself must
# ask. Only root may.
_FIRST = ("bash", "-c", 'echo -20 2>/dev/null >/proc/self/autogroup || true; exec "$@"', "--")


def first(command: Sequence[str]) -> list[str]:
    """The command, in front of others where cores are short: for what starts a process session of its own."""
    return [*_FIRST, *command]


def start(name: str, command: Sequence[str], logs: Path, namespace: str | None = None) -> Child:
    """Starts a program to measure, in a session of its own that comes first when cores are short."""
    return Child(name, first(command), logs, namespace)


def wait(children: Sequence[Child], stop: Stop, seconds: float) -> None:
    """Returns when all have ended well, within the time; what they still are then is ended."""
    try:
        in_time = stop.wait_for(lambda: all(child.exit_code() is not None for child in children), seconds)
        failed = [child for child in children if child.exit_code() not in (None, 0)]
        if failed:
            raise Failure(f"{failed[0].name} ended with exit code {failed[0].exit_code()}", failed[0].tail())
        if not in_time:
            late = next(child for child in children if child.exit_code() is None)
            raise Failure(f"{late.name} was not done after {seconds:.0f} s", late.tail())
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


def json_of(name: str, command: Sequence[str], logs: Path, stop: Stop, seconds: float) -> dict[str, Any]:
    """Runs a program that prints one JSON object, and returns that."""
    child = start(name, command, logs)
    wait([child], stop, seconds)
    found = objects(child)
    if not found:
        raise Failure(f"{name} printed no JSON object", child.tail())
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
    """What a program says about itself, its first line or the whole of it; empty if it is not there."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    said = (done.stdout or done.stderr).strip()
    return said if whole else said.partition("\n")[0]
