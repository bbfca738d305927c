"""A few steps of a training on a time line: computation, and buckets in flight.

PyTorch's profiler says what is computed. When a bucket left and its mean was there is noted by a hook around
the training's own. The result is a picture, and a file for chrome://tracing or ui.perfetto.dev.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import pascaline.torch

STEPS = 3
# Microseconds.
Span = tuple[float, float]


class Trace:
    """Of one rank and training: call `step` before each step, and `write` after the last one."""

    def __init__(self, first: int) -> None:
        """Traces up to `STEPS` steps, beginning with this one."""
        self.buckets: list[tuple[int, Span]] = []
        self._first = first
        self._profile: Any = None
        self._steps = 0
        self._running = False
        # The profiler's clock, less the one that buckets are timed by.
        self._ahead = 0.0

    def hook(self, inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Does as a hook of DistributedDataParallel does, and notes when."""

        def timed(state: Any, bucket: Any) -> Any:
            begun, index = time.perf_counter() * 1e6, bucket.index()

            def done(future: Any) -> Any:
                self.buckets.append((index, (begun, time.perf_counter() * 1e6)))
                return future.value()

            return inner(state, bucket).then(done)

        return pascaline.torch.hooks.annotated(timed)

    def step(self, number: int) -> None:
        """Says that this step begins."""
        if number == self._first + STEPS:
            self._end()
        if number == self._first:
            self.buckets.clear()
            self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
            self._profile.__enter__()
            self._running = True
            with torch.profiler.record_function("clock"):
                self._ahead = -time.perf_counter() * 1e6
        self._steps += self._first <= number < self._first + STEPS

    def _end(self) -> None:
        if self._running:
            self._profile.__exit__(None, None, None)
            self._running = False

    def write(self, picture: Path) -> dict[str, float]:
        """Draws, writes the trace beside the picture, and returns the hidden part of the buckets' time."""
        self._end()
        events = self._profile.events()
        clock = next(event for event in events if event.name == "clock")
        self._ahead += clock.time_range.start
        begins = clock.time_range.start
        ends = max(event.time_range.end for event in events)
        spans = [(n, (start + self._ahead, end + self._ahead)) for n, (start, end) in self.buckets]
        buckets = [(n, (max(start, begins), min(end, ends))) for n, (start, end) in spans if start < ends]
        backward: list[Span] = []
        other: list[Span] = []
        for event in events:
            if event.cpu_parent is None and event.name != "clock":
                row = backward if event.name.startswith("autograd::engine") else other
                row.append((event.time_range.start, event.time_range.end))
        computing, moving = _union(backward + other), _union([span for _, span in buckets])
        hidden = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in computing for b in moving)
        _draw(picture, begins, {"forward, optimiser": other, "backward": backward}, buckets)
        self._export(picture.with_suffix(".json"), begins, buckets)
        total = sum(end - start for start, end in moving)
        return {
            "buckets": len({number for number, _ in buckets}),
            "allreduce_ms": round(total / 1000 / self._steps, 3),
            "computing_ms": round(sum(end - start for start, end in computing) / 1000 / self._steps, 3),
            "hidden_pct": round(100 * hidden / max(total, 1e-9), 1),
        }

    def _export(self, file: Path, begins: float, buckets: list[tuple[int, Span]]) -> None:
        self._profile.export_chrome_trace(str(file))
        found = json.loads(file.read_text())
        # The file's times have another origin.
        clock = next(event for event in found["traceEvents"] if event.get("name") == "clock")
        later = clock["ts"] - begins
        for number, (start, end) in buckets:
            name = f"allreduce of bucket {number}"
            place = {"ph": "X", "cat": "pascaline", "pid": "network", "tid": f"bucket {number}"}
            found["traceEvents"].append({"name": name, "ts": later + start, "dur": end - start, **place})
        file.write_text(json.dumps(found))


def _union(spans: list[Span]) -> list[Span]:
    """The same time, each moment once."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _draw(picture: Path, begins: float, rows: dict[str, list[Span]], buckets: list[tuple[int, Span]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    for number in sorted({number for number, _ in buckets}):
        rows[f"bucket {number}"] = [span for other, span in buckets if other == number]
    figure, axes = pyplot.subplots(figsize=(11, 1 + 0.45 * len(rows)))
    for at, spans in enumerate(rows.values()):
        bars = [((start - begins) / 1000, (end - start) / 1000) for start, end in spans]
        axes.broken_barh(bars, (at - 0.38, 0.76), facecolors="tab:blue" if at < 2 else "tab:orange")
    axes.set_yticks(range(len(rows)), rows)
    axes.invert_yaxis()
    axes.set_xlabel("ms; some steps of rank 0: computation, and buckets on their way")
    axes.grid(visible=True, axis="x", alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)
