"""Attacks on sealed packets, by a host that sees all of them and has no key, or only one of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from process import run

from ..bed.process import command
from . import bed as beds
from . import frames as f
from .reasons import UNPROVEN, WINDOW
from .recorder import Seen, record, session_of
from .scene import Case, Scene

_GRADIENTS, _RESULTS, _REQUESTS = ("gradient", True), ("result", False), ("control", True)
_SOME, _MANY = 100, 400
_SEAL = 28
# Where a seal's tag and the trailer's length are, from the end.
_TAG, _LENGTH = 18, 2
# The fields of a header that no seal covers: the rank, which its key proves, and the window's cap.
_UNCOVERED = (6, 7, 18, 19)
_JOIN_SECONDS = 3
# Their session may be over, and so their numbers those of none; or the result is there, or long gone.
_REPLAYED = ("duplicate", "stale", "wrong_epoch", "not_member", "forged", "replayed", *WINDOW)


def _gradients(scene: Scene, count: int = _MANY) -> list[Seen]:
    return record(scene, {_GRADIENTS: count})


def _as_sent(scene: Scene, some: list[Seen]) -> list[bytes]:
    """From the addresses and ports that they were sent from."""
    return [scene.as_rank(seen.rank).frame(seen.datagram) for seen in some]


def _changed(scene: Scene, some: list[Seen]) -> list[bytes]:
    """One bit each, wherever a seal covers it."""
    found = []
    for seen in some:
        datagram = bytearray(seen.datagram)
        # Half of them in headers and seals, which are a small part of a packet.
        ends = [*range(1, f.HEADER), *range(len(datagram) - _SEAL, len(datagram))]
        at = scene.random.choice([scene.random.choice(ends), scene.random.randrange(f.HEADER, len(datagram))])
        datagram[at] ^= 1 << scene.random.randrange(8)
        found += [] if at in _UNCOVERED else [replace(seen, datagram=bytes(datagram))]
    return _as_sent(scene, found)


def _truncated(scene: Scene) -> list[bytes]:
    """Without the last bytes, up to those of the whole seal and some more."""
    return _as_sent(
        scene,
        [
            replace(seen, datagram=seen.datagram[: -(1 + at % (_SEAL + 4))])
            for at, seen in enumerate(_gradients(scene))
        ],
    )


def _stripped(scene: Scene) -> list[bytes]:
    """The plain packets, as before they were sealed with `mac`."""
    found = []
    for seen in _gradients(scene):
        datagram = bytearray(seen.datagram[:-_SEAL])
        datagram[2] &= ~0x20 & 0xFF
        found.append(replace(seen, datagram=bytes(datagram)))
    return _as_sent(scene, found)


def _spliced(scene: Scene) -> list[bytes]:
    """Whole seals, and only tags, of the next packet of the same rank."""
    found = []
    gradients = _gradients(scene)
    for rank in range(f.RANKS):
        for seen, other in pairwise(seen for seen in gradients if seen.rank == rank):
            own, others = seen.datagram, other.datagram
            tag = own[:-_TAG] + others[-_TAG:]
            found += [replace(seen, datagram=whole) for whole in (own[:-_SEAL] + others[-_SEAL:], tag)]
    return _as_sent(scene, found)


def _of_other_ranks(scene: Scene) -> list[bytes]:
    """Contributions of one rank, in the name of the next one."""
    found = []
    for seen in _gradients(scene):
        rank = (seen.rank + 1) % f.RANKS
        datagram = seen.datagram[:6] + rank.to_bytes(2) + seen.datagram[8:]
        found.append(Seen(rank, seen.kind, seen.up, datagram))
    return _as_sent(scene, found)


def _as_requests(scene: Scene) -> list[bytes]:
    """Sealed gradients that say that they are requests, whose session is where their values were."""
    return _as_sent(
        scene,
        [
            replace(seen, datagram=seen.datagram[:1] + b"\x08" + seen.datagram[2:])
            for seen in _gradients(scene)
        ],
    )


def _requests(scene: Scene) -> list[bytes]:
    """Joins, heartbeats and Leaves of this set of workers and of the one before, from where they came."""
    scene.sealed_requests = [*scene.sealed_requests[-_SOME:], *record(scene, {_REQUESTS: 4 * f.RANKS})]
    return _as_sent(scene, scene.sealed_requests)


def _requests_from_elsewhere(scene: Scene) -> list[bytes]:
    """The same from the attacker's own address, to have results sent there."""
    seen = record(scene, {_REQUESTS: 4 * f.RANKS})
    return [scene.way().frame(one.datagram) for one in seen]


def _to_workers(scene: Scene, some: list[Seen]) -> list[bytes]:
    return [scene.to_worker(seen.rank).frame(seen.datagram) for seen in some]


def _results(scene: Scene) -> list[bytes]:
    return _to_workers(scene, record(scene, {_RESULTS: _MANY}))


def _results_for_others(scene: Scene) -> list[bytes]:
    """Results of one rank to all: they are the same for all of them, and known already."""
    some = record(scene, {_RESULTS: _SOME})
    return _to_workers(scene, [replace(seen, rank=rank) for seen in some for rank in range(f.RANKS)])


def _changed_results(scene: Scene) -> list[bytes]:
    """One bit of the values each: if one were taken, its sum would be wrong."""
    found = []
    for seen in record(scene, {_RESULTS: _MANY}):
        datagram = bytearray(seen.datagram)
        datagram[scene.random.randrange(f.HEADER, len(datagram) - _SEAL)] ^= 1 << scene.random.randrange(8)
        found.append(replace(seen, datagram=bytes(datagram)))
    return _to_workers(scene, found)


def _are_unproven(scene: Scene) -> list[bytes]:
    """Acks in the appliance's name that the ranks' packets prove nothing, of sessions as they are."""
    sessions = {seen.rank: session_of(seen) for seen in record(scene, {_REQUESTS: 2 * f.RANKS})}
    found = []
    for rank, session in sessions.items():
        for number, demand in ((number, demand) for number in range(50) for demand in range(3)):
            body: dict[str, Any] = {"status": 34, "answered": "join", "session": session, "expected": demand}
            ack = f.control("ack", scene.job, rank, epoch=scene.now, number=number, **body)
            found.append(scene.to_worker(rank).frame(ack))
    return found


def _of_an_own_key(scene: Scene) -> list[bytes]:
    """Joins that a worker of this program makes for the ranks with a key of the attacker's."""
    assert scene.key
    key = scene.files / f"attacker-{scene.random.getrandbits(32)}.key"
    run(str(scene.binary), "job", "key", "--new", str(key))
    terms = {"job": scene.job, "rank": 1, "ranks": f.RANKS, "security": scene.security, "key": key}
    line = command(
        scene.binary,
        *("worker", "allreduce"),
        appliance=beds.APPLIANCE_ADDRESS,
        bind=beds.ATTACKER_ADDRESS,
        join_deadline=f"{_JOIN_SECONDS}s",
        **terms,
    )
    child = scene.child("attacker", line, scene.bed.attacker)
    try:
        some = record(scene, {_REQUESTS: 3}, own=True)
    finally:
        child.stop(1.0)
    return [way.frame(seen.datagram) for seen in some for way in (scene.as_rank(1), scene.way())]


def _case(
    name: str,
    about: str,
    make: Callable[[Scene], list[bytes]],
    named: tuple[str, ...] = (),
    *,
    wire: str = "eth1",
) -> Case:
    return Case(name, about, make, named, wire=wire, only_sealed=True)


CASES = [
    _case(
        "seal-changed",
        "a bit of a sealed gradient flipped",
        lambda at: _changed(at, _gradients(at)),
        UNPROVEN,
    ),
    _case("seal-truncated", "sealed gradients without their ends", _truncated, UNPROVEN),
    _case("seal-stripped", "recorded gradients without their seal", _stripped, ("unsealed",)),
    _case("seal-spliced", "seals and tags of other packets of the rank", _spliced, ("forged",)),
    _case("seal-of-another-rank", "gradients of one rank in another's name", _of_other_ranks, ("forged",)),
    _case(
        "seal-of-another-kind", "sealed gradients that say that they are requests", _as_requests, ("forged",)
    ),
    _case(
        "seal-of-another-key",
        "Joins that are sealed with a key of the attacker's",
        _of_an_own_key,
        ("forged",),
    ),
    _case(
        "replayed-gradients",
        "gradients sent once more",
        lambda scene: _as_sent(scene, _gradients(scene)),
        _REPLAYED,
    ),
    # Those of a session that is over are answered, with the key of their rank; what repeats a request is not.
    _case("replayed-requests", "Joins, heartbeats and Leaves sent once more", _requests),
    _case("replayed-requests-elsewhere", "the same from another address", _requests_from_elsewhere),
    # The appliance does not see these.
    _case("replayed-results", "results sent once more, to the workers", _results, wire="eth0"),
    _case("results-for-others", "results of one rank, to all ranks", _results_for_others, wire="eth0"),
    _case("results-changed", "a bit of a sealed result flipped", _changed_results, wire="eth0"),
    _case("unproven-to-workers", "Acks that ranks prove nothing, to the workers", _are_unproven, wire="eth0"),
]
