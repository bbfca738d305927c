"""A member of a job that sends packets that no `pascaline worker` would (docs/protocol.md)."""

from __future__ import annotations

import array
import socket
import time
from collections.abc import Sequence
from typing import Any

from scapy.packet import Packet, Raw

from netns import APPLIANCE_ADDRESS
from pascaline_layers import ACTIONS, PORT, Pascaline, PascalineControl, PascalineTrailer, TrailerUpdate

from ..bed.network import Host

ACK = 5
_CONTROL, _JOIN = 8, 1
_OK, _PENDING, _WRONG_EPOCH, _TOO_MANY = 0, 1, 7, 17
_NO_GENERATION, _GENERATION = 0x2_0000, 0x1_0000
_JOIN_SECONDS = 30.0


def socket_in(host: Host) -> socket.socket:
    def opened() -> socket.socket:
        found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        found.connect((APPLIANCE_ADDRESS, PORT))
        return found

    return host.inside(opened)


def refusal(packet: Packet) -> int:
    """The status for which an update was not taken; 0 if it was, or if this answers something else.

    The appliance sends it in a control packet, the server in the `status` of its Ack.
    """
    if packet.kind == ACK:
        return int(packet.status)
    is_told = PascalineControl in packet and ACTIONS[packet.payload.answered] == "none"
    return int(packet.payload.status) if is_told else 0


class Member:
    def __init__(self, at: socket.socket, job: int, rank: int, ranks: int, payload: int = 1024) -> None:
        self._socket, self._payload = at, payload
        self.rank = rank
        self._place: dict[str, Any] = {"job": job, "rank": rank, "fan_in": ranks}
        # Larger after each restart, as workers' are.
        self._session = time.time_ns()
        self._epoch = self._number = self._base = self._cookie = 0
        self._told = False

    def close(self) -> None:
        self._socket.close()

    def hear(self, seconds: float = 0.1) -> Packet | None:
        """The next packet from the appliance, or none within the time."""
        self._socket.settimeout(seconds)
        try:
            return Pascaline(self._socket.recv(65535))
        except TimeoutError:
            return None

    def _send(self, *layers: Packet, **fields: Any) -> None:
        packet: Packet = Pascaline(**({"count": 0, "epoch": self._epoch} | self._place | fields))
        for layer in layers:
            packet /= layer
        self._socket.send(bytes(packet))

    def ask_to_join(self) -> None:
        """Sends a Join; repeated, it is a heartbeat."""
        self._number += 1
        body = PascalineControl(
            number=self._number,
            session=self._session,
            payload_bytes=self._payload,
            window=512,
            got=_GENERATION | self._epoch if self._told else _NO_GENERATION,
            cookie=self._cookie,
            psn=self._base,
            first=self._base,
        )
        self._send(body, kind="control", epoch=0)

    def step(self) -> int | None:
        """Asks once; the status of the answer, if one came."""
        self.ask_to_join()
        heard = self.hear(0.05)
        if heard is None or PascalineControl not in heard or heard.payload.answered != _JOIN:
            return None
        body = heard.payload
        self._epoch, self._cookie, self._base = heard.epoch, body.cookie or self._cookie, body.psn
        self._told = True
        return int(body.status)

    def join(self) -> int:
        """Joins alone; the status of the answer that ends it."""
        end = time.monotonic() + _JOIN_SECONDS
        while time.monotonic() < end:
            status = self.step()
            if status == _TOO_MANY:
                time.sleep(0.1)
            elif status not in (None, _PENDING, _WRONG_EPOCH):
                return status
        raise AssertionError(f"rank {self.rank} has not joined after {_JOIN_SECONDS:.0f} s")

    def update(
        self, values: list[float], reward: float, *, psn: int = 0, count: int = 1, late: float = 0.0
    ) -> None:
        """Sends an update that was generated `late` seconds ago."""
        generated = int((time.time() - late) * 1e9)
        trailer = PascalineTrailer(elements=[TrailerUpdate(reward=reward, generated_ns=generated)])
        self._send(Raw(_floats(values)), trailer, kind="update", psn=psn, count=count)

    def offer(self, values: list[float]) -> None:
        self._send(Raw(_floats(values)), kind="gradient", psn=0xFFFF_FFFF, flags="bypass", count=1)


def first_weight(packet: Packet | None, floats: int) -> float | None:
    """Of the model that a server's Ack carries, if this is one."""
    if packet is None or packet.kind != ACK or len(bytes(packet.payload)) < 4 * floats:
        return None
    return array.array("f", packet.payload.load[:4])[0]


def _floats(values: Sequence[float]) -> bytes:
    """Elements are little endian."""
    return array.array("f", values).tobytes()


def join_together(members: list[Member]) -> None:
    """Joins until the appliance has answered every rank that all are there."""
    end = time.monotonic() + _JOIN_SECONDS
    while sum(member.step() == _OK for member in members) < len(members):
        assert time.monotonic() < end, f"the members have not joined after {_JOIN_SECONDS:.0f} s"
