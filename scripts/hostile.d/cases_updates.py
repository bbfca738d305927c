"""An asynchronous job: a rank that sends what it should not, and strangers who claim to be its server."""

from __future__ import annotations

import math
import struct
from dataclasses import replace

import bed as beds
import cluster
import frames as f
from cases_noise import REFUSED
from cluster import FLOATS, Cluster
from frames import Body, Header
from scene import Case, Scene

_LARGE = 3.4e38
_EVIL = 666.0
# A rank's own updates are as many as a busy worker's.
_RATE = 200.0


def _by_rank(
    name: str, about: str, value: float, reward: float, count: int = 1, named: tuple[str, ...] = ()
) -> Case:
    make = cluster.updates(value, reward, count)
    return Case(name, about, make, named, prepare=cluster.prepared, judge=cluster.judged, rate=_RATE)


def _of_strangers(scene: Scene) -> list[bytes]:
    trailer = f.update_trailer(1.0, 1)
    header = Header(f.UPDATE, beds.ASYNCHRONOUS, 0, count=1, flags=f.TRAILER)
    return [
        scene.way(port=port).frame(replace(header, psn=port).bytes() + bytes(4 * FLOATS) + trailer)
        for port in range(40_000, 40_200)
    ]


def _forged_acks(scene: Scene) -> list[bytes]:
    """Weights in the server's name, for updates that nobody has sent."""
    assert isinstance(scene.cluster, Cluster)
    way = scene.way(source=beds.SERVER_ADDRESS, port=beds.SERVER_PORT)
    weights = struct.pack("<f", _EVIL) * FLOATS
    found = []
    for number in range(400):
        psn = number if number < 200 else scene.random.getrandbits(32)
        header = Header(f.ACK, beds.ASYNCHRONOUS, number % 3, psn, count=1, flags=f.TRAILER)
        header = replace(header, epoch=scene.cluster.epoch)
        found.append(way.frame(header.bytes() + weights + f.update_trailer(1.0, 1)))
    return found


def _forged_serves(scene: Scene) -> list[bytes]:
    """Serves in the server's name, of guessed sessions, to have its packets sent to the attacker."""
    way = scene.way(source=beds.SERVER_ADDRESS, port=beds.SERVER_PORT)
    header = Header(job=beds.ASYNCHRONOUS, rank=0xFFFF, fan_in=0)
    sessions = [scene.random.getrandbits(64) for _ in range(400)]
    bodies = [Body(f.SERVE, session=session, payload=0, window=0) for session in sessions]
    return [way.frame(f.control(header, body)) for body in bodies]


def _are_not_believed(scene: Scene) -> list[str]:
    assert isinstance(scene.cluster, Cluster)
    believed = _EVIL in scene.cluster.weights()
    return [*(["forged weights are passed on"] if believed else []), *cluster.judged(scene)]


def _keeps_its_place(scene: Scene) -> list[str]:
    """The server's packets go to it while somebody claims to be the server."""
    assert isinstance(scene.cluster, Cluster)
    strayed = scene.cluster.heard(_forged_serves(scene), f.UPDATE)
    return [*(["updates go to who claims to be the server"] if strayed else []), *cluster.judged(scene)]


CASES = [
    _by_rank("update-huge-reward", "a rank's rewards are as high as can be", 0.001, _LARGE),
    _by_rank("update-huge-values", "a rank's values would make the model infinite", 3e38, 1.0),
    _by_rank(
        "update-not-a-number", "a rank's values are no numbers", math.nan, 1.0, 1, ("update_not_finite",)
    ),
    _by_rank("update-count", "a rank's update claims to stand for 65,535", 1.0, 1.0, 65_535, ("bad_count",)),
    Case(
        "updates-of-strangers",
        "a flood of updates from no member",
        _of_strangers,
        (*REFUSED, "no_server"),
        prepare=cluster.prepared,
        judge=cluster.judged,
    ),
    Case(
        "acks-of-no-server",
        "weights in the parameter server's name",
        _forged_acks,
        prepare=cluster.prepared,
        judge=_are_not_believed,
        rate=2000.0,
    ),
    Case(
        "serves-forged",
        "Serves in the parameter server's name, without a proof",
        _forged_serves,
        ("answered", "control_full", *REFUSED),
        prepare=cluster.prepared,
        judge=_keeps_its_place,
    ),
]
