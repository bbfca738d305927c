"""A member of a job that says what no `pascaline worker` would (docs/protocol.md)."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass

from netns import APPLIANCE_ADDRESS, in_namespace
from process import Failure

VERSION = 2
GRADIENT, UPDATE, ACK, CONTROL = 1, 4, 5, 8
JOIN, LEAVE = 1, 2
OK, PENDING, WRONG_EPOCH, TOO_MANY = 0, 1, 7, 17
F32_SUM = 0x01
BYPASS, TRAILER = 0x08, 0x20
_HEADER = struct.Struct("!BBBBHHIHHHHBB")
_BODY = struct.Struct("!BBBBQHHIIQIIQ")
_ASK = 0x2_0000
_GENERATION = 0x1_0000
_JOIN_SECONDS = 10.0
# linux/udp.h; Python has no name for it.
_UDP_SEGMENT = 103


@dataclass
class Heard:
    """A packet from the appliance: what of it matters here."""

    kind: int
    psn: int
    priority: int
    epoch: int
    body: bytes

    @property
    def refusal(self) -> int:
        """The status for which an update was not taken; 0 if it was, or if this answers something else.

        The appliance says so in a control packet, the server in the `priority` of its Ack.
        """
        if self.kind == ACK:
            return self.priority
        return self.status if self.kind == CONTROL and self.answers == 0 else 0

    @property
    def status(self) -> int:
        """Of an Ack to a control packet, or to a packet that was refused."""
        return self.body[1]

    @property
    def answers(self) -> int:
        """The action that an Ack answers; 0 if none."""
        return self.body[2]


class Sender:
    """One rank, from a socket inside its namespace; without a name, inside that of this process."""

    def __init__(
        self, namespace: str, port: int, job: int, rank: int, ranks: int, payload: int = 1024
    ) -> None:
        self._job, self.rank, self._ranks, self._payload = job, rank, ranks, payload
        # Larger in each later life, as workers' are.
        self._session = time.time_ns()
        self._epoch = 0
        self._number = 0
        self._base = 0
        self._cookie = 0
        self._told = False

        def opened() -> socket.socket:
            mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            mine.connect((APPLIANCE_ADDRESS, port))
            mine.settimeout(0.1)
            return mine

        self._socket = in_namespace(namespace, opened) if namespace else opened()

    @property
    def base(self) -> int:
        """The first PSN of its generation."""
        return self._base

    def forget(self) -> None:
        """Reads away what has come."""
        self._socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._socket.recv(65535):
                pass

    def close(self) -> None:
        """Gives the socket back."""
        self._socket.close()

    def header(self, kind: int, psn: int, *, flags: int = 0, count: int = 0) -> bytes:
        """Of a packet of this rank."""
        epoch = 0 if kind == CONTROL else self._epoch
        fields = (
            VERSION,
            kind,
            flags,
            F32_SUM,
            self._job,
            self.rank,
            psn,
            self._ranks,
            count,
            0,
            0,
            0,
            epoch,
        )
        return _HEADER.pack(*fields)

    def send(self, packet: bytes) -> None:
        """Sends a datagram."""
        self._socket.send(packet)

    def send_cut(self, packets: bytes, length: int) -> None:
        """Sends datagrams of one length that lie one after the other, in one call."""
        self._socket.sendmsg([packets], [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("H", length))])

    def hear(self, seconds: float = 0.1) -> Heard | None:
        """The next packet from the appliance, or none within the time."""
        self._socket.settimeout(seconds)
        try:
            packet = self._socket.recv(65535)
        except TimeoutError:
            return None
        fields = _HEADER.unpack_from(packet)
        return Heard(fields[1], fields[6], fields[9], fields[12], packet[_HEADER.size :])

    def ask_to_join(self) -> None:
        """Sends a Join; repeated, it is a heartbeat."""
        self._number += 1
        told = _GENERATION | self._epoch if self._told else _ASK
        fields = (
            JOIN,
            0,
            0,
            0,
            self._session,
            self._payload,
            512,
            0,
            told,
            self._cookie,
            self._base,
            self._base,
            0,
        )
        self.send(self.header(CONTROL, self._number) + _BODY.pack(*fields))

    def step(self) -> int | None:
        """Asks once; the status of the answer, if one came."""
        self.ask_to_join()
        heard = self.hear(0.05)
        if not heard or heard.kind != CONTROL or heard.answers != JOIN:
            return None
        fields = _BODY.unpack_from(heard.body)
        self._epoch, self._cookie, self._base = heard.epoch, fields[9] or self._cookie, fields[10]
        self._told = True
        return heard.status

    def join(self) -> int:
        """Joins alone; the status of the answer that ends it."""
        end = time.monotonic() + _JOIN_SECONDS
        while time.monotonic() < end:
            status = self.step()
            if status == TOO_MANY:
                time.sleep(0.1)
            elif status not in (None, PENDING, WRONG_EPOCH):
                return status
        raise Failure(f"rank {self.rank} has not joined after {_JOIN_SECONDS:.0f} s")

    def update(
        self, values: list[float], reward: float, *, psn: int = 0, count: int = 1, late: float = 0.0
    ) -> None:
        """Sends an update that was generated so many seconds ago."""
        generated = int((time.time() - late) * 1e9)
        trailer = struct.pack("!BBfQH", 2, 12, reward, generated, 16)
        payload = struct.pack(f"<{len(values)}f", *values)
        self.send(self.header(UPDATE, psn, flags=TRAILER, count=count) + payload + trailer)

    def offer(self, values: list[float]) -> None:
        """Offers initial weights."""
        payload = struct.pack(f"<{len(values)}f", *values)
        self.send(self.header(GRADIENT, 0xFFFF_FFFF, flags=BYPASS, count=1) + payload)


def join_together(senders: list[Sender]) -> None:
    """Joins until every rank has been told to go."""
    end = time.monotonic() + _JOIN_SECONDS
    while sum(sender.step() == OK for sender in senders) < len(senders):
        if time.monotonic() > end:
            raise Failure(f"the senders have not joined after {_JOIN_SECONDS:.0f} s")
