"""What a host on the path sees: the packets between workers and appliance, as they pass the bridge."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from . import bed as beds
from . import frames as f
from .scene import Scene

_ETHERTYPE_ALL = 3
_TARGET_PORT = slice(36, 38)
_JOB, _RANK, _SESSION = slice(4, 6), slice(6, 8), slice(f.HEADER + 8, f.HEADER + 16)
# Of a socket that is read every few milliseconds.
_BUFFER = 8 << 20
_LOOK_SECONDS = 0.01
_LONGEST_SECONDS = 20.0


@dataclass(frozen=True)
class Seen:
    """A datagram from the protocol's header on."""

    rank: int
    kind: str
    # Whether a rank has sent it.
    up: bool
    datagram: bytes


def record(scene: Scene, wanted: dict[tuple[str, bool], int], *, own: bool = False) -> list[Seen]:
    """As many packets of each kind, of ranks or to them, while the workers go on; of the latest that pass.

    `own`: those of a rank that the attacker's host plays.
    """
    left, found = dict(wanted), []
    end = time.monotonic() + _LONGEST_SECONDS
    raw = scene.bed.bridge.inside(_listening)
    with raw:
        while any(left.values()):
            assert time.monotonic() < end, f"the workers send too few packets: {left} are missing"
            for seen in _seen(scene, raw, own=own):
                if left.get((seen.kind, seen.up), 0):
                    left[seen.kind, seen.up] -= 1
                    found.append(seen)
            scene.work()
    return found


def _listening() -> socket.socket:
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_ALL))
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
    raw.bind(("uplink", 0))
    raw.settimeout(_LOOK_SECONDS)
    return raw


def _seen(scene: Scene, raw: socket.socket, *, own: bool) -> Iterator[Seen]:
    """Those of the attacked job, until none comes or some time has passed."""
    end = time.monotonic() + _LOOK_SECONDS
    attacker = socket.inet_aton(beds.ATTACKER_ADDRESS)
    while time.monotonic() < end:
        try:
            frame = raw.recv(65536)
        except TimeoutError:
            return
        datagram = frame[f.HEADERS :]
        is_udp = frame[12:14] == b"\x08\x00" and frame[23:24] == b"\x11" and len(datagram) > f.HEADER
        of_host = attacker in (frame[26:30], frame[30:34])
        if not is_udp or of_host != own or int.from_bytes(datagram[_JOB]) != scene.job:
            continue
        up = int.from_bytes(frame[_TARGET_PORT]) == f.PORT
        yield Seen(int.from_bytes(datagram[_RANK]), f.KINDS.get(datagram[1], ""), up, datagram)


def session_of(seen: Seen) -> int:
    """The session that a control packet names."""
    return int.from_bytes(seen.datagram[_SESSION])
