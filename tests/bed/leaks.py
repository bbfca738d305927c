"""Judges memory and packet buffers of a process over time.

Memory by its slope after a warm-up, over medians of a few seconds each: a leak moves it; one step up, or a
sample that stands out, does not. Packet buffers in use may not climb from batch to batch.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

_SAMPLE_SECONDS = 1.0
# Samples of this time become one, their median.
_WINDOW_SECONDS = 5.0
# Fewer do not give a slope.
_LEAST_WINDOWS = 6
# A leak of a byte per packet shows as 100,000 KiB per hour.
_ALLOWED_KIB_PER_HOUR = 4096
# Queued frames hold a few; a burst has 32.
_ALLOWED_BUFFERS = 32
# Fewer do not show a climb.
_LEAST_BATCHES = 4


def kib_per_hour(samples: Sequence[tuple[float, int]], since: float) -> float | None:
    """The slope of (seconds, KiB) after `since` seconds; none if that is too short to tell.

    The median of the slopes between windows that are at most a third of the time apart: one step up is in
    less than half of them, wherever it is. In all pairs it would not be.
    """
    windows: dict[int, list[tuple[float, int]]] = {}
    for sample in samples:
        if sample[0] >= since:
            windows.setdefault(int(sample[0] / _WINDOW_SECONDS), []).append(sample)
    points = [
        (statistics.median(when for when, _ in window), statistics.median(kib for _, kib in window))
        for window in windows.values()
    ]
    if len(points) < _LEAST_WINDOWS:
        return None
    far = (points[-1][0] - points[0][0]) / 3
    pairs = [(a, b) for a, b in itertools.combinations(points, 2) if b[0] - a[0] <= far + _SAMPLE_SECONDS]
    return 3600.0 * statistics.median((b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs)


def leaks(slope: float) -> bool:
    return slope > _ALLOWED_KIB_PER_HOUR


def climb(buffers: Sequence[int]) -> float:
    """How many more buffers are in use in the second half of the batches than in the first, by medians."""
    half = len(buffers) // 2
    return statistics.median(buffers[half:]) - statistics.median(buffers[:half]) if half else 0.0


def loses_buffers(buffers: Sequence[int]) -> bool:
    """Whether they climb, or there are too few batches to tell."""
    return len(buffers) < _LEAST_BATCHES or climb(buffers) > _ALLOWED_BUFFERS


def held_kib(pid: int) -> int:
    """The present memory of a process."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    # Huge pages are no part of VmRSS, and psutil does not report them.
    return sum(int(words[1]) for words in lines if words and words[0] in ("VmRSS:", "HugetlbPages:"))


class Memory:
    """The memory of a process over time: (seconds since the start, KiB)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._start = time.monotonic()
        self.samples: list[tuple[float, int]] = []
        self.sample(now=True)

    def sample(self, *, now: bool = False) -> None:
        """Takes a sample once a second, however often it is called."""
        passed = time.monotonic() - self._start
        if now or passed - self.samples[-1][0] >= _SAMPLE_SECONDS:
            self.samples.append((passed, held_kib(self._pid)))
