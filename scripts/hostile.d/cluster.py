"""An asynchronous job under attack from within: three workers, and the attacker as the fourth rank."""

from __future__ import annotations

import contextlib
import http.client
import math
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import bed as beds
import frames as f
from appliance import UDP_PORT, fetch
from frames import Body, Header
from metrics import Metrics
from netns import APPLIANCE_ADDRESS, in_namespace
from process import Child, Failure
from scene import Scene, exchange

FLOATS = 64
RANK = beds.RANKS - 1
_JOIN_SECONDS = 10.0
_STOP_SECONDS = 3.0
# In so long a healthy job applies more than a hundred updates.
_ADVANCE_SECONDS = 3.0
_LISTEN_SECONDS = 0.3
_LARGEST = 1e6
_HEADERS = 42


@dataclass
class Cluster:
    """The workers, and what the attacker knows as their colleague."""

    scene: Scene
    children: list[Child] = field(default_factory=list)
    session: int = 0
    epoch: int = 0
    number: int = 0

    def start(self) -> None:
        """Starts the workers, and joins as the last rank, with a proven address."""
        scene = self.scene
        for rank in range(RANK):
            words = {
                "--appliance": f"{APPLIANCE_ADDRESS}:{UDP_PORT}",
                "--job": beds.ASYNCHRONOUS,
                "--rank": rank,
                "--ranks": beds.RANKS,
                "--floats": FLOATS,
                "--interval": "20ms",
                "--updates": 1_000_000,
            }
            command = [
                str(scene.binary),
                "worker",
                "olaf",
                *(str(word) for pair in words.items() for word in pair),
            ]
            self.children.append(Child(f"olaf{rank}", command, scene.files, scene.bed.workers[rank]))
        self.session = scene.random.getrandbits(64)
        body = Body(session=self.session, payload=4 * FLOATS, got=f.NO_GENERATION)
        end = time.monotonic() + _JOIN_SECONDS
        while time.monotonic() < end:
            frame = scene.way().frame(f.control(Header(job=beds.ASYNCHRONOUS, rank=RANK), body))
            for answer in scene.ask([frame], seconds=0.1):
                if answer.body.session != self.session:
                    continue
                self.epoch, self.number = answer.header.epoch, answer.body.psn
                body = replace(body, cookie=answer.body.cookie, got=0x10000 + self.epoch)
                if answer.body.status == 0:
                    return
        raise Failure("the attacker cannot join the asynchronous job", self.children[0].tail())

    def update(self, value: float, reward: float, count: int = 1) -> bytes:
        """The attacker's own update."""
        self.number += 1
        header = Header(
            f.UPDATE, beds.ASYNCHRONOUS, RANK, self.number, count=count, epoch=self.epoch, flags=f.TRAILER
        )
        trailer = f.update_trailer(reward, time.time_ns())
        return self.scene.way().frame(header.bytes() + struct.pack("<f", value) * FLOATS + trailer)

    def applied(self) -> int:
        """Updates that have changed the model."""
        page = fetch(self.scene.bed.server, beds.SERVER_TELEMETRY, "/metrics")[1]
        return Metrics(page).by_label("pascaline_ps_updates_total", "verdict").get("applied", 0)

    def weights(self) -> list[float]:
        """What the appliance tells the attacker of the model, as it tells everybody."""
        told = self.heard([], f.ACK)
        return [value for datagram in told for value in struct.unpack_from(f"<{FLOATS}f", datagram, 22)]

    def heard(self, frames: list[bytes], kind: int) -> list[bytes]:
        """Sends frames as the attacker; returns the datagrams of a kind, with a model, that come to him."""
        raw = in_namespace(self.scene.bed.attacker, lambda: exchange(frames, "eth1", _LISTEN_SECONDS))
        whole = [frame[_HEADERS:] for frame in raw if len(frame) > _HEADERS + 22 + 4 * FLOATS]
        return [datagram for datagram in whole if datagram[1] == kind]

    def goes_on(self, before: int) -> list[str]:
        """Whether updates have been applied since there were so many, and the model is one."""
        problems = []
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.scene.stop.wait_for(lambda: self.applied() > before, _ADVANCE_SECONDS)
            if self.applied() == before:
                problems.append("no update is applied any more, in a new generation either")
        # Weights come with an update that is applied only.
        return problems + _infinite(self.weights())

    def stop(self) -> None:
        """Ends the workers; the attacker goes without a word."""
        for child in self.children:
            child.stop(_STOP_SECONDS)


def prepared(scene: Scene) -> None:
    """Before a case."""
    cluster = Cluster(scene)
    scene.cluster = cluster
    try:
        cluster.start()
    except Failure:
        cluster.stop()
        raise


def judged(scene: Scene) -> list[str]:
    """After it: the model is still one, and the job's next run gets on."""
    cluster = scene.cluster
    assert isinstance(cluster, Cluster)
    problems = _infinite(cluster.weights())
    cluster.stop()
    # By the rule of the paper an update is applied if its reward is the highest so far: soon that is rare.
    before = cluster.applied()
    prepared(scene)
    try:
        return problems + scene.cluster.goes_on(before)
    finally:
        scene.cluster.stop()


def _infinite(weights: list[float]) -> list[str]:
    if any(not math.isfinite(weight) or abs(weight) > _LARGEST for weight in weights):
        return [f"the model has weights like {max(weights, key=abs)}"]
    return []


def updates(value: float, reward: float, count: int = 1) -> Callable[[Scene], list[bytes]]:
    """Frames of a case."""

    def make(scene: Scene) -> list[bytes]:
        assert isinstance(scene.cluster, Cluster)
        return [scene.cluster.update(value, reward, count) for _ in range(200)]

    return make
