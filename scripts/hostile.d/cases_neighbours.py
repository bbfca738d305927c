"""A neighbour: proven members of another job, who send what is valid and never let a PSN be complete."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import bed as beds
import frames as f
from frames import Body, Header, Way
from process import Failure
from scene import Case, Scene

_RANKS = 2
_WINDOW = 512
_JOIN_SECONDS = 5.0
# A rank that waits says so ten times a second.
_HEARTBEAT_EVERY = 256


class Neighbour:
    """Both ranks of a job, at the attacker's address."""

    def __init__(self, scene: Scene, job: int) -> None:
        self.job = job
        self.ways = [scene.way(port=45_000 + rank) for rank in range(_RANKS)]
        self.bodies = [
            Body(session=scene.random.getrandbits(64), window=_WINDOW, got=f.NO_GENERATION)
            for _ in range(_RANKS)
        ]
        self.epoch = self.base = self.window = 0
        end = time.monotonic() + _JOIN_SECONDS
        while not self._joined(scene):
            if time.monotonic() > end:
                raise Failure(f"the neighbour cannot join job {job}")

    def _joined(self, scene: Scene) -> bool:
        """Asks once more for both ranks."""
        ready = set()
        for answer in scene.ask(self.join(rank) for rank in range(_RANKS)):
            rank = answer.header.rank
            if answer.header.job != self.job or answer.body.session != self.bodies[rank].session:
                continue
            got = 0x10000 + answer.header.epoch
            self.bodies[rank] = replace(self.bodies[rank], cookie=answer.body.cookie, got=got)
            self.epoch, self.base, self.window = answer.header.epoch, answer.body.psn, answer.body.window
            if answer.body.status == 0:
                ready.add(rank)
        return len(ready) == _RANKS

    def join(self, rank: int) -> bytes:
        """A Join, which is a heartbeat once the rank has joined."""
        return self.ways[rank].frame(
            f.control(Header(job=self.job, rank=rank, fan_in=_RANKS), self.bodies[rank])
        )

    def gradients(self) -> list[bytes]:
        """What one rank may have under way, over and over; the other never sends any."""
        header = Header(job=self.job, rank=0, fan_in=_RANKS, count=1, epoch=self.epoch)
        way: Way = self.ways[0]
        psns = ((self.base + number) % (1 << 32) for number in range(self.window))
        found = [way.frame(replace(header, psn=psn).bytes() + bytes(1024)) for psn in psns]
        beats = replace(self.bodies[0], psn=self.base, first=self.base, element=f.F32_SUM, length=1 << 20)
        self.bodies[0] = beats
        for place in range(0, len(found), _HEARTBEAT_EVERY):
            found.insert(place, self.join(0))
        return found


def _frames(job: int) -> Callable[[Scene], list[bytes]]:
    def make(scene: Scene) -> list[bytes]:
        # In each round anew: the workers' sets come and go, and so does the neighbour's generation.
        return Neighbour(scene, job).gradients()

    return make


def _case(name: str, about: str, job: int, neighbour: int) -> Case:
    # A neighbour's packets are welcome: nothing has to name them.
    return Case(name, about, _frames(neighbour), job=job, rate=30_000.0)


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
