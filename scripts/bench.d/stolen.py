"""How much of its cores' time a virtual machine does not get, because its neighbours have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Of the numbers behind "cpu" in /proc/stat (proc_stat(5)). Guests' time is in user time already.
_IDLE, _WAITING, _STOLEN, _COUNTED = 3, 4, 7, 8


@dataclass(frozen=True)
class Cores:
    """The time of all cores together since the system started, in the kernel's ticks."""

    # In which something ran, or would have run.
    wanted: int
    stolen: int

    @staticmethod
    def now(stat: Path = Path("/proc/stat")) -> Cores:
        """Until now; nothing where the system does not say."""
        try:
            line = next(line for line in stat.read_text().splitlines() if line.startswith("cpu "))
            ticks = [int(word) for word in line.split()[1 : 1 + _COUNTED]]
        except (OSError, StopIteration):
            return Cores(0, 0)
        ticks += [0] * (_COUNTED - len(ticks))
        return Cores(sum(ticks) - ticks[_IDLE] - ticks[_WAITING], ticks[_STOLEN])

    def share_since(self, before: Cores) -> float:
        """The part of what was wanted since then that others had."""
        wanted = self.wanted - before.wanted
        return (self.stolen - before.stolen) / wanted if wanted > 0 else 0.0
