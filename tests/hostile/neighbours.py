"""A neighbour: proven members of another job, which send valid gradients and never complete a PSN."""

from __future__ import annotations

from . import bed as beds
from . import frames as f
from .ranks import Ranks
from .scene import Case, Scene

_RANKS = 2
# A rank that waits sends a heartbeat ten times a second.
_HEARTBEAT_EVERY = 256


def _gradients(scene: Scene, job: int) -> list[bytes]:
    """The window of one of both ranks, repeatedly; the other never sends."""
    ways = [scene.way(port=45_000 + rank) for rank in range(_RANKS)]
    ranks = Ranks(scene, job, dict(enumerate(ways)), fan_in=_RANKS)
    ranks.bodies[0] |= {"psn": ranks.base, "first": ranks.base, "dtype": "f32", "bytes_whole": 1 << 20}
    found = []
    for number in range(ranks.window):
        if number % _HEARTBEAT_EVERY == 0:
            found.append(ranks.join(0))
        fields = {"psn": (ranks.base + number) % (1 << 32), "fan_in": _RANKS, "count": 1}
        header = f.header("gradient", job, 0, epoch=ranks.epoch, **fields)
        found.append(ways[0].frame(header + bytes(1024)))
    return found


def _case(name: str, about: str, job: int, neighbour: int) -> Case:
    def make(scene: Scene) -> list[bytes]:
        # In each round anew: the workers' sets come and go, and so does the neighbour's generation.
        return _gradients(scene, neighbour)

    # A neighbour's packets are legitimate: no drop reason counts them.
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
