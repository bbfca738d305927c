"""How long tests took last time."""

import json
import time
from pathlib import Path
from typing import Any


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


class Record:
    """A small file below target/."""

    def __init__(self, file: Path, *, everything: bool) -> None:
        self._file = file
        self._size = "all" if everything else "default"
        try:
            self._known: dict[str, Any] = json.loads(file.read_text())
        except (OSError, ValueError):
            self._known = {}

    def announcement(self, titles: list[str], *, whole: bool, limit: str) -> str:
        """The tests to run, and their time in the last run."""
        groups: dict[str, int] = {}
        for name in titles:
            group = name.partition(":")[0].partition("/")[0]
            groups[group] = groups.get(group, 0) + 1
        parts = ", ".join(f"{count} of {group}" for group, count in groups.items())
        last = self._known.get(self._size)
        times = self._known.get("steps", {})
        if whole and last:
            took = f"last time {minutes(last['seconds'])} ({last['when']}: {last['counts']})"
        elif not whole and all(name in times for name in titles):
            took = f"last time {minutes(sum(times[name] for name in titles))}"
        else:
            took = f"not run here before; the whole takes up to {limit} on two cores, downloads included"
        return f"test: {len(titles)} steps: {parts}; {took}"

    def keep(self, steps: dict[str, float], seconds: float | None, counts: str) -> None:
        """Writes it down; `seconds` of a run of all steps of this size."""
        self._known.setdefault("steps", {}).update({name: round(took, 1) for name, took in steps.items()})
        if seconds is not None:
            when = time.strftime("%Y-%m-%d %H:%M")
            self._known[self._size] = {"seconds": round(seconds), "when": when, "counts": counts}
        self._file.write_text(json.dumps(self._known, indent=1))
