"""A job that never completes a PSN: `flood.py JOB RATE PAYLOAD WINDOW KIND`.

Joins as both ranks of a job of two, says so, and sends gradients of rank 0 at the given rate until it is
ended: rank 1 never sends one. Runs inside the namespace of its host, in a process of its own: it must
not share a thread with what measures. Says at its end how many it has sent. The packets are those of the
client in plain Python (clients/examples/python).

KIND: "gradients", all PSNs of the window in turn; "past", the same to the parameter server past the pool;
"refused", the same packets as "gradients" with a wrong version, which the appliance refuses at the parse.
"""

import argparse
import contextlib
import json
import signal
import socket
import struct
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "clients/examples/python"))

import allreduce as client

from netns import APPLIANCE_ADDRESS

_RANKS = 2
_JOIN_SECONDS = 10.0
_HEARTBEAT_SECONDS = 0.1
_BURST_SECONDS = 0.001
# Packets later than this are not sent: other programs hold the processor.
_LATE_SECONDS = 0.02
# Datagrams of one length that the kernel takes in one piece and cuts: a call each is slow. Python has no name
# for the option (linux/udp.h).
_PIECE, _LONGEST_PIECE = 32, 65_000
_UDP_SEGMENT = 103


class Flood:
    """Both ranks."""

    def __init__(self, job: int, payload: int) -> None:
        terms = {"appliance": APPLIANCE_ADDRESS, "job": job, "ranks": _RANKS, "payload": payload}
        self._ranks = [
            client.Worker(argparse.Namespace(rank=rank, deadline=_JOIN_SECONDS, **terms))
            for rank in range(_RANKS)
        ]
        self._payload = bytes(payload)
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopped = True

    def join(self) -> None:
        """Joins with both: neither begins before the other has joined."""
        with ThreadPoolExecutor() as threads:
            list(threads.map(client.Worker.join, self._ranks))

    def packets(self, window: int, kind: str) -> list[bytes]:
        """The packets that it sends repeatedly."""
        flags = client.BYPASS if kind == "past" else 0
        first: Any = self._ranks[0]
        head = [
            first.header(client.GRADIENT, first.una + n, 1, flags, client.F32_SUM, first.epoch)
            for n in range(window)
        ]
        return [(b"\x01" + one[1:] if kind == "refused" else one) + self._payload for one in head]

    def send(self, packets: list[bytes], rate: float) -> int:
        """Sends at a rate, and heartbeats, until it is ended. Returns how many in a second."""
        sender, sent, due = self._ranks[0].socket, 0, 0
        sender.settimeout(0.1)
        length = len(packets[0])
        piece = min(_PIECE, _LONGEST_PIECE // length)
        cut = [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("H", length))]
        # A whole piece follows from any offset.
        pieces = b"".join([*packets, *packets[:piece]])
        start = beat = time.monotonic()
        while not self.stopped:
            now = time.monotonic()
            wanted = int((now - start) * rate)
            due = max(due, wanted - int(rate * _LATE_SECONDS))
            for number in range(due, wanted, piece):
                count, at = min(piece, wanted - number), number % len(packets) * length
                try:
                    sender.sendmsg([pieces[at : at + count * length]], cut)
                    sent += count
                except OSError:
                    break
            due = wanted
            if now >= beat:
                beat = now + _HEARTBEAT_SECONDS
                for rank in self._ranks:
                    rank.request(client.JOIN)
                    with contextlib.suppress(OSError):
                        while rank.socket.recv(65535, socket.MSG_DONTWAIT):
                            pass
            time.sleep(_BURST_SECONDS)
        return int(sent / max(time.monotonic() - start, 1e-9))


if __name__ == "__main__":
    number, per_second, size, psns, what = sys.argv[1:]
    flood = Flood(int(number), int(size))
    flood.join()
    print(json.dumps({"joined": True}), flush=True)
    told = flood.send(flood.packets(int(psns), what), float(per_second))
    print(json.dumps({"per_second": told}), flush=True)
