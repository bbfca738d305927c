"""Frames that an attacker makes: any source, any address, any field. Written from docs/protocol.md alone."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, replace

VERSION = 2
PORT = 16420
# Nobody listens there: what comes is refused at the parse.
CLOSED_PORT = 16999
BROADCAST = "ff:ff:ff:ff:ff:ff"

GRADIENT, RESULT, PARTIAL, UPDATE, ACK, REMINDER, FETCH, CONTROL = 1, 2, 3, 4, 5, 6, 7, 8
JOIN, LEAVE, RESET, SET_H, HALT, CONTROL_ACK, SERVE, QUERY = 1, 2, 3, 4, 7, 8, 9, 10
TRAILER, BYPASS, RETRANSMISSION = 1 << 5, 1 << 3, 1 << 2
F32_SUM = 0x01
NO_GENERATION = 0x20000
IPV4, IPV6, ARP = 0x0800, 0x86DD, 0x0806
UDP, ICMP, ICMP6 = 17, 1, 58
_HEADER = struct.Struct("!BBBBHHIHHHHBB")
_BODY = struct.Struct("!BBBBQHHIIQIIQ")


@dataclass(frozen=True)
class Header:
    """Section 4."""

    kind: int = GRADIENT
    job: int = 1
    rank: int = 0
    psn: int = 0
    fan_in: int = 4
    count: int = 0
    epoch: int = 0
    flags: int = 0
    element: int = F32_SUM
    priority: int = 0
    wnd_cap: int = 0
    tree: int = 0
    version: int = VERSION

    def bytes(self) -> bytes:
        """As it is sent."""
        first = (self.version, self.kind, self.flags, self.element, self.job, self.rank, self.psn)
        last = (self.fan_in, self.count, self.priority, self.wnd_cap, self.tree, self.epoch)
        return _HEADER.pack(*first, *last)


@dataclass(frozen=True)
class Body:
    """Section 9."""

    action: int = JOIN
    status: int = 0
    answers: int = 0
    element: int = 0
    session: int = 1
    payload: int = 1024
    window: int = 512
    expected: int = 0
    got: int = 0
    cookie: int = 0
    psn: int = 0
    first: int = 0
    length: int = 0

    def bytes(self) -> bytes:
        """As it is sent."""
        first = (self.action, self.status, self.answers, self.element, self.session)
        second = (self.payload, self.window, self.expected, self.got, self.cookie)
        return _BODY.pack(*first, *second, self.psn, self.first, self.length)


@dataclass(frozen=True)
class Answer:
    """What can be read off an Ack to a control packet."""

    header: Header
    body: Body


def control(header: Header, body: Body) -> bytes:
    """A request, or a forged Ack."""
    return replace(header, kind=CONTROL).bytes() + body.bytes()


def parse_control(datagram: bytes) -> Answer | None:
    """A control packet's header and body; none if it is something else."""
    if len(datagram) < _HEADER.size + _BODY.size or datagram[0] != VERSION or datagram[1] != CONTROL:
        return None
    version, kind, flags, element, job, rank, psn, fan_in, count, priority, wnd_cap, tree, epoch = (
        _HEADER.unpack_from(datagram)
    )
    head = (kind, job, rank, psn, fan_in, count, epoch, flags, element, priority, wnd_cap, tree, version)
    return Answer(Header(*head), Body(*_BODY.unpack_from(datagram, _HEADER.size)))


@dataclass(frozen=True)
class Way:
    """Layers 2 to 4 of a frame: who it says that it is from, and whom it is for."""

    source_mac: str
    target_mac: str
    source: str
    target: str
    source_port: int = 49152
    target_port: int = PORT
    tags: tuple[tuple[int, int], ...] = ()
    ttl: int = 64
    identification: int = 0

    def to_closed_port(self) -> Way:
        """The control: the same way to a port where nobody listens."""
        return replace(self, target_port=CLOSED_PORT)

    def ethernet(self, ethertype: int, packet: bytes) -> bytes:
        """With the tags, if any; each is (announced by, number)."""
        tags = b"".join(struct.pack("!HH", by, number) for by, number in self.tags)
        return mac(self.target_mac) + mac(self.source_mac) + tags + struct.pack("!H", ethertype) + packet

    def frame(self, datagram: bytes) -> bytes:
        """A UDP datagram in a whole frame."""
        data = udp(self, datagram)
        return self.ip6(UDP, data) if ":" in self.target else self.ip4(UDP, data)

    def ip4(self, protocol: int, data: bytes, *, options: bytes = b"", fragment: int = 0x4000) -> bytes:
        """An IPv4 packet. `fragment` has the flags and the offset: don't fragment, unless told otherwise."""
        first = 0x40 | (20 + len(options)) // 4
        total = 20 + len(options) + len(data)
        header = struct.pack(
            "!BBHHHBBH", first, 0, total, self.identification, fragment, self.ttl, protocol, 0
        )
        header += ipaddress.IPv4Address(self.source).packed + ipaddress.IPv4Address(self.target).packed
        header += options
        return self.ethernet(IPV4, header[:10] + struct.pack("!H", checksum(header)) + header[12:] + data)

    def ip6(self, following: int, data: bytes, limit: int = 64) -> bytes:
        """An IPv6 packet."""
        source, target = address6(self.source), address6(self.target)
        header = struct.pack("!IHBB", 6 << 28, len(data), following, limit)
        return self.ethernet(IPV6, header + source + target + data)

    def sum6(self, protocol: int, data: bytes) -> int:
        """The checksum over IPv6's pseudo-header and the data."""
        source, target = address6(self.source), address6(self.target)
        return checksum(source + target + struct.pack("!II", len(data), protocol) + data)

    def echo(self, length: int, number: int) -> bytes:
        """An ICMP echo request."""
        data = struct.pack("!BBHHH", 8, 0, 0, 0x7070, number) + bytes(length)
        return self.ip4(ICMP, data[:2] + struct.pack("!H", checksum(data)) + data[4:])

    def icmp(self, kind: int, code: int, extra: int, about: bytes) -> bytes:
        """An ICMP error about a packet, of which it has the beginning."""
        data = struct.pack("!BBHI", kind, code, 0, extra) + about
        return self.ip4(ICMP, data[:2] + struct.pack("!H", checksum(data)) + data[4:])

    def icmp6(self, kind: int, flags: int, rest: bytes) -> bytes:
        """A packet of neighbour discovery."""
        data = struct.pack("!BBHI", kind, 0, 0, flags) + rest
        data = data[:2] + struct.pack("!H", self.sum6(ICMP6, data)) + data[4:]
        return self.ip6(ICMP6, data, limit=255)

    def arp(self, sender: str, wanted: str, *, reply: bool) -> bytes:
        """An ARP packet in which `sender` claims to be at the source's MAC address."""
        fixed = struct.pack("!HHBBH", 1, IPV4, 6, 4, 2 if reply else 1)
        who = mac(self.source_mac) + ipaddress.IPv4Address(sender).packed
        whom = mac(self.target_mac if reply else "00:00:00:00:00:00") + ipaddress.IPv4Address(wanted).packed
        return self.ethernet(ARP, fixed + who + whom)


def udp(way: Way, datagram: bytes) -> bytes:
    """A UDP datagram with its header, and over IPv6 with its checksum."""
    data = struct.pack("!HHHH", way.source_port, way.target_port, 8 + len(datagram), 0) + datagram
    if ":" not in way.target:
        return data
    return data[:6] + struct.pack("!H", way.sum6(UDP, data) or 0xFFFF) + data[8:]


def update_trailer(reward: float, generated_ns: int) -> bytes:
    """Sections 8 and 15."""
    return struct.pack("!BBfQH", 2, 12, reward, generated_ns, 16)


def address6(text: str) -> bytes:
    """An IPv6 address as bytes."""
    return ipaddress.IPv6Address(text).packed


def mac(text: str) -> bytes:
    """A MAC address as bytes."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(data: bytes) -> int:
    """The Internet checksum."""
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
