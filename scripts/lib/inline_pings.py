"""Echoes through an appliance in line, between a neighbour of the workers and the server.

The neighbour does not train: its link is its own, so an echo waits for nothing but the appliance. Both have
a processor before the workers have one, as an appliance has cores of its own and workers are elsewhere.
"""

from __future__ import annotations

import re
import signal
import statistics
from pathlib import Path

from process import Child, Stop

_IDLE_PINGS = 1000
_INTERVAL = "0.002"
_LEAST = 200
_IDLE_SECONDS = 20.0


class Pings:
    """One `ping` at a time."""

    def __init__(self, namespace: str, target: str, files: Path) -> None:
        self._namespace = namespace
        self._target = target
        self._files = files
        self._child: Child | None = None

    def idle(self, stop: Stop) -> float | None:
        """p99 in ms while nothing else passes; none where too few came back."""
        child = self._start("idle", "-c", str(_IDLE_PINGS))
        stop.wait_for(lambda: child.exit_code() is not None, _IDLE_SECONDS)
        return self.end()

    def begin(self, name: str) -> None:
        """Starts to ping, until `end`."""
        self._start(name)

    @property
    def begun(self) -> bool:
        """Whether it pings."""
        return self._child is not None

    def end(self) -> float | None:
        """Ends it; p99 in ms, none where too few came back or it was never begun."""
        child, self._child = self._child, None
        if child is None:
            return None
        child.stop(1.0, signal.SIGINT)
        return _p99(child.out.read_text(errors="replace"))

    def _start(self, name: str, *more: str) -> Child:
        command = ["ping", "-n", "-i", _INTERVAL, "-W1", *more, self._target]
        self._child = Child(f"ping-{name}", command, self._files, self._namespace, realtime=True)
        return self._child


def _p99(said: str) -> float | None:
    times = [float(found) for found in re.findall(r"time=([\d.]+) ms", said)]
    if len(times) < _LEAST:
        return None
    return round(statistics.quantiles(times, n=100)[98], 4)
