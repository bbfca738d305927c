"""Single frames to a card, from a worker's namespace."""

from __future__ import annotations

import socket

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from process import Failure

from ..bed.network import Host

_IPV4_AND_ICMP = 28
_UDP_PORT = 16420
_WRONG = 0xBEEF


def ping(host: Host, address: str, size: int) -> bool:
    """Whether an echo request of this many bytes, IP header included, is answered. None is fragmented."""
    words = ("ping", "-n", "-c", "2", "-W", "3", "-M", "do", "-s", str(size - _IPV4_AND_ICMP), address)
    return " 0 received" not in host.run(*words, check=False, timeout=30)


def bad_checksums(host: Host, interface: str, address: str, count: int) -> int:
    """Sends datagrams to the appliance whose UDP checksum is wrong; returns how many."""
    if not ping(host, address, 100):
        raise Failure(f"{address} does not answer")
    neighbour = host.run("ip", "neigh", "show", address, "dev", interface).split()
    there = neighbour[neighbour.index("lladdr") + 1]
    own = host.run("ip", "-4", "-o", "addr", "show", "dev", interface).split()[3].partition("/")[0]
    datagram = IP(src=own, dst=address) / UDP(sport=49152, dport=_UDP_PORT, chksum=_WRONG)
    frame = bytes(Ether(src=host.mac(interface), dst=there) / datagram / bytes(64))

    def send() -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((interface, 0))
            for _ in range(count):
                raw.send(frame)

    host.inside(send)
    return count
