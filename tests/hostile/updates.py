"""An asynchronous job: a rank that sends forbidden packets, and strangers that claim to be its server."""

from __future__ import annotations

import math
from typing import Any

from . import bed as beds
from . import cluster
from . import frames as f
from .cluster import FLOATS, values
from .reasons import JOINS, REFUSED
from .scene import Case, Scene

_LARGE = 3.4e38
_EVIL = 666.0
# A rank's own updates are as many as a busy worker's.
_RATE = 200.0
_NOT_SEALED = "packets of updates, and of their server, are not sealed"


def _by_rank(
    name: str, about: str, value: float, reward: float, count: int = 1, named: tuple[str, ...] = ()
) -> Case:
    make = cluster.updates(value, reward, count)
    ends: dict[str, Any] = {"prepare": cluster.prepared, "judge": cluster.judged}
    return Case(name, about, make, named, rate=_RATE, plain_only=_NOT_SEALED, **ends)


def _of_strangers(scene: Scene) -> list[bytes]:
    return [
        scene.way(port=port).frame(f.update(beds.ASYNCHRONOUS, 0, bytes(4 * FLOATS), 1.0, 1, psn=port))
        for port in range(40_000, 40_200)
    ]


def _forged_acks(scene: Scene) -> list[bytes]:
    """Weights in the server's name, for updates that were never sent."""
    way = scene.way(source=beds.SERVER_ADDRESS, port=beds.SERVER_PORT)
    found = []
    for number in range(400):
        psn = number if number < 200 else scene.random.getrandbits(32)
        fields = {"kind": "ack", "psn": psn, "epoch": scene.cluster.epoch}
        found.append(way.frame(f.update(beds.ASYNCHRONOUS, number % 3, values(_EVIL), 1.0, 1, **fields)))
    return found


def _forged_serves(scene: Scene) -> list[bytes]:
    """Serves in the server's name, of guessed sessions, to have its packets sent to the attacker."""
    way = scene.way(source=beds.SERVER_ADDRESS, port=beds.SERVER_PORT)
    sessions = [scene.random.getrandbits(64) for _ in range(400)]
    body = {"fan_in": 0, "payload_bytes": 0, "window": 0}
    return [
        way.frame(f.control("serve", beds.ASYNCHRONOUS, 0xFFFF, session=session, **body))
        for session in sessions
    ]


def _are_not_believed(scene: Scene) -> list[str]:
    believed = _EVIL in scene.cluster.weights()
    return [*(["forged weights are passed on"] if believed else []), *cluster.judged(scene)]


def _keeps_its_place(scene: Scene) -> list[str]:
    """The server's packets go to it while another host claims to be the server."""
    strayed = scene.cluster.heard(_forged_serves(scene), "update")
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
        plain_only=_NOT_SEALED,
    ),
    Case(
        "acks-of-no-server",
        "weights in the parameter server's name",
        _forged_acks,
        prepare=cluster.prepared,
        judge=_are_not_believed,
        plain_only=_NOT_SEALED,
        rate=2000.0,
    ),
    Case(
        "serves-forged",
        "Serves in the parameter server's name, without a proof",
        _forged_serves,
        JOINS,
        prepare=cluster.prepared,
        judge=_keeps_its_place,
        plain_only=_NOT_SEALED,
    ),
]
