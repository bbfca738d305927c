"""An asynchronous job under attack from within: three workers, and the attacker as the fourth rank."""

from __future__ import annotations

import array
import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from ..bed.process import command
from . import bed as beds
from . import frames as f
from .ranks import Ranks
from .scene import Scene, exchange

FLOATS = 64
RANK = f.RANKS - 1
_STOP_SECONDS = 3.0
# A healthy job applies dozens of updates in one second.
_ADVANCE_SECONDS = 20.0
_LISTEN_SECONDS = 0.3
_LARGEST = 1e6


def values(value: float) -> bytes:
    """A payload of as many floats as the model has; elements are little endian."""
    return array.array("f", [value] * FLOATS).tobytes()


@dataclass
class Cluster:
    scene: Scene
    children: list[Any] = field(default_factory=list)
    epoch: int = 0
    number: int = 0

    def start(self) -> None:
        """Starts the workers, and joins as the last rank, with a proven address."""
        scene = self.scene
        words: dict[str, object] = {
            "appliance": f"{beds.APPLIANCE_ADDRESS}:{f.PORT}",
            "job": beds.ASYNCHRONOUS,
            "ranks": f.RANKS,
            "floats": FLOATS,
            "interval": "20ms",
            "updates": 1_000_000,
        }
        for rank in range(RANK):
            line = command(scene.binary, "worker", "olaf", **words, rank=rank)
            self.children.append(scene.child(f"olaf{rank}", line, scene.bed.workers[rank]))
        joined = Ranks(scene, beds.ASYNCHRONOUS, {RANK: scene.way()}, payload_bytes=4 * FLOATS)
        self.epoch, self.number = joined.epoch, joined.base

    def update(self, value: float, reward: float, count: int = 1) -> bytes:
        self.number += 1
        fields = {"psn": self.number, "count": count, "epoch": self.epoch}
        job, now = beds.ASYNCHRONOUS, time.time_ns()
        return self.scene.way().frame(f.update(job, RANK, values(value), reward, now, **fields))

    def applied(self) -> int:
        return self.scene.server_metrics().by_label("pascaline_ps_updates_total", "verdict").get("applied", 0)

    def weights(self) -> list[float]:
        """The model as the appliance sends it to the attacker, like to any rank."""
        found = array.array("f")
        for packet in self.heard([], "ack"):
            found.frombytes(packet.payload.load[: 4 * FLOATS])
        return list(found)

    def heard(self, frames: list[bytes], kind: str) -> list[f.Packet]:
        """Sends frames as the attacker; returns the packets of a kind, with a model, that reach it."""
        raw = self.scene.bed.attacker.inside(lambda: exchange(frames, "eth1", _LISTEN_SECONDS))
        least = f.HEADERS + f.HEADER + 4 * FLOATS
        packets = [f.Pascaline(frame[f.HEADERS :]) for frame in raw if len(frame) > least]
        return [packet for packet in packets if packet.sprintf("%Pascaline.kind%") == kind]

    def advances(self, before: int) -> list[str]:
        """Whether updates have been applied beyond this number, and the model is one."""
        problems = []
        with contextlib.suppress(httpx.HTTPError):
            self.scene.stop.wait_for(lambda: self.applied() > before, _ADVANCE_SECONDS)
            if self.applied() == before:
                problems.append("no update is applied any more, in a new generation either")
        # Weights come only with an update that is applied.
        return problems + _infinite(self.weights())

    def stop(self) -> None:
        """Ends the workers; the attacker leaves without a packet."""
        for child in self.children:
            child.stop(_STOP_SECONDS)


def prepared(scene: Scene) -> None:
    scene.cluster = Cluster(scene)
    try:
        scene.cluster.start()
    except BaseException:
        scene.cluster.stop()
        raise


def judged(scene: Scene) -> list[str]:
    """After the attack: the model is still one, and the job's next run advances."""
    problems = _infinite(scene.cluster.weights())
    scene.cluster.stop()
    # By the rule of the paper an update is applied if its reward is the highest so far: soon that is rare.
    before = scene.cluster.applied()
    prepared(scene)
    try:
        return problems + scene.cluster.advances(before)
    finally:
        scene.cluster.stop()


def _infinite(weights: list[float]) -> list[str]:
    if any(not math.isfinite(weight) or abs(weight) > _LARGEST for weight in weights):
        return [f"the model has weights like {max(weights, key=abs)}"]
    return []


def updates(value: float, reward: float, count: int = 1) -> Callable[[Scene], list[bytes]]:
    def make(scene: Scene) -> list[bytes]:
        return [scene.cluster.update(value, reward, count) for _ in range(200)]

    return make
