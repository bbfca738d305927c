"""Sends frames over and over at a rate: the control's and the attack's, in short slots that take turns.

A program of its own: it must not share a thread with what measures.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# As many at a time as fit into the pause between two bursts.
_BURST_SECONDS = 0.001
_LATE_SECONDS = 0.02
_START_SECONDS = 0.05
_LENGTH = struct.Struct("!H")


def write(file: Path, frames: Iterable[bytes]) -> None:
    """Puts frames into a file."""
    file.write_bytes(b"".join(_LENGTH.pack(len(frame)) + frame for frame in frames))


def read(file: Path) -> Iterator[bytes]:
    """The frames of a file."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        yield data[at + 2 : at + 2 + length]
        at += 2 + length


def under_attack(slot: int) -> bool:
    """Whether a slot is of the attack: control, attack, attack, control, so that a drift hits both alike."""
    return slot % 4 in (1, 2)


def send(files: list[list[bytes]], interface: str, rate: float, slot: float, slots: int) -> list[int]:
    """Sends the control's and the attack's frames in their slots, from a moment on that it prints first.

    That is a time of the monotonic clock, which all programs share. Returns how many of each were sent. What
    the device has no room for is given up, as a wire would; so is what is late by more than a moment, where
    others hold the processor.
    """
    sent, late = [0, 0], max(1, int(rate * _LATE_SECONDS))
    with contextlib.closing(socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as raw:
        raw.bind((interface, 0))
        due, start = 0, time.monotonic() + _START_SECONDS
        print(start, flush=True)
        while (now := time.monotonic() - start) < slots * slot:
            attack = under_attack(int(now / slot)) if now >= 0 else False
            wanted, frames = int(now * rate), files[attack]
            due = max(due, wanted - late)
            for number in range(due, wanted if frames else due):
                with contextlib.suppress(OSError):
                    raw.send(frames[number % len(frames)])
                    sent[attack] += 1
            due = max(due, wanted)
            time.sleep(_BURST_SECONDS)
    return sent


if __name__ == "__main__":
    control, hostile, name, per_second, length, count = sys.argv[1:]
    both = [list(read(Path(path))) for path in (control, hostile)]
    print(*send(both, name, float(per_second), float(length), int(count)))
