"""Bytes without a meaning, and good packets with something wrong in them."""

from __future__ import annotations

from dataclasses import replace

import bed as beds
import frames as f
from frames import Body, Header, Way
from scene import Case, Scene

_KINDS = 2000
# What is malformed, by layer; then what is well-formed by chance and refused all the same.
LAYERS = (
    "truncated",
    "vlan_depth",
    "ip_header",
    "ip_options",
    "ip_fragment",
    "checksum",
    "length",
    "no_service",
)
HEADER = ("version", "kind", "flags", "dtype", "payload_length", "trailer", "control", "unhandled_kind")
REFUSED = ("unknown_job", "not_member", "rank_spoofed", "wrong_epoch", "rank_out_of_range", "fan_in_mismatch")
WINDOW = ("outside_window", "too_often")
TOLD = ("bad_count", "length_changed", "element_changed", "answered", "control_full", "not_for_us")
ANY = LAYERS + HEADER + REFUSED + WINDOW + TOLD


def gradient(scene: Scene, rank: int = 1, **fields: int) -> bytes:
    """A contribution as the rank would send it in the present generation, unless told otherwise."""
    # No longer than what ranks agree on, whatever their way takes.
    length = fields.pop("length", 512)
    header = Header(job=scene.job, rank=rank, count=1, epoch=scene.now, psn=scene.random.getrandbits(32))
    return replace(header, **fields).bytes() + bytes(length)


def _good(scene: Scene) -> list[bytes]:
    """One datagram of each kind that a worker sends."""
    join = Body(session=scene.random.getrandbits(64), got=f.NO_GENERATION)
    reminder = Header(f.REMINDER, scene.job, 1, scene.random.getrandbits(32), epoch=scene.now)
    update = gradient(scene, kind=f.UPDATE, flags=f.TRAILER, length=64) + f.update_trailer(1.0, 1)
    return [gradient(scene), reminder.bytes(), f.control(Header(job=scene.job, rank=1), join), update]


def _quiet(scene: Scene) -> list[bytes]:
    return [scene.way().to_closed_port().frame(bytes(64))]


def _random_bytes(scene: Scene) -> list[bytes]:
    lengths = [scene.random.randrange(1, 1400) for _ in range(_KINDS)]
    return [scene.way().frame(scene.random.randbytes(length)) for length in lengths]


def _random_headers(scene: Scene) -> list[bytes]:
    def one() -> bytes:
        header = bytes([f.VERSION, scene.random.randrange(1, 9), 1 << scene.random.randrange(6)])
        return header + scene.random.randbytes(scene.random.randrange(19, 1200))

    return [scene.way().frame(one()) for _ in range(_KINDS)]


def _truncations(scene: Scene) -> list[bytes]:
    """Every length of each kind; the lengths of IP and UDP are right."""
    return [scene.way().frame(good[:length]) for good in _good(scene) for length in range(len(good))]


def _cut_frames(scene: Scene) -> list[bytes]:
    """Frames that end before the length that their headers tell."""
    return [
        frame[:cut] for good in _good(scene) for frame in [scene.way().frame(good)] for cut in range(15, 200)
    ]


def _flip(scene: Scene, way: Way) -> list[bytes]:
    """One bit of the datagram, or of its headers behind Ethernet."""
    found = []
    for _ in range(_KINDS // 4):
        for good in _good(scene):
            frame = bytearray(way.frame(good))
            bit = scene.random.randrange(14 * 8, min(len(frame), 150) * 8)
            frame[bit // 8] ^= 1 << bit % 8
            found.append(bytes(frame))
    return found


def _flips(scene: Scene) -> list[bytes]:
    return _flip(scene, scene.way())


def _members_flips(scene: Scene) -> list[bytes]:
    return _flip(scene, scene.as_rank(1))


def _fragments(scene: Scene) -> list[bytes]:
    """First ones, last ones and ones in between that never make a whole, and some that overlap."""
    data = f.udp(scene.way(), gradient(scene))
    ways = [replace(scene.way(), identification=scene.random.getrandbits(16)) for _ in range(200)]
    return [
        way.ip4(f.UDP, data[8 * offset : 8 * offset + 64], fragment=0x2000 | offset)
        for way in ways
        for offset in (0, 4, 8, 16, 100)
    ]


def _bad_layers(scene: Scene) -> list[bytes]:
    way, data = scene.way(), f.udp(scene.way(), gradient(scene))
    good = way.ip4(f.UDP, data)
    sums, version, length = bytearray(good), bytearray(good), bytearray(good)
    sums[24] ^= 0x10
    version[14] = 0x65
    length[39] ^= 0x08
    options = way.ip4(f.UDP, data, options=b"\1" * 8)
    return [bytes(sums), bytes(version), bytes(length), options]


def _tags(count: int) -> Case:
    def make(scene: Scene) -> list[bytes]:
        # A priority tag has number 0.
        numbers = [(0x8100, 0), (0x8100, 100)] if count == 1 else [(0x88A8, 200)]
        ways = [
            replace(scene.way(), tags=(first, *((0x8100, 100), (0x8100, 7))[: count - 1]))
            for first in numbers
        ]
        return [way.frame(gradient(scene)) for way in ways for _ in range(32)]

    named = ("vlan_depth",) if count > 2 else (*REFUSED, *WINDOW)
    words = ("one VLAN tag", "a service tag around a tag", "three VLAN tags")
    return Case(f"vlan-{count}", f"gradients behind {words[count - 1]}", make, named)


def _ipv6(scene: Scene) -> list[bytes]:
    """Extension headers, a fragment, a mapped source, a wrong length; and a good packet of a stranger."""
    way = replace(scene.way(), source="2001:db8::66", target=beds.APPLIANCE_IPV6)
    data = f.udp(way, gradient(scene))
    extended = [way.ip6(header, bytes([f.UDP, 0]) + bytes(6) + data) for header in (0, 43, 51, 60, 135)]
    fragment = way.ip6(44, bytes([f.UDP, 0, 0, 1]) + bytes(4) + data)
    mapped = replace(way, source="::ffff:10.77.0.66").frame(gradient(scene))
    wrong = bytearray(way.frame(gradient(scene)))
    wrong[58] ^= 0x40
    return [*extended, fragment, mapped, bytes(wrong), way.frame(gradient(scene))]


def _ports(scene: Scene) -> list[bytes]:
    way = scene.way()
    return [replace(way, target_port=port).frame(gradient(scene)) for port in range(1, 65536, 61)]


CASES = [
    Case("control", "the control against itself: the noise of the times", _quiet, ("no_service",)),
    Case("random-bytes", "datagrams of random bytes and lengths", _random_bytes, ANY),
    Case("random-behind-header", "random bytes behind the right version and a kind", _random_headers, ANY),
    Case("truncations", "each kind of packet, cut at every length", _truncations, ANY),
    Case("cut-frames", "frames shorter than their headers say", _cut_frames, LAYERS),
    Case("flipped-bits", "one bit flipped, from a stranger's address", _flips, ANY),
    Case("flipped-bits-of-a-member", "one bit flipped, from a rank's address and port", _members_flips, ANY),
    Case("bad-layers", "wrong checksums, versions, lengths; IPv4 options", _bad_layers, LAYERS),
    # The kernel puts them together for net_af_packet before the appliance sees them: nothing to count there.
    Case("fragments", "IPv4 fragments that never make a whole, and overlap", _fragments),
    _tags(1),
    _tags(2),
    _tags(3),
    Case("ipv6", "extension headers, fragments, mapped addresses, wrong sums", _ipv6, (*LAYERS, *REFUSED)),
    Case("other-ports", "a scan of UDP ports", _ports, ("no_service",)),
]
