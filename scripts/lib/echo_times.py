"""How long each echo takes from leaving an interface to coming back to it, by the kernel's own time stamps.

    echo_times.py INTERFACE

What `ping` says begins before the kernel sends: it has in it what else its processor had to do first. Prints
one line for each echo, its milliseconds, when it is asked to end (SIGINT, SIGTERM).
"""

import select
import signal
import socket
import struct
import sys

_ALL = 0x0003
_OUTGOING = 4
_ROOM = 8 << 20
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_POLL_MS = 100
_ENDS = {signal.SIGINT, signal.SIGTERM}
_ETHERNET = 14
_ICMP = 1
_REQUEST, _ANSWER = 8, 0


def _listen(interface: str) -> socket.socket:
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    listener.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    listener.bind((interface, _ALL))
    listener.setblocking(False)
    return listener


def _echo(frame: bytes) -> tuple[int, bytes] | None:
    """Type, and identifier with sequence number, of an ICMP echo without IP options or a VLAN tag."""
    ip = frame[_ETHERNET:]
    if frame[12:14] != b"\x08\x00" or len(ip) < 28 or ip[0] != 0x45 or ip[9] != _ICMP:
        return None
    return ip[20], ip[24:28]


def _nanoseconds(beside: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in beside:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, rest = struct.unpack("qq", data[:16])
            return int(seconds * 1_000_000_000 + rest)
    return None


def _take(listener: socket.socket, left: dict[bytes, int], took: list[float]) -> None:
    while True:
        try:
            frame, beside, _, address = listener.recvmsg(128, 64)
        except BlockingIOError:
            return
        echo, at = _echo(frame), _nanoseconds(beside)
        if echo is None or at is None:
            continue
        kind, key = echo
        outgoing = address[2] == _OUTGOING
        if kind == _REQUEST and outgoing:
            left[key] = at
        elif kind == _ANSWER and not outgoing and key in left:
            took.append((at - left.pop(key)) / 1e6)


def main(interface: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    listener = _listen(interface)
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    left: dict[bytes, int] = {}
    took: list[float] = []
    while signal.sigtimedwait(_ENDS, 0) is None:
        if poller.poll(_POLL_MS):
            _take(listener, left, took)
    _take(listener, left, took)
    print("\n".join(f"{each:.4f}" for each in took), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
