"""Frames that an attacker makes: any source, any address, any field, out of the protocol's Scapy layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet as Packet
from scapy.packet import Raw

from pascaline_layers import CONTROL_BODY, PascalineTrailer, TrailerUpdate
from pascaline_layers import HEADER as HEADER
from pascaline_layers import KINDS as KINDS
from pascaline_layers import PORT as PORT
from pascaline_layers import Pascaline as Pascaline
from pascaline_layers import PascalineControl as PascalineControl

# No service listens there: the appliance refuses such a frame at the parse.
CLOSED_PORT = 16999
BROADCAST = "ff:ff:ff:ff:ff:ff"
NO_GENERATION, GENERATION = 0x20000, 0x10000
# Ethernet, IPv4 without options, UDP.
HEADERS = 42
RANKS = 4


@dataclass(frozen=True)
class Way:
    """Layers 2 to 4 of a frame: the sender that it claims, and the receiver."""

    source_mac: str
    target_mac: str
    source: str
    target: str
    source_port: int = 49152
    target_port: int = PORT
    # Each a layer of Scapy and a number.
    tags: tuple[tuple[type[Packet], int], ...] = ()

    def to_closed_port(self) -> Way:
        """The control: the same way to a port without a service."""
        return replace(self, target_port=CLOSED_PORT)

    def ethernet(self) -> Packet:
        packet: Packet = Ether(src=self.source_mac, dst=self.target_mac)
        for tag, number in self.tags:
            packet /= tag(vlan=number)
        return packet

    def ip(self, **fields: Any) -> Packet:
        """Up to IP; by default of version 4 with DF."""
        if ":" in self.target:
            layer: Packet = IPv6(src=self.source, dst=self.target, **({"hlim": 64} | fields))
        else:
            usual: dict[str, Any] = {"id": 0, "flags": "DF"}
            layer = IP(src=self.source, dst=self.target, **(usual | fields))
        return self.ethernet() / layer

    def udp(self, datagram: bytes, **fields: Any) -> Packet:
        """Up to the datagram. Over IPv4 without a checksum, as the appliance's own are."""
        checksum = None if ":" in self.target else 0
        ports = UDP(sport=self.source_port, dport=self.target_port, chksum=checksum)
        return self.ip(**fields) / ports / Raw(datagram)

    def frame(self, datagram: bytes) -> bytes:
        if ":" in self.target:
            return bytes(self.udp(datagram))
        return _headers(self, len(datagram)) + datagram

    def arp(self, sender: str, wanted: str, *, reply: bool) -> bytes:
        """An ARP packet that puts `sender` at the source's MAC address."""
        ends: dict[str, Any] = {"hwsrc": self.source_mac, "psrc": sender, "pdst": wanted}
        target = self.target_mac if reply else "00:00:00:00:00:00"
        return bytes(self.ethernet() / ARP(op=2 if reply else 1, hwdst=target, **ends))

    def icmp(self, data: bytes = b"", **fields: Any) -> bytes:
        return bytes(self.ip() / ICMP(**fields) / Raw(data))


@lru_cache(maxsize=1 << 16)
def _headers(way: Way, length: int) -> bytes:
    """In front of any datagram of this length: a flood builds them once."""
    return bytes(way.udp(bytes(length)))[:-length] if length else bytes(way.udp(b""))


def header(kind: str, job: int, rank: int, **fields: Any) -> bytes:
    """A header; by default of a job of four ranks."""
    return bytes(Pascaline(kind=kind, job=job, rank=rank, **({"fan_in": RANKS, "count": 0} | fields)))


def control(
    action: str,
    job: int,
    rank: int,
    *,
    number: int = 0,
    fan_in: int = RANKS,
    epoch: int = 0,
    psn: int = 0,
    **body: Any,
) -> bytes:
    """A request, or a forged Ack."""
    above = Pascaline(kind="control", job=job, rank=rank, psn=psn, fan_in=fan_in, epoch=epoch, count=0)
    usual = {"number": number, "session": 1, "payload_bytes": 1024, "window": 512}
    return bytes(above / PascalineControl(action=action, **(usual | body)))


def parse_control(datagram: bytes) -> Packet | None:
    """A control packet; none if it is something else."""
    if len(datagram) < HEADER + CONTROL_BODY:
        return None
    packet = Pascaline(datagram)
    return packet if packet.version == 3 and PascalineControl in packet else None


def update(job: int, rank: int, values: bytes, reward: float, generated_ns: int, **fields: Any) -> bytes:
    """An asynchronous update, or a frame of its form."""
    trailer = PascalineTrailer(elements=[TrailerUpdate(reward=reward, generated_ns=generated_ns)])
    usual: dict[str, Any] = {"kind": "update", "job": job, "rank": rank, "fan_in": RANKS}
    above = Pascaline(**(usual | fields))
    return bytes(above / Raw(values) / trailer)
