"""Forgeries by somebody who knows a rank's address and UDP port, and the generation, but sees no packet."""

from __future__ import annotations

from dataclasses import replace

import bed as beds
import frames as f
from cases_noise import REFUSED, TOLD, WINDOW, gradient
from frames import Body, Header
from scene import Case, Scene

_MANY = 2000
_FEW = 20.0
_WRONG = (*WINDOW, *REFUSED, *TOLD)
# Statuses of an Ack that would end an operation, if its receiver believed it.
_FATAL = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 18, 19, 20)


def _members(scene: Scene, *datagrams: bytes) -> list[bytes]:
    return [scene.as_rank(1).frame(datagram) for datagram in datagrams]


def _far_ahead(scene: Scene) -> list[bytes]:
    """256 apart and 100,000 ahead of where the attacker guesses that the generation begins."""
    start = scene.random.getrandbits(32)
    steps = [*range(0, 4096, 256), *range(100_000, 101_000)]
    return _members(scene, *(gradient(scene, psn=(start + step) % (1 << 32)) for step in steps))


def _spray(scene: Scene) -> list[bytes]:
    """All generations, PSNs at random: what an attacker does who knows address and port alone."""
    return _members(scene, *(gradient(scene, epoch=number % 256) for number in range(_MANY)))


def _from_zero(scene: Scene) -> list[bytes]:
    """The PSNs from 0, with which a generation would begin if their start were not random."""
    return _members(
        scene, *(gradient(scene, psn=psn, epoch=epoch) for psn in range(8) for epoch in range(256))
    )


def _other_terms(scene: Scene) -> list[bytes]:
    """Another fan-in, count, length, element."""
    odd = (
        {"fan_in": 8},
        {"count": 2},
        {"length": 512},
        {"element": 0x02},
        {"element": 0x21},
        {"length": 1032},
    )
    return _members(scene, *(gradient(scene, **fields) for fields in odd for _ in range(100)))


def _other_port(scene: Scene) -> list[bytes]:
    way = replace(scene.as_rank(1), source_port=50_001)
    return [way.frame(gradient(scene)) for _ in range(500)]


def _reminders(scene: Scene) -> list[bytes]:
    def one() -> bytes:
        psn = scene.random.getrandbits(32)
        return Header(f.REMINDER, scene.job, 1, psn, epoch=scene.now).bytes()

    return _members(scene, *(one() for _ in range(_MANY)))


def _results(scene: Scene) -> list[bytes]:
    """Results that a rank gives back, for PSNs that nobody has asked for."""
    made = (gradient(scene, kind=f.RESULT, count=beds.RANKS) for _ in range(500))
    return _members(scene, *made)


def _to_all(scene: Scene, datagrams: list[bytes]) -> list[bytes]:
    return [scene.to_worker(rank).frame(datagram) for datagram in datagrams for rank in range(beds.RANKS)]


def _acks_to_workers(scene: Scene) -> list[bytes]:
    """Acks in the appliance's name that say that all is over: to nothing, and to a Join and a Leave."""

    def one(rank: int, status: int, answers: int) -> bytes:
        # The number of a request is small; the PSN of a gradient is anybody's guess.
        psn = scene.random.randrange(100) if answers else scene.random.getrandbits(32)
        header = Header(job=scene.job, rank=rank, epoch=scene.now, count=1, psn=psn)
        body = Body(f.CONTROL_ACK, status, answers, session=scene.random.getrandbits(64), expected=4, got=8)
        return scene.to_worker(rank).frame(f.control(header, body))

    kinds = (0, f.JOIN, f.LEAVE)
    return [one(rank, status, kind) for rank in range(beds.RANKS) for status in _FATAL for kind in kinds]


def _results_to_workers(scene: Scene) -> list[bytes]:
    """Sums that nobody has made."""
    return _to_all(scene, [gradient(scene, kind=f.RESULT, count=beds.RANKS) for _ in range(200)])


def _reminders_to_workers(scene: Scene) -> list[bytes]:
    psns = [scene.random.getrandbits(32) for _ in range(500)]
    headers = [Header(f.REMINDER, scene.job, 1, psn, epoch=scene.now) for psn in psns]
    return _to_all(scene, [header.bytes() for header in headers])


def _unreachable(scene: Scene) -> list[bytes]:
    """ICMP errors in the appliance's name about packets of the workers: of every kind that there is."""
    found = []
    for rank in range(beds.RANKS):
        way = scene.to_worker(rank)
        sent = replace(
            way,
            source=way.target,
            target=way.source,
            source_port=way.target_port,
            target_port=way.source_port,
        ).frame(bytes(1024))
        # Unreachable (4: too long), source quench, time exceeded, parameter problem.
        kinds = [(3, code) for code in range(16)] + [(4, 0), (11, 0), (11, 1), (12, 0), (12, 1)]
        for kind, code in kinds:
            extra = 68 if (kind, code) == (3, 4) else 0
            found.append(way.icmp(kind, code, extra, sent[14 : 14 + 28]))
    return found


# Workers are started again meanwhile: what names a generation before theirs is refused for that.
_SPOOFED = ("rank_spoofed", "wrong_epoch", "not_member")

CASES = [
    Case("psns-far-ahead", "gradients 256 and 100,000 PSNs ahead", _far_ahead, _WRONG),
    Case("psns-far-ahead-few", "the same, but only a few", _far_ahead, _WRONG, rate=_FEW),
    Case("psns-far-ahead-shared", "the same in the shared pool", _far_ahead, _WRONG, job=beds.SHARED),
    Case("spray", "random PSNs in every generation", _spray, _WRONG),
    Case("spray-shared", "the same in the shared pool", _spray, _WRONG, job=beds.SHARED),
    Case("psns-from-zero", "the first PSNs of every generation, as if they began at 0", _from_zero, _WRONG),
    Case("other-terms", "gradients of another fan-in, count, length, element", _other_terms, _WRONG),
    Case("other-port", "gradients from a rank's address and another port", _other_port, _SPOOFED),
    Case("reminders", "a flood of Reminders", _reminders, _WRONG),
    Case("results", "Results that were never made", _results, _WRONG),
    # What goes to workers the appliance does not see; who believed it would end, or have a wrong sum.
    Case("acks-to-workers", "Acks that say that all is over, to the workers", _acks_to_workers, wire="eth0"),
    Case("acks-to-workers-few", "the same, but only a few", _acks_to_workers, wire="eth0", rate=_FEW),
    Case("results-to-workers", "forged Results, to the workers", _results_to_workers, wire="eth0"),
    Case("reminders-to-workers", "forged Reminders, to the workers", _reminders_to_workers, wire="eth0"),
    Case("icmp-to-workers", "forged ICMP errors, to the workers", _unreachable, wire="eth0", rate=2000.0),
]
