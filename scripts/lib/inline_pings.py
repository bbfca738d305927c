"""Echoes through an appliance in line, between a neighbour of the workers and the server.

The neighbour does not train: its link is its own, so an echo waits for nothing but the appliance. Both take
precedence over the workers, as an appliance has cores of its own and workers run on other hosts.
"""

import re
import signal
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from process import Child, Stop

_TIMES = Path(__file__).with_name("echo_times.py")
# Of each `ping`, several of which run at once: one that has less than 10 ms to the next echo does not sleep
# until then, and would take its processor from the workers.
_AT_ONCE = 6
_IDLE_PINGS = 200
_INTERVAL = "0.015"
_LEAST = 200
_IDLE_SECONDS = 20.0


@dataclass(frozen=True)
class Echoes:
    """p99 in ms; none where too few came back."""

    # From leaving the neighbour's interface to coming back to it: all of it.
    wire: float | None = None
    # By `ping`: includes its own processor's work before the kernel sent it.
    said: float | None = None


class Pings:
    """A few `ping` at a time, and a program that watches their echoes."""

    def __init__(self, namespace: str, target: str, files: Path) -> None:
        self._namespace, self._target, self._files = namespace, target, files
        self._watch: Child | None = None
        self._children: list[Child] = []

    def idle(self, stop: Stop) -> Echoes:
        """Echoes without other traffic."""
        self.begin("idle", "-c", str(_IDLE_PINGS))
        stop.wait_for(lambda: all(child.exit_code() is not None for child in self._children), _IDLE_SECONDS)
        return self.end()

    def begin(self, name: str, *more: str) -> None:
        watch = [sys.executable, "-B", str(_TIMES), "eth0"]
        self._watch = Child(f"echoes-{name}", watch, self._files, self._namespace)
        command = ["ping", "-n", "-i", _INTERVAL, "-W1", *more, self._target]
        self._children = [
            Child(f"ping-{name}{each}", command, self._files, self._namespace, realtime=True)
            for each in range(_AT_ONCE)
        ]

    @property
    def begun(self) -> bool:
        return bool(self._children)

    def end(self) -> Echoes:
        children, self._children = self._children, []
        watch, self._watch = self._watch, None
        for child in children:
            child.stop(1.0, signal.SIGINT)
        said = [float(it) for child in children for it in re.findall(r"time=([\d.]+) ms", _words(child))]
        if watch is None:
            return Echoes()
        watch.stop(2.0, signal.SIGINT)
        return Echoes(_p99([float(line) for line in _words(watch).split()]), _p99(said))


def _words(child: Child) -> str:
    return child.out.read_text(errors="replace")


def _p99(times: list[float]) -> float | None:
    return round(statistics.quantiles(times, n=100)[98], 4) if len(times) >= _LEAST else None
