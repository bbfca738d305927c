"""Packets to reject: one change each in a good one, and the reason under which the appliance counts it.

`VECTORS` is the protocol's own list of malformed test vectors, by their names. `MALFORMED` is what is sent:
the same, but for those that a port would count otherwise. `REFUSED` is well-formed and refused for what it
says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scapy.layers.inet import IP, UDP, IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from pascaline_layers import (
    Pascaline,
    PascalineControl,
    PascalineTrailer,
    TrailerAuth,
    TrailerQueue,
    TrailerUpdate,
)
from pascaline_loads import Load
from pascaline_streams import SOURCE_AT, Stream

# 1.0 and -2.5, as the good vector has it.
_ELEMENTS = bytes.fromhex("0000803f000020c0")
# A block of mxint8 with the scale 1.
_BLOCK = bytes.fromhex("7f40e001").ljust(33, b"\0")


@dataclass(frozen=True)
class Case:
    """A way to be refused."""

    name: str
    reason: str
    make: Callable[[Load, int], bytes]


class _Parts:
    """The layers of a good gradient of rank 2, sent from the first rank's address, each to be changed."""

    def __init__(self, load: Load, job: int) -> None:
        source, destination = (
            load.source_mac or "02:00:00:00:00:01",
            load.destination_mac or "02:00:00:00:00:fe",
        )
        self.ethernet: Packet = Ether(src=source, dst=destination)
        self.ip: Packet = IP(src=load.address(0), dst=load.appliance, id=0, flags="DF", ttl=64)
        self.udp: Packet = UDP(sport=load.source_port(job), dport=load.udp_port, chksum=0)
        self.header: Packet = Pascaline(
            job=job, rank=2, psn=7, fan_in=load.ranks, epoch=load.epochs.get(job, 1)
        )
        self.rest: Packet | None = Raw(_ELEMENTS)
        self.appliance_ipv6 = load.appliance_ipv6 or "2001:db8::fe"

    def frame(self) -> bytes:
        """All of it."""
        packet = self.ethernet / self.ip / self.udp / self.header
        return bytes(packet / self.rest if self.rest else packet)


def _changed(change: Callable[[_Parts], None]) -> Callable[[Load, int], bytes]:
    def make(load: Load, job: int) -> bytes:
        parts = _Parts(load, job)
        change(parts)
        return parts.frame()

    return make


def _header(**fields: object) -> Callable[[Load, int], bytes]:
    def change(parts: _Parts) -> None:
        for name, value in fields.items():
            setattr(parts.header, name, value)

    return _changed(change)


def _rest(rest: Packet | None, **fields: object) -> Callable[[Load, int], bytes]:
    def change(parts: _Parts) -> None:
        parts.rest = rest
        for name, value in fields.items():
            setattr(parts.header, name, value)

    return _changed(change)


def _truncated(load: Load, job: int) -> bytes:
    parts = _Parts(load, job)
    parts.ip.len, parts.udp.len, parts.rest = 20 + 8 + 21, 8 + 21, None
    return parts.frame()[:-1]


def _three_tags(parts: _Parts) -> None:
    parts.ethernet = parts.ethernet / Dot1AD(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3)


def _mapped(parts: _Parts) -> None:
    parts.ip = IPv6(src=f"::ffff:{parts.ip.src}", dst=parts.appliance_ipv6, hlim=64)
    parts.udp.chksum = None


def _ip(**fields: object) -> Callable[[_Parts], None]:
    def change(parts: _Parts) -> None:
        for name, value in fields.items():
            setattr(parts.ip, name, value)

    return change


def _version_6(load: Load, job: int) -> bytes:
    parts = _Parts(load, job)
    parts.ip.version = 6
    parts.ethernet.type = 0x0800
    return parts.frame()


def _flipped_address(load: Load, job: int) -> bytes:
    frame = bytearray(_Parts(load, job).frame())
    frame[33] ^= 1
    return bytes(frame)


def _flipped_source(load: Load, job: int) -> bytes:
    frame = bytearray(_Parts(load, job).frame())
    frame[SOURCE_AT] ^= 1
    return bytes(frame)


def _short_udp(load: Load, job: int) -> bytes:
    frame = bytearray(_Parts(load, job).frame())
    frame[39] -= 1
    return bytes(frame)


def _wrong_order() -> Packet:
    queue, update = TrailerQueue(clusters=1, capacity=8, waiting=3), TrailerUpdate(reward=1.0, generated_ns=1)
    return Raw(_ELEMENTS) / PascalineTrailer(elements=[queue, update])


def _control(parts: _Parts) -> None:
    parts.header.kind, parts.header.rank, parts.header.psn, parts.header.count = 8, 0, 0, 0
    parts.rest = PascalineControl(action="join", dtype=8, session=1)


VECTORS = (
    Case("bad-truncated", "truncated", _truncated),
    Case("bad-vlan-depth", "vlan_depth", _changed(_three_tags)),
    Case("bad-ip-header", "ip_header", _version_6),
    Case("bad-ip-mapped", "ip_header", _changed(_mapped)),
    Case("bad-ip-options", "ip_options", _changed(_ip(options=[IPOption_NOP()] * 3))),
    Case("bad-ip-fragment", "ip_fragment", _changed(_ip(flags="MF"))),
    Case("bad-ip-checksum", "ip_checksum", _flipped_address),
    Case("bad-length", "length", _short_udp),
    Case("bad-version", "version", _header(version=1)),
    Case("bad-kind", "kind", _header(kind=9)),
    Case("bad-flags", "flags", _header(flags=1 << 6)),
    Case("bad-dtype", "dtype", _header(dtype=8)),
    Case("block-min", "dtype", _rest(Raw(_BLOCK), dtype=7, op=1, rank=0, psn=3)),
    Case("bad-payload-length", "payload_length", _rest(Raw(_ELEMENTS[:-1]))),
    Case("bad-payload-empty", "payload_length", _rest(None)),
    Case("bad-payload-reminder", "payload_length", _rest(Raw(_ELEMENTS[:4]), kind=6)),
    Case(
        "bad-trailer-length",
        "trailer",
        _rest(
            Raw(_ELEMENTS) / PascalineTrailer(elements=[TrailerAuth(tag=bytes(7) + b"\1")], length=21),
            flags="trailer",
        ),
    ),
    Case("bad-trailer-order", "trailer", _rest(_wrong_order(), flags="trailer")),
    Case("bad-control", "control", _changed(_control)),
)

# A wrong destination address makes it another host's packet, whose checksum is not checked.
MALFORMED = tuple(
    replace(case, make=_flipped_source) if case.name == "bad-ip-checksum" else case for case in VECTORS
)

_NOBODY = "192.0.2.1"


def _refused(**changes: object) -> Callable[[Load, int], bytes]:
    def make(load: Load, job: int) -> bytes:
        fields = {name: value(load, job) if callable(value) else value for name, value in changes.items()}
        header = load.gradient(job, 0, **fields)
        return load.frame(job, 0, header, Raw(load.elements(1)))

    return make


def _too_long(load: Load, job: int) -> bytes:
    longer = replace(load, payload=load.payload + 8)
    return longer.frame(job, 0, longer.gradient(job, 0), Raw(longer.elements(1)))


def _elsewhere(**changes: Any) -> Callable[[Load, int], bytes]:
    def make(load: Load, job: int) -> bytes:
        other = replace(
            load, **{name: value(load) if callable(value) else value for name, value in changes.items()}
        )
        return other.frame(job, 0, other.gradient(job, 0), Raw(other.elements(1)))

    return make


REFUSED = (
    Case("unknown-job", "unknown_job", _refused(job=0xFFFF)),
    Case("rank-out-of-range", "rank_out_of_range", _refused(rank=lambda load, _: load.ranks)),
    Case("wrong-epoch", "wrong_epoch", _refused(epoch=lambda load, job: load.epochs.get(job, 0) ^ 0x80)),
    Case("rank-spoofed", "rank_spoofed", _refused(rank=1)),
    Case("bad-count", "bad_count", _refused(count=2)),
    Case("fan-in-mismatch", "fan_in_mismatch", _refused(fan_in=lambda load, _: load.ranks + 1)),
    Case("payload-too-long", "payload_length", _too_long),
    Case("no-service", "no_service", _elsewhere(udp_port=lambda load: load.udp_port ^ 1)),
    Case("not-for-us", "not_for_us", _elsewhere(appliance=_NOBODY)),
)

# The reasons whose counter has another name than the protocol's term.
_COUNTERS = {"ip_checksum": "checksum"}


def counter(reason: str) -> str:
    """The label of `pascaline_dropped_packets_total` under which a reason is counted."""
    return _COUNTERS.get(reason, reason)


def streams(load: Load, cases: tuple[Case, ...], job: int) -> list[Stream]:
    """One stream for each case. Without an IPv6 address of the appliance's, what needs one is left out."""
    wanted = (case for case in cases if load.appliance_ipv6 or case.name != "bad-ip-mapped")
    return [load.stream(case.name, case.make(load, job)) for case in wanted]
