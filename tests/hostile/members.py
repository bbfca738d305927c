"""Forgeries by an attacker that knows a rank's address, UDP port and generation, but sees no packet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import bed as beds
from . import frames as f
from .reasons import REFUSED, TOLD, UNSEALED, WINDOW
from .scene import Case, Scene

_MANY = 2000
_FEW = 20.0
_WRONG = (*WINDOW, *REFUSED, *TOLD)
# Statuses of an Ack that would end an operation if its receiver believed it.
_FATAL = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 15, 18, 19, 20)


def _members(scene: Scene, *datagrams: bytes) -> list[bytes]:
    return [scene.as_rank(1).frame(datagram) for datagram in datagrams]


def _far_ahead(scene: Scene) -> list[bytes]:
    """256 apart and 100,000 ahead of a guess of the generation's first PSN."""
    start = scene.random.getrandbits(32)
    steps = [*range(0, 4096, 256), *range(100_000, 101_000)]
    return _members(scene, *(scene.gradient(psn=(start + step) % (1 << 32)) for step in steps))


def _spray(scene: Scene) -> list[bytes]:
    """Random generations and PSNs: possible with address and port alone."""
    return _members(scene, *(scene.gradient(epoch=scene.random.getrandbits(16)) for _ in range(_MANY)))


def _from_zero(scene: Scene) -> list[bytes]:
    """The PSNs from 0, where a generation would begin if its start were not random."""
    epochs = scene.random.sample(range(1 << 16), 256)
    return _members(scene, *(scene.gradient(psn=psn, epoch=epoch) for psn in range(8) for epoch in epochs))


def _other_terms(scene: Scene) -> list[bytes]:
    odd: tuple[dict[str, Any], ...] = (
        {"fan_in": 8},
        {"count": 2},
        {"length": 512},
        {"dtype": "i32"},
        {"op": "max"},
        {"length": 1032},
    )
    return _members(scene, *(scene.gradient(**fields) for fields in odd for _ in range(100)))


def _other_port(scene: Scene) -> list[bytes]:
    way = replace(scene.as_rank(1), source_port=50_001)
    return [way.frame(scene.gradient()) for _ in range(500)]


def _reminder(scene: Scene) -> bytes:
    return f.header("reminder", scene.job, 1, psn=scene.random.getrandbits(32), epoch=scene.now)


def _reminders(scene: Scene) -> list[bytes]:
    return _members(scene, *(_reminder(scene) for _ in range(_MANY)))


def _result(scene: Scene) -> bytes:
    return scene.gradient(kind="result", count=f.RANKS)


def _results(scene: Scene) -> list[bytes]:
    """Results that a rank gives back, for PSNs that were never asked for."""
    return _members(scene, *(_result(scene) for _ in range(500)))


def _to_all(scene: Scene, datagrams: list[bytes]) -> list[bytes]:
    return [scene.to_worker(rank).frame(datagram) for datagram in datagrams for rank in range(f.RANKS)]


def _acks_to_workers(scene: Scene) -> list[bytes]:
    """Acks in the appliance's name that say that all is over: to nothing, and to a Join and a Leave."""

    def one(rank: int, status: int, answered: str) -> bytes:
        # The number of a request is small; the PSN of a gradient has to be guessed.
        named = (
            {"psn": scene.random.getrandbits(32)}
            if answered == "none"
            else {"number": scene.random.randrange(100)}
        )
        body: dict[str, Any] = named | {
            "status": status,
            "answered": answered,
            "session": scene.random.getrandbits(64),
        }
        ack = f.control("ack", scene.job, rank, epoch=scene.now, joined=1, expected=4, got=8, **body)
        return scene.to_worker(rank).frame(ack)

    kinds = ("none", "join", "leave")
    return [one(rank, status, kind) for rank in range(f.RANKS) for status in _FATAL for kind in kinds]


def _results_to_workers(scene: Scene) -> list[bytes]:
    """Results of sums that were never made."""
    return _to_all(scene, [_result(scene) for _ in range(200)])


def _reminders_to_workers(scene: Scene) -> list[bytes]:
    return _to_all(scene, [_reminder(scene) for _ in range(500)])


def _unreachable(scene: Scene) -> list[bytes]:
    """ICMP errors of every kind, in the appliance's name, about packets of the workers."""
    # Unreachable (4: too long), source quench, time exceeded, parameter problem.
    kinds = [(3, code) for code in range(16)] + [(4, 0), (11, 0), (11, 1), (12, 0), (12, 1)]
    found = []
    for rank in range(f.RANKS):
        way = scene.to_worker(rank)
        ports: dict[str, Any] = {"source_port": way.target_port, "target_port": way.source_port}
        sent = replace(way, source=way.target, target=way.source, **ports).frame(bytes(1024))
        for kind, code in kinds:
            extra = {"nexthopmtu": 68} if (kind, code) == (3, 4) else {}
            found.append(way.icmp(sent[14 : 14 + 28], type=kind, code=code, **extra))
    return found


# Workers are started again meanwhile: frames of an earlier generation are refused for that.
_SPOOFED = ("rank_spoofed", "wrong_epoch", "not_member")

CASES = [
    Case("psns-far-ahead", "gradients 256 and 100,000 PSNs ahead", _far_ahead, _WRONG, sealed=UNSEALED),
    Case("psns-far-ahead-few", "the same, but only a few", _far_ahead, _WRONG, rate=_FEW, sealed=UNSEALED),
    Case(
        "psns-far-ahead-shared",
        "the same in the shared pool",
        _far_ahead,
        _WRONG,
        job=beds.SHARED,
        sealed=UNSEALED,
    ),
    Case("spray", "random PSNs in every generation", _spray, _WRONG, sealed=UNSEALED),
    Case("spray-shared", "the same in the shared pool", _spray, _WRONG, job=beds.SHARED, sealed=UNSEALED),
    Case(
        "psns-from-zero",
        "the first PSNs of every generation, as if they began at 0",
        _from_zero,
        _WRONG,
        sealed=UNSEALED,
    ),
    Case(
        "other-terms",
        "gradients of another fan-in, count, length, element",
        _other_terms,
        _WRONG,
        sealed=UNSEALED,
    ),
    Case(
        "other-port",
        "gradients from a rank's address and another port",
        _other_port,
        _SPOOFED,
        sealed=UNSEALED,
    ),
    Case("reminders", "a flood of Reminders", _reminders, _WRONG, sealed=UNSEALED),
    Case("results", "Results that were never made", _results, _WRONG, sealed=UNSEALED),
    # The appliance does not see these; a worker that believed them would end, or have a wrong sum.
    Case("acks-to-workers", "Acks that say that all is over, to the workers", _acks_to_workers, wire="eth0"),
    Case("acks-to-workers-few", "the same, but only a few", _acks_to_workers, wire="eth0", rate=_FEW),
    Case("results-to-workers", "forged Results, to the workers", _results_to_workers, wire="eth0"),
    Case("reminders-to-workers", "forged Reminders, to the workers", _reminders_to_workers, wire="eth0"),
    Case("icmp-to-workers", "forged ICMP errors, to the workers", _unreachable, wire="eth0", rate=2000.0),
]
