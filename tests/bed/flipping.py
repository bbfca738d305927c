"""A wire that flips a bit now and then, as the memory of a bad switch does: behind Ethernet's own check."""

from __future__ import annotations

import select
import socket
from functools import partial
from threading import Event, Thread
from typing import Self

from .network import Host

_ETH_P_ALL = 3
# Of gradients over IPv4: headers before the payload, and where UDP's checksum is.
_HEADERS, _UDP_CHECKSUM = 64, 40
# The upper bits of a binary32's exponent are in its last byte.
_EXPONENT, _BIT = 3, 0x40
_LOOK_SECONDS = 0.2


class FlippingWire:
    """Joins two interfaces of a namespace. Use it in a `with`."""

    def __init__(self, host: Host, left: str, right: str, every: int) -> None:
        """Flips a bit of one in this many gradients that go from left to right."""
        self.flipped = 0
        self._every, self._gradients = every, 0
        self._left, self._right = (host.inside(partial(_raw, at)) for at in (left, right))
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for end in (self._left, self._right):
            end.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            ready, _, _ = select.select([self._left, self._right], [], [], _LOOK_SECONDS)
            for end in ready:
                frame, sender = end.recvfrom(65536)
                # What this wire has sent itself is seen by its sockets, too.
                if sender[2] == socket.PACKET_OUTGOING:
                    continue
                if end is self._left:
                    self._right.send(self._damaged(frame))
                else:
                    self._left.send(frame)

    def _damaged(self, frame: bytes) -> bytes:
        if len(frame) < 2 * _HEADERS or frame[_UDP_CHECKSUM : _UDP_CHECKSUM + 2] == b"\0\0":
            return frame
        self._gradients += 1
        if self._gradients % self._every:
            return frame
        self.flipped += 1
        damaged = bytearray(frame)
        damaged[_HEADERS + _EXPONENT] ^= _BIT
        return bytes(damaged)


def _raw(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    end.bind((interface, 0))
    return end
