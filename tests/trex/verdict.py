"""The verdict of the protocol's section 12 on a frame for the appliance: the reason to refuse it, or none.

Written from the text alone, over plain bytes: neither the appliance's parser nor the Scapy layers have a part
in it, so that a mistake in one of them shows. Frames for others, ARP and ICMP are not judged.
"""

from __future__ import annotations

import ipaddress
import struct
import unicodedata

from pascaline_layers import (
    ACTIONS,
    COLLECTIVES,
    CONGESTION,
    CONTROL_BODY,
    DTYPE_BYTES,
    HEADER,
    HEARINGS,
    OPS,
    STATUSES,
    TRAILER_FLAG,
)

_TAGS = (0x8100, 0x88A8)
_IPV4, _IPV6 = 0x0800, 0x86DD
_UDP = 17
_EXTENSIONS = (0, 43, 51, 60, 135, 140)
_FRAGMENT = 44
_MAPPED = ipaddress.ip_network("::ffff:0:0/96")
_GRADIENT, _ACK, _CONTROL = 1, 5, 8
_JOIN = 1  # the action
_EMPTY_KINDS = (6, 7)
_SIZES = {
    1: range(8, 129, 8), 2: (12,), 3: (7,), 5: (32,), 6: range(32, 225, 32), 7: range(1, 225), 8: (24,),
}  # fmt: skip
_MOST_ELEMENTS = len(_SIZES)


class _Refused(Exception):
    """Carries the reason."""


def verdict(frame: bytes) -> str | None:
    """The reason for which a frame to the appliance's address and UDP port is malformed."""
    try:
        _datagram(_packet(frame))
    except _Refused as refused:
        return str(refused)
    return None


def _need(data: bytes, length: int) -> None:
    if len(data) < length:
        raise _Refused("truncated")


def _check(holds: bool, reason: str) -> None:
    if not holds:
        raise _Refused(reason)


def _packet(frame: bytes) -> bytes:
    """The UDP datagram inside, its header included."""
    _need(frame, 14)
    at, tags = 12, 0
    while True:
        _need(frame, at + 2)
        ethertype = struct.unpack_from("!H", frame, at)[0]
        at += 2
        if ethertype not in _TAGS:
            break
        tags += 1
        _check(tags <= 2, "vlan_depth")
        at += 2
    packet = frame[at:]
    return _ipv4(packet) if ethertype == _IPV4 else _ipv6(packet)


def _ipv4(packet: bytes) -> bytes:
    _need(packet, 20)
    length = (packet[0] & 0xF) * 4
    _check(packet[0] >> 4 == 4 and length >= 20, "ip_header")
    total = struct.unpack_from("!H", packet, 2)[0]
    _check(length <= total <= len(packet), "length")
    _check(length == 20, "ip_options")
    _check(struct.unpack_from("!H", packet, 6)[0] & 0x3FFF == 0, "ip_fragment")
    _check(_sum(packet[:20]) == 0xFFFF, "ip_checksum")
    return packet[20:total]


def _ipv6(packet: bytes) -> bytes:
    _need(packet, 40)
    _check(packet[0] >> 4 == 6, "ip_header")
    length = struct.unpack_from("!H", packet, 4)[0]
    _check(40 + length <= len(packet), "length")
    for at in (8, 24):
        _check(ipaddress.IPv6Address(packet[at : at + 16]) not in _MAPPED, "ip_header")
    _check(packet[6] not in _EXTENSIONS, "ip_options")
    _check(packet[6] != _FRAGMENT, "ip_fragment")
    return packet[40 : 40 + length]


def _sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _datagram(datagram: bytes) -> None:
    _need(datagram, 8)
    _check(struct.unpack_from("!H", datagram, 4)[0] == len(datagram), "length")
    body = datagram[8:]
    _need(body, HEADER)
    version, kind, flags, element = body[:4]
    _check(version == 3, "version")
    _check(1 <= kind <= 8, "kind")
    _check(flags & 0xC0 == 0, "flags")
    _check(_is_element(element), "dtype")
    payload = body[HEADER:]
    if flags & TRAILER_FLAG:
        payload = payload[: len(payload) - _trailer(payload)]
    _payload(kind, payload, DTYPE_BYTES[element & 0xF])


def _is_element(code: int) -> bool:
    known = code & 0xF in DTYPE_BYTES and code >> 4 in OPS
    # Blocks are only added, and integers that wrap have no mean.
    return known and not (code & 0xF in (6, 7) and code >> 4 in (1, 2)) and code != 0x38


def _operations(value: bytes) -> bool:
    return all(
        (one[2] == 0 or _is_element(one[2])) and one[3] == 0 and one[8] >> 4 in COLLECTIVES
        for one in (value[:16], value[16:])
    )


def _ranks(value: bytes) -> bool:
    reports = (value[at : at + 32] for at in range(0, len(value), 32))
    return all(1 <= one[2] <= 8 and not one[3] and one[14:16] == bytes(2) for one in reports)


def _sentence(value: bytes) -> bool:
    """Whether it is text in UTF-8 without control characters."""
    try:
        return not any(unicodedata.category(character) == "Cc" for character in value.decode())
    except UnicodeDecodeError:
        return False


_VALUES = {5: _operations, 6: _ranks, 7: _sentence}


def _trailer(data: bytes) -> int:
    """The length of the trailer at the end."""
    _check(len(data) >= 2, "trailer")
    length = struct.unpack("!H", data[-2:])[0]
    _check(2 <= length <= len(data), "trailer")
    elements, last, count = data[len(data) - length : -2], 0, 0
    while elements:
        _check(len(elements) >= 2, "trailer")
        kind, size = elements[:2]
        count += 1
        good = size in _SIZES.get(kind, ())
        _check(last < kind and good and count <= _MOST_ELEMENTS and len(elements) >= 2 + size, "trailer")
        _check(kind not in _VALUES or _VALUES[kind](elements[2 : 2 + size]), "trailer")
        elements, last = elements[2 + size :], kind
    return length


def _payload(kind: int, payload: bytes, size: int) -> None:
    if kind == _CONTROL:
        _need(payload, CONTROL_BODY)
        _check(_control_is_legal(payload[:CONTROL_BODY]), "control")
        _check(_may_follow(payload[:CONTROL_BODY], payload[CONTROL_BODY:]), "control")
    elif kind in _EMPTY_KINDS:
        _check(not payload, "payload_length")
    else:
        least = 0 if kind == _ACK else size
        _check(len(payload) >= least and len(payload) % size == 0, "payload_length")


def _may_follow(body: bytes, rest: bytes) -> bool:
    """Zeros behind a Join, and behind the Ack to one; nothing behind others."""
    action, _, answers, _ = body[:4]
    return not rest or (_JOIN in (action, answers) and not any(rest))


def _is_group(code: bytes) -> bool:
    """Whether these eight bytes name a group, or none."""
    if code[:2] != bytes(2):
        return False
    version_4 = code[2:4] == bytes(2)
    return not any(code) or (code[4] >> 4 == 0xE if version_4 else code[2] == 0xFF)


def _control_is_legal(body: bytes) -> bool:
    action, status, answers, element = body[:4]
    if action not in ACTIONS or action == 0 or status not in STATUSES:
        return False
    if element and not _is_element(element):
        return False
    if body[56] >> 4 not in COLLECTIVES or body[30] not in HEARINGS or body[31] not in CONGESTION:
        return False
    if not _is_group(body[64:]):
        return False
    if ACTIONS[action] == "ack":
        return answers in ACTIONS and ACTIONS[answers] != "ack"
    # The other fields hold values that an action uses or does not: none of them makes a body malformed.
    return status == 0 and answers == 0
