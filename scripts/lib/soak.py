"""A soak: allreduces without end for a while, and the appliance may neither grow nor lose packet buffers.

Workers come and go in batches, so that joining and leaving are soaked too. After each batch all have left,
and packet buffers in use may not climb from batch to batch. Memory is judged by its slope after a warm-up,
over medians of a few seconds each: a leak moves it; one step up, or a sample that stands out, does not.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import build
import netns
import report
from appliance import Appliance, Settings
from metrics import Accounting
from netns import Network
from process import Failure, Interrupted, Stop
from workers import Load, Workers

# Threads touch their stacks and the allocator its arenas for a while: a third of the soak, at least.
_WARM_UP_SECONDS = 30.0
_SAMPLE_SECONDS = 1.0
# Samples of as long become one, their median.
_WINDOW_SECONDS = 5.0
# Fewer of them tell no slope.
_LEAST_WINDOWS = 6
# A leak of a byte per packet shows as 100,000 KiB per hour.
_ALLOWED_KIB_PER_HOUR = 4096
_BUFFERS = "pascaline_packet_buffers_in_use"
# Frames that wait for their turn keep a few; a burst has 32.
_ALLOWED_BUFFERS = 32
# Fewer tell nothing of a climb.
_LEAST_BATCHES = 4
# Beyond the soak itself: bringing up, the last batch, draining.
_SLACK_SECONDS = 120.0
_BATCH = Load(allreduces=10, bytes=4 << 20, dtype="f32", payload=1024, in_flight=128, seed=1, deadline=60)
_BUILD_SECONDS = 3600.0


@dataclass(frozen=True)
class _Options:
    seconds: float
    workers: int
    binary: Path | None


def main(arguments: list[str]) -> int:
    """Runs the soak; the last line is one JSON object. Exit code 0 if nothing grew and all was exact."""
    parser = argparse.ArgumentParser(
        prog="soak.py", description="Continuous allreduces; memory may not grow."
    )
    parser.add_argument("--seconds", type=float, default=90.0, help="how long (default 90)")
    parser.add_argument("--workers", type=int, default=4, help="ranks (default 4)")
    parser.add_argument("--binary", type=Path, help="use this pascaline instead of building it")
    options = _Options(**vars(parser.parse_args(arguments)))
    try:
        binary = build.ready(Stop(_BUILD_SECONDS), options.binary)
        build.become_root(Path(__file__).resolve(), arguments, binary)
        return soak(options, binary, Stop(options.seconds + _SLACK_SECONDS, "--seconds"))
    except Interrupted as interrupted:
        print(f"soak: {interrupted}", file=sys.stderr)
        return interrupted.exit_code
    except Failure as failure:
        print(f"soak: {failure.whole}", file=sys.stderr)
        return 1


def soak(options: _Options, binary: Path, stop: Stop) -> int:
    """One soak from nothing to nothing."""
    netns.remove_leftovers()
    network = Network(options.workers, 1500, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        appliance = Appliance(binary, network, Settings("af_packet", pool_slots=4096, window=512), files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        watch = _Memory(appliance.pid)
        workers = Workers(binary, network, files)
        cleanup.callback(workers.stop)
        wrong, allreduces, buffers = _allreduce(workers, appliance, watch, stop, options.seconds)
        accounting = Accounting.of(appliance.settled(stop))
        code = appliance.stop()
    slope = kib_per_hour(watch.samples, max(_WARM_UP_SECONDS, options.seconds / 3))
    if slope is None:
        raise Failure(f"{options.seconds:g} s are too few to judge memory by: --seconds 90")
    found = {
        "ok": False,
        "seconds": round(watch.samples[-1][0], 1),
        "allreduces": allreduces,
        "not_verified": wrong,
        "memory_kib": watch.samples[-1][1],
        "growth_kib": watch.samples[-1][1] - watch.samples[0][1],
        "slope_kib_per_hour": round(slope),
        "allowed_kib_per_hour": _ALLOWED_KIB_PER_HOUR,
        "batches": len(buffers),
        "buffers_in_use": {"after_first_batch": buffers[0], "at_end": buffers[-1]},
        "buffers_climbed": climb(buffers),
        "identity_holds": accounting.holds,
        "packets_received": accounting.received,
        "appliance_exit": code,
    }
    good = not leaks(slope) and not loses_buffers(buffers) and not wrong and accounting.holds and code == 0
    print(report.dump(found | {"ok": good}))
    return 0 if good else 1


def _allreduce(
    workers: Workers, appliance: Appliance, watch: _Memory, stop: Stop, seconds: float
) -> tuple[int, int, list[int]]:
    """Batch after batch until the time is over.

    Returns how many allreduces were not verified, how many there were, and the buffers in use after each.
    """
    wrong = done = 0
    buffers = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        workers.start(_BATCH)
        workers.wait(stop, appliance.check_running, lambda _: watch.sample())
        for result in workers.results():
            wrong += _BATCH.allreduces - result["verified"] + result["mismatches"]
        done += _BATCH.allreduces
        buffers.append(appliance.settled(stop).total(_BUFFERS))
    watch.sample(now=True)
    return wrong, done, buffers


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
    """Whether memory grows by more than is allowed."""
    return slope > _ALLOWED_KIB_PER_HOUR


def climb(buffers: Sequence[int]) -> float:
    """How many more buffers are in use in the second half of the batches than in the first, by medians."""
    half = len(buffers) // 2
    return statistics.median(buffers[half:]) - statistics.median(buffers[:half]) if half else 0.0


def loses_buffers(buffers: Sequence[int]) -> bool:
    """Whether they climb, or there are too few batches to tell."""
    return len(buffers) < _LEAST_BATCHES or climb(buffers) > _ALLOWED_BUFFERS


class _Memory:
    """What a process holds, over time: (seconds since the start, KiB)."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._start = time.monotonic()
        self.samples: list[tuple[float, int]] = []
        self.sample(now=True)

    def sample(self, *, now: bool = False) -> None:
        """Looks once a second, however often it is called."""
        passed = time.monotonic() - self._start
        if now or passed - self.samples[-1][0] >= _SAMPLE_SECONDS:
            self.samples.append((passed, self._held()))

    def _held(self) -> int:
        lines = (line.split() for line in self._status.read_text().splitlines())
        # Huge pages are not part of VmRSS.
        return sum(int(words[1]) for words in lines if words and words[0] in ("VmRSS:", "HugetlbPages:"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
