"""A job that never completes anything: `flood.py APPLIANCE_PORT JOB RATE PAYLOAD WINDOW KIND`.

Joins as both ranks of a job of two, says so, and sends gradients of rank 0 as fast as it is told, until it
is ended: rank 1 never sends one. Runs inside the namespace of its host, in a process of its own: it must not
share a thread with what measures. Says at its end how many it has sent.

KIND: "gradients", all PSNs of the window in turn; "past", the same to the parameter server past the pool;
"refused", the same packets as "gradients" with a wrong version, which the appliance refuses as soon as it
looks at them.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

import sender
from process import Failure
from sender import Sender

KINDS = ("gradients", "past", "refused")
_RANKS = 2
_HEARTBEAT_SECONDS = 0.1
_BURST_SECONDS = 0.001
# What it is late by more than this is given up: others hold the processor.
_LATE_SECONDS = 0.02
_MORE_MASK = 0xFFFF_FFFF
# Datagrams of one length that the kernel takes in one piece and cuts (UDP_SEGMENT): a call each is slow.
_PIECE, _LONGEST_PIECE = 32, 65_000


class Flood:
    """Both ranks."""

    def __init__(self, port: int, job: int, payload: int) -> None:
        self._ranks = [Sender("", port, job, rank, _RANKS, payload) for rank in range(_RANKS)]
        self._payload = bytes(payload)
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, _signum: int, _frame: FrameType | None) -> None:
        self.stopped = True

    def join(self) -> None:
        """Joins with both: neither is told to go before the other has joined."""
        with ThreadPoolExecutor() as threads:
            answers = list(threads.map(Sender.join, self._ranks))
        if any(answers):
            raise Failure(f"the appliance answers with the status {max(answers)}")

    def packets(self, window: int, kind: str) -> list[bytes]:
        """What it sends over and over."""
        flags = sender.BYPASS if kind == "past" else 0
        first = self._ranks[0]
        made = [
            first.header(sender.GRADIENT, (first.base + n) & _MORE_MASK, flags=flags, count=1) + self._payload
            for n in range(window)
        ]
        return [b"\x01" + packet[1:] for packet in made] if kind == "refused" else made

    def send(self, packets: list[bytes], rate: float) -> int:
        """Sends at a rate, and heartbeats, until it is ended. Returns how many."""
        send, sent, due = self._ranks[0].send_cut, 0, 0
        length = len(packets[0])
        piece = min(_PIECE, _LONGEST_PIECE // length)
        # From any place on there is a whole piece.
        pieces = b"".join([*packets, *packets[:piece]])
        start = beat = time.monotonic()
        while not self.stopped:
            now = time.monotonic()
            wanted = int((now - start) * rate)
            due = max(due, wanted - int(rate * _LATE_SECONDS))
            for number in range(due, wanted, piece):
                count, at = min(piece, wanted - number), number % len(packets) * length
                try:
                    send(pieces[at : at + count * length], length)
                    sent += count
                except OSError:
                    break
            due = wanted
            if now >= beat:
                beat = now + _HEARTBEAT_SECONDS
                for rank in self._ranks:
                    rank.ask_to_join()
                    rank.forget()
            time.sleep(_BURST_SECONDS)
        return int(sent / max(time.monotonic() - start, 1e-9))


if __name__ == "__main__":
    own_port, number, per_second, length, psns, what = sys.argv[1:]
    flood = Flood(int(own_port), int(number), int(length))
    flood.join()
    print(json.dumps({"joined": True}), flush=True)
    print(
        json.dumps({"per_second": flood.send(flood.packets(int(psns), what), float(per_second))}), flush=True
    )
