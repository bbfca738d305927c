"""Numbers of jobs for groups beside the world's, from the range that the appliance admits."""

from __future__ import annotations

import warnings
from typing import Any

from ._settings import Settings

NO_JOB = (
    "there is no job for a further group of processes, which goes over Gloo: set PASCALINE_JOBS to numbers of"
    " the appliance's [admission], such as 1000-1063"
)


class Numbers:
    """The range, in a store that all processes of the program share.

    A group takes the number that has been free for longest, since a job's last ranks may still be leaving.
    """

    def __init__(self, settings: Settings, store: Any) -> None:
        self._store = store
        # Each tree of each stream of a group has a number of its own.
        self._step = settings.streams * (1 + settings.appliance.count(";"))
        first, last = settings.jobs or (1, 0)
        # The world's group may have the first one.
        self._first = first + (0 if settings.job else self._step)
        self._count = max(last + 1 - self._first, 0) // self._step

    def shared(self, store: Any, rank: int, size: int) -> int:
        """The number of a new group, which its first rank takes and tells the others; 0 if there is none."""
        if size == 1:
            return 0
        if rank == 0:
            job = self._take()
            if not job:
                warnings.warn(NO_JOB, RuntimeWarning, stacklevel=2)
            store.set("pascaline/job", str(job))
        return int(store.get("pascaline/job"))

    def _take(self) -> int:
        if not self._count:
            return 0
        turn = self._store.add("pascaline/turn", 1) - 1
        for place in range(self._count):
            job = self._first + self._step * ((turn + place) % self._count)
            # An integer's count, since a store changes those at once: one taker sees 1.
            if self._store.add(self._key(job), 1) == 1:
                return job
            self._store.add(self._key(job), -1)
        return 0

    def give_back(self, job: int) -> None:
        """Lets others have the number of a group that has left its job."""
        self._store.add(self._key(job), -1)

    @staticmethod
    def _key(job: int) -> str:
        return f"pascaline/taken/{job}"
