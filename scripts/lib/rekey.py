"""Another key for the jobs of a demonstration while their workers sum.

The appliance has its key in one file and all ranks theirs in another, as on several hosts. The new key comes
to the appliance first, which takes both until all ranks use the new one.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from configuration import JOB
from process import Failure, run

if TYPE_CHECKING:
    from appliance import Appliance


class Keys:
    """The key files of jobs that something protects: one for all of them."""

    def __init__(self, binary: Path, files: Path, jobs: int = 1) -> None:
        """Makes the first key."""
        self._binary = binary
        self._jobs = range(JOB, JOB + jobs)
        self._made = 0
        self.appliances, self.ranks = files / "job.key", files / "ranks.key"
        self._new().replace(self.appliances)
        self._copy()
        self._changing = False
        self.changed = 0

    def change(self, appliance: Appliance) -> None:
        """Puts a new key in force, unless a change is in progress, and notes when all ranks use it."""
        if self._changing:
            jobs = [appliance.admin(f"/api/v1/jobs/{job}") for job in self._jobs]
            self._changing = any(job["former_key"] for job in jobs)
            self.changed += not self._changing
            return
        self._new().replace(self.appliances)
        for job in self._jobs:
            order = ("job", "rekey", str(job), "--json", "--admin", f"unix:{appliance.socket}")
            said = json.loads(run(str(self._binary), *order).stdout)["job"]
            if len(said["former_key"]) != said["joined"]:
                raise Failure(f"not all ranks have to change their key: {said}")
        self._copy()
        self._changing = True

    def _new(self) -> Path:
        self._made += 1
        file = self.appliances.with_name(f"{self._made}.key")
        run(str(self._binary), "job", "key", "--new", str(file))
        return file

    def _copy(self) -> None:
        """Brings the appliance's key to the ranks."""
        other = self.ranks.with_suffix(".new")
        shutil.copy(self.appliances, other)
        other.replace(self.ranks)
