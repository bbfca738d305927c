"""Sends frames repeatedly at a rate: the control's and the attack's, in short slots that take turns.

A program of its own: it must not share a thread with what measures.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

# As many at a time as fit into the pause between two bursts.
_BURST_SECONDS = 0.001
_LATE_SECONDS = 0.02
_START_SECONDS = 0.05


def command(file: Path, both: Sequence[list[bytes]], *words: object) -> list[str]:
    """The command for the control's and the attack's frames: interface, rate, slot's seconds, slots."""
    file.write_bytes(pickle.dumps(both))
    return [sys.executable, "-B", __file__, str(file), *(str(word) for word in words)]


def sent(said: str) -> list[int]:
    """Of the control's frames and the attack's, from what the program prints; its start comes before."""
    return [int(word) for word in said.split()[1:]]


def under_attack(slot: int) -> bool:
    """Whether a slot is of the attack: control, attack, attack, control, so that a drift hits both alike."""
    return slot % 4 in (1, 2)


def send(both: Sequence[list[bytes]], interface: str, rate: float, slot: float, slots: int) -> list[int]:
    """Sends the control's and the attack's frames in their slots, from a time on that it prints first.

    The time is of the monotonic clock, which all programs share. Returns how many of each were sent. Frames
    that the device has no room for are given up, as on a wire; so are those that are late by more than a
    moment, where other processes hold the processor.
    """
    counted, late = [0, 0], max(1, int(rate * _LATE_SECONDS))
    with contextlib.closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
        raw.bind((interface, 0))
        due, start = 0, time.monotonic() + _START_SECONDS
        print(start, flush=True)
        while (now := time.monotonic() - start) < slots * slot:
            attack = under_attack(int(now / slot)) if now >= 0 else False
            wanted, frames = int(now * rate), both[attack]
            due = max(due, wanted - late)
            for number in range(due, wanted if frames else due):
                with contextlib.suppress(OSError):
                    raw.send(frames[number % len(frames)])
                    counted[attack] += 1
            due = max(due, wanted)
            time.sleep(_BURST_SECONDS)
    return counted


if __name__ == "__main__":
    frames, name, per_second, length, count = sys.argv[1:]
    loaded = pickle.loads(Path(frames).read_bytes())
    print(*send(loaded, name, float(per_second), float(length), int(count)))
