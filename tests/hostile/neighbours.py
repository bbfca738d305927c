"""A neighbour: proven members of another job, which send valid gradients and never complete a PSN."""

from __future__ import annotations

import time
from typing import Any

from . import bed as beds
from . import frames as f
from .scene import Case, Scene

_RANKS = 2
_JOIN_SECONDS = 30.0
# A rank that waits sends a heartbeat ten times a second.
_HEARTBEAT_EVERY = 256


class _Neighbour:
    """Both ranks of a job, at the attacker's address."""

    def __init__(self, scene: Scene, job: int) -> None:
        self.job = job
        self.ways = [scene.way(port=45_000 + rank) for rank in range(_RANKS)]
        self.bodies: list[dict[str, Any]] = [
            {"session": scene.random.getrandbits(64), "got": f.NO_GENERATION} for _ in range(_RANKS)
        ]
        self.epoch = self.base = self.window = 0
        end = time.monotonic() + _JOIN_SECONDS
        while not self._joined(scene):
            assert time.monotonic() < end, f"the neighbour cannot join job {job}"

    def _joined(self, scene: Scene) -> bool:
        """Asks once more for both ranks."""
        ready = set()
        for answer in scene.ask(self.join(rank) for rank in range(_RANKS)):
            body = answer.payload
            known = self.bodies[answer.rank] if answer.job == self.job else {}
            if body.session != known.get("session"):
                continue
            known |= {"cookie": body.cookie, "got": f.GENERATION + answer.epoch}
            self.epoch, self.base, self.window = answer.epoch, body.psn, body.window
            if body.status == 0:
                ready.add(answer.rank)
        return len(ready) == _RANKS

    def join(self, rank: int) -> bytes:
        """A Join, which is a heartbeat once the rank has joined."""
        return self.ways[rank].frame(f.control("join", self.job, rank, fan_in=_RANKS, **self.bodies[rank]))

    def gradients(self) -> list[bytes]:
        """What one rank may have in flight, over and over; the other never sends any."""
        self.bodies[0] |= {"psn": self.base, "first": self.base, "dtype": "f32", "bytes_whole": 1 << 20}
        found = []
        for number in range(self.window):
            if number % _HEARTBEAT_EVERY == 0:
                found.append(self.join(0))
            fields = {
                "psn": (self.base + number) % (1 << 32),
                "fan_in": _RANKS,
                "count": 1,
                "epoch": self.epoch,
            }
            found.append(self.ways[0].frame(f.header("gradient", self.job, 0, **fields) + bytes(1024)))
        return found


def _case(name: str, about: str, job: int, neighbour: int) -> Case:
    def make(scene: Scene) -> list[bytes]:
        # In each round anew: the workers' sets come and go, and so does the neighbour's generation.
        return _Neighbour(scene, neighbour).gradients()

    # A neighbour's packets are legitimate: no reason has to name them.
    return Case(name, about, make, job=job, rate=30_000.0)


CASES = [
    _case("neighbour", "a neighbour never completes a PSN; both in regions", beds.OPEN, beds.NEIGHBOUR),
    _case(
        "neighbour-shared", "the same; both share the pool and the server", beds.SHARED, beds.NEIGHBOUR_SHARED
    ),
    _case(
        "neighbour-beside-region",
        "a neighbour in the shared pool beside a region",
        beds.OPEN,
        beds.NEIGHBOUR_SHARED,
    ),
]
