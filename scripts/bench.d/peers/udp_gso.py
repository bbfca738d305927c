"""UDP as cheaply as the kernel moves it: 44 datagrams per system call, which it cuts (GSO) and joins (GRO).

    udp_gso.py receive ADDRESS PORT
    udp_gso.py send ADDRESS PORT BYTES_PER_DATAGRAM SECONDS

The receiver ends when nothing has come for a second. Both print what they have moved, and the processor time
that it took.
"""

import contextlib
import json
import resource
import socket
import sys
import time

UDP_SEGMENT, UDP_GRO = 103, 104
# The most that one datagram before cutting may hold is 64 KiB.
DATAGRAMS = 44


def report(moved: int, seconds: float) -> None:
    """Prints what moved and what it cost."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime - START
    print(json.dumps({"bytes": moved, "seconds": seconds, "cpu_seconds": cpu}), flush=True)


def receive(address: str, port: int) -> None:
    """Counts datagrams until none comes for a second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((address, port))
        # Longer for the first one: the sender is still being started.
        sock.settimeout(10)
        buffer = bytearray(1 << 16)
        moved = sock.recv_into(buffer)
        begin = end = time.monotonic()
        sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                moved += sock.recv_into(buffer)
                end = time.monotonic()
        report(moved, end - begin)


def send(address: str, port: int, length: int, seconds: float) -> None:
    """Sends as many datagrams as the kernel takes."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, length)
        sock.connect((address, port))
        batch = bytes(length * DATAGRAMS)
        moved, begin = 0, time.monotonic()
        while time.monotonic() < begin + seconds:
            moved += sock.send(batch)
        report(moved, time.monotonic() - begin)


_used = resource.getrusage(resource.RUSAGE_SELF)
START = _used.ru_utime + _used.ru_stime
if sys.argv[1] == "receive":
    receive(sys.argv[2], int(sys.argv[3]))
else:
    send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
