"""UDP as cheaply as the kernel moves it: 44 datagrams per system call, which it cuts (GSO) and joins (GRO).

    udp_gso.py receive ADDRESS PORT TENSOR
    udp_gso.py send ADDRESS PORT TENSOR BYTES_PER_DATAGRAM SECONDS

Both go through a tensor of this size again and again, as a worker does: data is sent from memory
and received into memory. The same 64 KiB each time would never leave the processor's caches.

The receiver ends when nothing has come for a second. Both print what they have moved, and the processor time
that it took.
"""

import contextlib
import itertools
import json
import resource
import socket
import sys
import time
from collections.abc import Iterator

UDP_SEGMENT, UDP_GRO = 103, 104
# The most that one datagram before cutting may hold is 64 KiB.
DATAGRAMS = 44


def report(moved: int, seconds: float) -> None:
    """Prints the bytes moved and their processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - START
    print(json.dumps({"bytes": moved, "seconds": seconds, "cpu_seconds": cpu}), flush=True)


def pieces(tensor: bytearray, length: int) -> Iterator[memoryview]:
    """The tensor's whole pieces of this length, again and again."""
    whole = memoryview(tensor)
    starts = range(0, len(whole) - length + 1, length)
    return itertools.cycle([whole[start : start + length] for start in starts])


def receive(address: str, port: int, tensor: bytearray) -> None:
    """Takes datagrams into the tensor until none comes for a second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((address, port))
        # Longer for the first one: the sender is still being started.
        sock.settimeout(10)
        places = pieces(tensor, 1 << 16)
        moved = sock.recv_into(next(places))
        begin = end = time.monotonic()
        sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            for place in places:
                moved += sock.recv_into(place)
                end = time.monotonic()
        report(moved, end - begin)


def send(address: str, port: int, tensor: bytearray, length: int, seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, length)
        sock.connect((address, port))
        batches = pieces(tensor, length * DATAGRAMS)
        moved, begin = 0, time.monotonic()
        while time.monotonic() < begin + seconds:
            moved += sock.send(next(batches))
        report(moved, time.monotonic() - begin)


if __name__ == "__main__":
    what, to, at, size, *more = sys.argv[1:]
    # Written to, so that it exists: memory that was never written to is one page of zeros.
    memory = bytearray(b"\x5a") * int(size)
    _used = resource.getrusage(resource.RUSAGE_SELF)
    START = _used.ru_utime + _used.ru_stime
    if what == "receive":
        receive(to, int(at), memory)
    else:
        send(to, int(at), memory, int(more[0]), float(more[1]))
