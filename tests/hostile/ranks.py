"""Ranks that the attacker itself holds, with proven addresses."""

from __future__ import annotations

import time
from typing import Any

from . import frames as f
from .frames import Way
from .scene import Scene

_JOIN_SECONDS = 30.0


class Ranks:
    """Some ranks of a job, each with its way; further terms are those of all their Joins."""

    def __init__(self, scene: Scene, job: int, ways: dict[int, Way], **terms: Any) -> None:
        """Joins with all of them."""
        self.job, self.ways = job, ways
        self.bodies: dict[int, dict[str, Any]] = {
            rank: terms | {"session": scene.random.getrandbits(64), "got": f.NO_GENERATION} for rank in ways
        }
        self.epoch = self.base = self.window = 0
        end = time.monotonic() + _JOIN_SECONDS
        while not self._joined(scene):
            assert time.monotonic() < end, f"the attacker cannot join job {job}"

    def _joined(self, scene: Scene) -> bool:
        """Repeats the Joins of all of them."""
        ready = set()
        for answer in scene.ask(map(self.join, self.ways)):
            body = answer.payload
            known = self.bodies.get(answer.rank, {}) if answer.job == self.job else {}
            if body.session != known.get("session"):
                continue
            known |= {"cookie": body.cookie, "got": f.GENERATION + answer.epoch}
            self.epoch, self.base, self.window = answer.epoch, body.psn, body.window
            if body.status == 0:
                ready.add(answer.rank)
        return len(ready) == len(self.ways)

    def join(self, rank: int) -> bytes:
        """A Join, which is a heartbeat once the rank has joined."""
        return self.ways[rank].frame(f.control("join", self.job, rank, **self.bodies[rank]))
