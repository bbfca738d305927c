"""How much of its cores' time a virtual machine does not get, because its neighbours have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """The time of all cores together since the system started, in the kernel's ticks."""

    # In which something ran, or would have run.
    wanted: int
    stolen: int

    @staticmethod
    def now() -> Cores:
        """Until now, of the first line of /proc/stat (proc_stat(5)). The first numbers include guests."""
        first = Path("/proc/stat").read_text().partition("\n")[0]
        user, nice, system, _idle, _waiting, hard, soft, stolen = (int(word) for word in first.split()[1:9])
        return Cores(user + nice + system + hard + soft + stolen, stolen)

    def share_since(self, before: Cores) -> float:
        """The part of what was wanted since then that others had."""
        wanted = self.wanted - before.wanted
        return (self.stolen - before.stolen) / wanted if wanted > 0 else 0.0
