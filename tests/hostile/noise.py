"""Random bytes, and good packets with one error each."""

from __future__ import annotations

from dataclasses import replace

from scapy.layers.inet import IPOption_NOP
from scapy.layers.l2 import Dot1AD, Dot1Q
from scapy.packet import Raw

from . import bed as beds
from . import frames as f
from .reasons import ANY, LAYERS, REFUSED, UNSEALED, WINDOW
from .scene import Case, Scene

_KINDS = 2000
_UDP = 17


def _good(scene: Scene) -> list[bytes]:
    """One datagram of each kind that a worker sends."""
    psn, session = scene.random.getrandbits(32), scene.random.getrandbits(64)
    return [
        scene.gradient(),
        f.header("reminder", scene.job, 1, psn=psn, epoch=scene.now),
        f.control("join", scene.job, 1, session=session, got=f.NO_GENERATION),
        f.update(scene.job, 1, bytes(64), 1.0, 1, psn=psn, epoch=scene.now),
    ]


def _quiet(scene: Scene) -> list[bytes]:
    return [scene.way().to_closed_port().frame(bytes(64))]


def _random_bytes(scene: Scene) -> list[bytes]:
    lengths = [scene.random.randrange(1, 1400) for _ in range(_KINDS)]
    return [scene.way().frame(scene.random.randbytes(length)) for length in lengths]


def _random_headers(scene: Scene) -> list[bytes]:
    def one() -> bytes:
        begins = bytes([2, scene.random.randrange(1, 9), 1 << scene.random.randrange(6)])
        return begins + scene.random.randbytes(scene.random.randrange(19, 1200))

    return [scene.way().frame(one()) for _ in range(_KINDS)]


def _truncations(scene: Scene) -> list[bytes]:
    """Every length of each kind; the lengths of IP and UDP are right."""
    return [scene.way().frame(good[:length]) for good in _good(scene) for length in range(len(good))]


def _cut_frames(scene: Scene) -> list[bytes]:
    """Frames that end before the length that their headers give."""
    frames = [scene.way().frame(good) for good in _good(scene)]
    return [frame[:cut] for frame in frames for cut in range(15, 200)]


def _flips(scene: Scene, way: f.Way) -> list[bytes]:
    """One bit of the datagram, or of its headers behind Ethernet."""
    found = []
    for _ in range(_KINDS // 4):
        for good in _good(scene):
            frame = bytearray(way.frame(good))
            bit = scene.random.randrange(14 * 8, min(len(frame), 150) * 8)
            frame[bit // 8] ^= 1 << bit % 8
            found.append(bytes(frame))
    return found


def _fragments(scene: Scene) -> list[bytes]:
    """First, last and middle ones that never make a whole, and some that overlap."""
    way, data = scene.way(), bytes(scene.way().udp(scene.gradient()))[34:]
    return [
        bytes(way.ip(id=number, flags="MF", frag=offset, proto=_UDP) / Raw(data[8 * offset :][:64]))
        for number in (scene.random.getrandbits(16) for _ in range(200))
        for offset in (0, 4, 8, 16, 100)
    ]


def _bad_layers(scene: Scene) -> list[bytes]:
    way, datagram = scene.way(), scene.gradient()
    good = way.frame(datagram)
    # A bit of the checksum, of the version, of UDP's length.
    changes = ((24, 0x10), (14, 0x45 ^ 0x65), (39, 0x08))
    wrong = [good[:at] + bytes([good[at] ^ bits]) + good[at + 1 :] for at, bits in changes]
    return [*wrong, bytes(way.udp(datagram, options=[IPOption_NOP()] * 8))]


def _tags(count: int) -> Case:
    def make(scene: Scene) -> list[bytes]:
        # A priority tag has number 0.
        outer = [(Dot1Q, 0), (Dot1Q, 100)] if count == 1 else [(Dot1AD, 200)]
        inner = ((Dot1Q, 100), (Dot1Q, 7))[: count - 1]
        ways = [replace(scene.way(), tags=(first, *inner)) for first in outer]
        return [way.frame(scene.gradient()) for way in ways for _ in range(32)]

    named = ("vlan_depth",) if count > 2 else (*REFUSED, *WINDOW)
    words = ("one VLAN tag", "a service tag around a tag", "three VLAN tags")
    sealed = named if count > 2 else UNSEALED
    return Case(f"vlan-{count}", f"gradients behind {words[count - 1]}", make, named, sealed=sealed)


def _ipv6(scene: Scene) -> list[bytes]:
    """Extension headers, a fragment, a mapped source, a wrong length; and a good packet of a stranger."""
    way = replace(scene.way(), source="2001:db8::66", target=beds.APPLIANCE_IPV6)
    good = way.frame(scene.gradient())
    data = good[54:]
    extended = [
        bytes(way.ip(nh=kind) / Raw(bytes([_UDP, 0]) + bytes(6) + data)) for kind in (0, 43, 51, 60, 135)
    ]
    fragment = bytes(way.ip(nh=44) / Raw(bytes([_UDP, 0, 0, 1]) + bytes(4) + data))
    mapped = replace(way, source="::ffff:10.77.0.66").frame(scene.gradient())
    wrong = good[:58] + bytes([good[58] ^ 0x40]) + good[59:]
    return [*extended, fragment, mapped, wrong, good]


def _ports(scene: Scene) -> list[bytes]:
    way = scene.way()
    return [replace(way, target_port=port).frame(scene.gradient()) for port in range(1, 65536, 61)]


# What ends before the session that it names is of no member; what ends before its job, of no job.
_CUT = ("truncated", "not_member", *UNSEALED)
# Of headers, or of anything else.
_FLIPPED = (*LAYERS, *UNSEALED)

CASES = [
    Case("control", "the control against itself: the noise of the times", _quiet, ("no_service",)),
    Case("random-bytes", "datagrams of random bytes and lengths", _random_bytes, ANY),
    Case("random-behind-header", "random bytes behind the right version and a kind", _random_headers, ANY),
    Case("truncations", "each kind of packet, cut at every length", _truncations, ANY, sealed=_CUT),
    Case("cut-frames", "frames shorter than their headers say", _cut_frames, LAYERS),
    Case(
        "flipped-bits",
        "one bit flipped, from a stranger's address",
        lambda scene: _flips(scene, scene.way()),
        ANY,
        sealed=_FLIPPED,
    ),
    Case(
        "flipped-bits-of-a-member",
        "one bit flipped, from a rank's address and port",
        lambda scene: _flips(scene, scene.as_rank(1)),
        ANY,
        sealed=_FLIPPED,
    ),
    Case("bad-layers", "wrong checksums, versions, lengths; IPv4 options", _bad_layers, LAYERS),
    # The kernel reassembles them for net_af_packet before the appliance sees them: nothing to count there.
    Case("fragments", "IPv4 fragments that never make a whole, and overlap", _fragments),
    _tags(1),
    _tags(2),
    _tags(3),
    Case(
        "ipv6",
        "extension headers, fragments, mapped addresses, wrong sums",
        _ipv6,
        (*LAYERS, *REFUSED),
        sealed=(*LAYERS, *UNSEALED),
    ),
    Case("other-ports", "a scan of UDP ports", _ports, ("no_service",)),
]
