"""Packets to reject: one change each in a good one, and the reason under which the appliance counts it.

`VECTORS` is the protocol's own list of malformed test vectors, by their names. `MALFORMED` is what is sent:
the same, but for those that a port would count otherwise. `REFUSED` is well-formed and refused for its
contents.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from scapy.layers.inet import IPOption_NOP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.packet import Packet, Raw

from pascaline_layers import (
    Pascaline,
    PascalineControl,
    PascalineTrailer,
    TrailerQueue,
    TrailerSeal,
    TrailerUpdate,
)
from pascaline_loads import Load
from pascaline_streams import SOURCE_AT, Stream

# 1.0 and -2.5, as the good vector has it.
_ELEMENTS = bytes.fromhex("0000803f000020c0")
# A block of mxint8 with the scale 1.
_BLOCK = bytes.fromhex("7f40e001").ljust(33, b"\0")
_QUEUE, _UPDATE = TrailerQueue(clusters=1, capacity=8, waiting=3), TrailerUpdate(reward=1.0, generated_ns=1)
_SEAL = TrailerSeal(counter=0x0123456789ABCDEF, tag=bytes.fromhex("00112233445566778899aabbccddeeff"))
_CONTROL = PascalineControl(action="join", dtype=9, session=1)


Make = Callable[[Load, int], bytes]


@dataclass(frozen=True)
class Case:
    name: str
    reason: str
    make: Make


class _Parts:
    """The layers of a good gradient of rank 2, sent from the first rank's address, each to be changed."""

    def __init__(self, load: Load, job: int) -> None:
        self.ethernet, self.ip, self.udp = load.layers(job, 0)
        self.header: Packet = Pascaline(
            job=job, rank=2, psn=7, fan_in=load.ranks, epoch=load.epochs.get(job, 1)
        )
        self.rest: Packet | None = Raw(_ELEMENTS)
        self.appliance_ipv6 = load.appliance_ipv6 or "2001:db8::fe"

    def frame(self) -> bytes:
        packet = self.ethernet / self.ip / self.udp / self.header
        return bytes(packet / self.rest if self.rest else packet)


def _changed(change: Callable[[_Parts], None]) -> Make:
    def make(load: Load, job: int) -> bytes:
        parts = _Parts(load, job)
        change(parts)
        return parts.frame()

    return make


def _set(layer: Packet, fields: dict[str, object]) -> None:
    for name, value in fields.items():
        setattr(layer, name, value)


def _header(**fields: object) -> Make:
    return _changed(lambda parts: _set(parts.header, fields))


def _ip(**fields: object) -> Make:
    return _changed(lambda parts: _set(parts.ip, fields))


def _rest(rest: Packet | None, **fields: object) -> Make:
    def change(parts: _Parts) -> None:
        parts.rest = rest
        _set(parts.header, fields)

    return _changed(change)


def _byte(at: int, change: Callable[[int], int]) -> Make:
    """Another byte of the whole frame, whose checksum stays as it was."""

    def make(load: Load, job: int) -> bytes:
        frame = bytearray(_Parts(load, job).frame())
        frame[at] = change(frame[at])
        return bytes(frame)

    return make


def _flipped(at: int) -> Make:
    return _byte(at, lambda byte: byte ^ 1)


def _truncated(load: Load, job: int) -> bytes:
    parts = _Parts(load, job)
    parts.ip.len, parts.udp.len, parts.rest = 20 + 8 + 21, 8 + 21, None
    return parts.frame()[:-1]


def _three_tags(parts: _Parts) -> None:
    parts.ethernet = parts.ethernet / Dot1AD(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3)


def _mapped(parts: _Parts) -> None:
    parts.ip = IPv6(src=f"::ffff:{parts.ip.src}", dst=parts.appliance_ipv6, hlim=64)
    parts.udp.chksum = None


def _version_6(parts: _Parts) -> None:
    parts.ip.version = 6
    parts.ethernet.type = 0x0800


def _trailer(*elements: Packet, **fields: object) -> Make:
    return _rest(Raw(_ELEMENTS) / PascalineTrailer(elements=list(elements), **fields), flags="trailer")


VECTORS = (
    Case("bad-truncated", "truncated", _truncated),
    Case("bad-vlan-depth", "vlan_depth", _changed(_three_tags)),
    Case("bad-ip-header", "ip_header", _changed(_version_6)),
    Case("bad-ip-mapped", "ip_header", _changed(_mapped)),
    Case("bad-ip-options", "ip_options", _ip(options=[IPOption_NOP()] * 3)),
    Case("bad-ip-fragment", "ip_fragment", _ip(flags="MF")),
    Case("bad-ip-checksum", "ip_checksum", _flipped(33)),
    Case("bad-length", "length", _byte(39, lambda byte: byte - 1)),
    Case("bad-version", "version", _header(version=2)),
    Case("bad-kind", "kind", _header(kind=9)),
    Case("bad-flags", "flags", _header(flags=1 << 6)),
    Case("bad-dtype", "dtype", _header(dtype=9)),
    Case("block-min", "dtype", _rest(Raw(_BLOCK), dtype=7, op=1, rank=0, psn=3)),
    Case("u32-mean", "dtype", _header(dtype=8, op=3)),
    Case("bad-payload-length", "payload_length", _rest(Raw(_ELEMENTS[:-1]))),
    Case("bad-payload-empty", "payload_length", _rest(None)),
    Case("bad-payload-reminder", "payload_length", _rest(Raw(_ELEMENTS[:4]), kind=6)),
    Case("bad-trailer-length", "trailer", _trailer(_SEAL, length=37)),
    Case("bad-trailer-order", "trailer", _trailer(_QUEUE, _UPDATE)),
    Case("bad-control", "control", _rest(_CONTROL, kind=8, rank=0, psn=0, count=0)),
)

# A wrong destination address makes it another host's packet, whose checksum is not checked.
MALFORMED = tuple(
    replace(case, make=_flipped(SOURCE_AT)) if case.name == "bad-ip-checksum" else case for case in VECTORS
)

_NOBODY = "192.0.2.1"


# A value, or a function of load and job.
Change = object | Callable[[Load, int], object]


def _now(changes: dict[str, Change], load: Load, job: int) -> dict[str, Any]:
    return {name: value(load, job) if callable(value) else value for name, value in changes.items()}


def _refused(**changes: Change) -> Make:
    def make(load: Load, job: int) -> bytes:
        return load.frame(job, 0, load.gradient(job, 0, **_now(changes, load, job)), Raw(load.elements(1)))

    return make


def _elsewhere(**changes: Change) -> Make:
    def make(load: Load, job: int) -> bytes:
        other = replace(load, **_now(changes, load, job))
        return other.frame(job, 0, other.gradient(job, 0), Raw(other.elements(1)))

    return make


REFUSED = (
    Case("unknown-job", "unknown_job", _refused(job=0xFFFF)),
    Case("rank-out-of-range", "rank_out_of_range", _refused(rank=lambda load, _: load.ranks)),
    Case("wrong-epoch", "wrong_epoch", _refused(epoch=lambda load, job: load.epochs.get(job, 0) ^ 0x8000)),
    Case("rank-spoofed", "rank_spoofed", _refused(rank=1)),
    Case("bad-count", "bad_count", _refused(count=2)),
    Case("fan-in-mismatch", "fan_in_mismatch", _refused(fan_in=lambda load, _: load.ranks + 1)),
    Case("payload-too-long", "payload_length", _elsewhere(payload=lambda load, _: load.payload + 8)),
    Case("no-service", "no_service", _elsewhere(udp_port=lambda load, _: load.udp_port ^ 1)),
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
