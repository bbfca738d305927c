"""The Pascaline protocol, version 3, as Scapy layers; docs/protocol.md is the normative text.

    Ether()/IP()/UDP()/Pascaline(kind="gradient", job=1, rank=2, psn=7,
    fan_in=4)/Raw(elements)/PascalineTrailer(...)

Fields left out get the protocol's values for a gradient of version 3; `flags` gets TRAILER by itself where a
trailer follows. Given values are sent unchanged, right or wrong: that is how malformed packets are made.

Needs nothing of Scapy that version 2.4, which TRex brings along, does not have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    ConditionalField,
    Field,
    FlagsField,
    IEEEFloatField,
    IntField,
    IP6Field,
    LongField,
    PacketListField,
    ShortEnumField,
    ShortField,
    StrFixedLenField,
    StrLenField,
    ThreeBytesField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, Raw, bind_layers

PORT = 16420
HEADER = 22
CONTROL_BODY = 72
RETRANSMISSION_FLAG = 1 << 2
BYPASS_FLAG = 1 << 3
TRAILER_FLAG = 1 << 5


def _numbered(words: str, first: int = 0) -> dict[int, str]:
    return dict(enumerate(words.split(), first))


KINDS = _numbered("gradient result partial update ack reminder fetch control", 1)
FLAGS = ["ecn_echo", "fin", "retransmission", "bypass", "overflow", "trailer", "reserved6", "reserved7"]
DTYPES = _numbered("f32 i32 f16 bf16 f64 mxfp8 mxint8 u32", 1)
DTYPE_BYTES = {1: 4, 2: 4, 3: 2, 4: 2, 5: 8, 6: 33, 7: 33, 8: 4}
OPS = _numbered("sum min max mean")
ACTIONS = _numbered("none join leave reset set_h f_bcast help halt ack serve query")
STATUSES = _numbered(
    """
    ok pending unknown_job rank_out_of_range fan_in_mismatch source_refused stale_session wrong_epoch
    not_member payload_mismatch element_mismatch unsupported rank_spoofed rank_lost quota halted unknown_psn
    too_many operation_mismatch rank_left rank_taken not_permitted jobs_of_host objective no_server not_finite
    from_the_future bad_count low_reward diverges no_update no_model ranks_of_host overtaken unproven
    """
)
TRAILER_TYPES = {
    **_numbered("bitmap update queue", 1),
    **_numbered("operations ranks sentence seal", 5),
}
HEARINGS = _numbered("deaf listens hears")
CONGESTION = _numbered("none fixed panama dsa delay")
COLLECTIVES = _numbered("allreduce reduce broadcast barrier reduce_scatter allgather")
RANK_STATES = _numbered("never_joined left lost silent behind here blocked overtaken", 1)
# Where there may be no operation, and so no element.
DTYPES_OR_NONE = {0: "none", **DTYPES}

# Scapy's packets have methods called `answers` and `payload`, and so have some fields names of their own:
# what the protocol calls them.
PROTOCOL_NAMES = {"answered": "answers", "payload_bytes": "payload", "bytes_whole": "bytes"}


def _operation() -> list[Field[Any, Any]]:
    """Which collective a rank calls, with the root or a digest of the parts, and on how many bytes."""
    return [
        BitEnumField("call", 0, 4, COLLECTIVES),
        BitField("argument", 0, 12),
        BitField("bytes_whole", 0, 48),
    ]


class PascalineControl(Packet):
    """The 72 bytes behind the header of a control packet (protocol, section 9)."""

    name = "PascalineControl"
    fields_desc = [
        ByteEnumField("action", 1, ACTIONS),
        ByteEnumField("status", 0, STATUSES),
        ByteEnumField("answered", 0, ACTIONS),
        BitEnumField("op", 0, 4, OPS),
        BitEnumField("dtype", 0, 4, DTYPES_OR_NONE),
        IntField("number", 0),
        LongField("session", 0),
        LongField("cookie", 0),
        ShortField("payload_bytes", 0),
        ShortField("window", 0),
        ShortField("joined", 0),
        ByteEnumField("hearing", 0, HEARINGS),
        ByteEnumField("congestion", 0, CONGESTION),
        IntField("expected", 0),
        IntField("got", 0),
        IntField("before", 0),
        IntField("psn", 0),
        IntField("first", 0),
        IntField("workers", 0),
        *_operation(),
        LongField("group", 0),
    ]


def _begin(number: int) -> list[Field[Any, Any]]:
    return [ByteEnumField("type", number, TRAILER_TYPES), ByteField("length", None)]


def _length(element: Packet) -> int:
    return int(element.length)


class TrailerElement(Packet):
    """One type-length-value element; an unknown type keeps its value as bytes."""

    name = "TrailerElement"
    # How long a value may be.
    lengths = range(256)
    fields_desc = [*_begin(0), StrLenField("value", b"", length_from=_length)]

    def post_build(self, built: bytes, payload: bytes) -> bytes:
        """Fills in the length of the value."""
        if self.length is None:
            built = built[:1] + struct.pack("!B", len(built) - 2) + built[2:]
        return built + payload

    def extract_padding(self, data: bytes) -> tuple[bytes, bytes]:
        """What follows is the next element."""
        return b"", data

    @classmethod
    def dispatch_hook(cls, data: bytes | None = None, *_: object, **__: object) -> type[Packet]:
        """The class for the type in the first byte."""
        return ELEMENTS.get(data[0], TrailerElement) if data else cls


class TrailerBitmap(TrailerElement):
    """The ranks inside: one number, most significant byte first, rank r is bit r."""

    name = "TrailerBitmap"
    lengths = range(8, 129, 8)
    fields_desc = [*_begin(1), StrLenField("bits", bytes(8), length_from=_length)]


class TrailerUpdate(TrailerElement):
    """Reward and time of generation of an asynchronous update (Olaf, sections 2 and 7)."""

    name = "TrailerUpdate"
    lengths = range(12, 13)
    fields_desc = [
        *_begin(2),
        IEEEFloatField("reward", 0.0),
        LongField("generated_ns", 0),
    ]


class TrailerQueue(TrailerElement):
    """State of the bottleneck queue (Olaf, sections 5 and 7)."""

    name = "TrailerQueue"
    lengths = range(7, 8)
    fields_desc = [
        *_begin(3),
        ShortField("clusters", 0),
        ShortField("capacity", 0),
        ThreeBytesField("waiting", 0),
    ]


class _Part(Packet):
    """One of several within an element."""

    def extract_padding(self, data: bytes) -> tuple[bytes, bytes]:
        """What follows is the next one."""
        return b"", data


class Operation(_Part):
    """The operation that a rank calls."""

    name = "Operation"
    fields_desc = [
        ShortField("rank", 0),
        BitEnumField("op", 0, 4, OPS),
        BitEnumField("dtype", 0, 4, DTYPES_OR_NONE),
        ByteField("reserved", 0),
        IntField("first", 0),
        *_operation(),
    ]


class RankReport(_Part):
    """The state of a rank."""

    name = "RankReport"
    fields_desc = [
        ShortField("rank", 0),
        ByteEnumField("state", 1, RANK_STATES),
        ByteField("reserved", 0),
        IntField("silent_ms", 0),
        IntField("behind", 0),
        ShortField("port", 0),
        ShortField("reserved_2", 0),
        IP6Field("address", "::"),
    ]


class TrailerOperations(TrailerElement):
    """Two operations that ranks call at the same PSN: what most call, and what another calls."""

    name = "TrailerOperations"
    lengths = range(32, 33)
    part = Operation
    fields_desc = [*_begin(5), PacketListField("parts", [], Operation, length_from=_length)]


class TrailerRanks(TrailerElement):
    """Details of missing ranks: 32 bytes for each."""

    name = "TrailerRanks"
    lengths = range(32, 225, 32)
    part = RankReport
    fields_desc = [*_begin(6), PacketListField("parts", [], RankReport, length_from=_length)]


class TrailerSentence(TrailerElement):
    """A reason in words: text in UTF-8."""

    name = "TrailerSentence"
    lengths = range(1, 225)
    fields_desc = [*_begin(7), StrLenField("text", b"", length_from=_length)]


class TrailerSeal(TrailerElement):
    """Room for a proof of the sender: a counter and a tag."""

    name = "TrailerSeal"
    lengths = range(24, 25)
    fields_desc = [*_begin(8), LongField("counter", 0), StrFixedLenField("tag", bytes(16), 16)]


ELEMENTS = {
    1: TrailerBitmap,
    2: TrailerUpdate,
    3: TrailerQueue,
    5: TrailerOperations,
    6: TrailerRanks,
    7: TrailerSentence,
    8: TrailerSeal,
}


class PascalineTrailer(Packet):
    """The end of a datagram with the flag TRAILER: elements and their length (protocol, section 8)."""

    name = "PascalineTrailer"
    fields_desc = [
        PacketListField(
            "elements", [], TrailerElement, length_from=lambda trailer: len(trailer.original) - 2
        ),
        ShortField("length", None),
    ]

    def post_build(self, built: bytes, payload: bytes) -> bytes:
        """Fills in the length, itself included."""
        if self.length is None:
            built = built[:-2] + struct.pack("!H", len(built))
        return built + payload


def use(kind: int, flags: int) -> str:
    """What a packet has its own two fields for (protocol, section 4)."""
    if kind in (2, 6, 7) or (kind == 1 and flags & BYPASS_FLAG):
        return "vote"
    return {4: "update", 5: "answer", 8: "none"}.get(kind, "sum")


class Own(ConditionalField):
    """A field at offset 16 or 18, of packets of these uses."""

    def __init__(self, at: int, field: Field[Any, Any], *uses: str) -> None:
        super().__init__(field, lambda packet: use(int(packet.kind), int(packet.flags or 0)) in uses)
        self.at, self.uses = at, uses


class Pascaline(Packet):
    """The header of 22 bytes; what is behind it depends on kind and flags (protocol, sections 4 to 8)."""

    name = "Pascaline"
    fields_desc = [
        ByteField("version", 3),
        ByteEnumField("kind", 1, KINDS),
        FlagsField("flags", None, 8, FLAGS),
        BitEnumField("op", 0, 4, OPS),
        BitEnumField("dtype", 1, 4, DTYPES),
        ShortField("job", 1),
        ShortField("rank", 0),
        IntField("psn", 0),
        ShortField("fan_in", 1),
        ShortField("count", 1),
        Own(16, ShortField("priority", 0), "sum"),
        Own(16, ShortField("round", 0), "vote"),
        Own(16, ShortField("origin", 0), "update"),
        Own(16, ShortEnumField("status", 0, STATUSES), "answer"),
        Own(16, ShortField("unused", 0), "none"),
        Own(18, ShortField("wnd_cap", 0), "sum", "vote"),
        Own(18, ShortField("pause", 0), "answer"),
        Own(18, ShortField("unused_too", 0), "update", "none"),
        ShortField("epoch", 0),
    ]

    def post_build(self, built: bytes, payload: bytes) -> bytes:
        """Says that there is a trailer, unless the flags were given."""
        if self.flags is None and self.haslayer(PascalineTrailer):
            built = built[:2] + struct.pack("!B", TRAILER_FLAG) + built[3:]
        return built + payload

    def do_dissect_payload(self, data: bytes) -> None:
        """Splits the bytes behind the header: the trailer is found from the end."""
        trailer = b""
        if int(self.flags) & TRAILER_FLAG and len(data) >= 2:
            length = struct.unpack("!H", data[-2:])[0]
            if 2 <= length <= len(data):
                data, trailer = data[:-length], data[-length:]
        if data:
            whole = self.kind == 8 and len(data) >= CONTROL_BODY
            self.add_payload(PascalineControl(data) if whole else Raw(data))
        if trailer:
            self.lastlayer().add_payload(PascalineTrailer(trailer))


bind_layers(UDP, Pascaline, sport=PORT)
bind_layers(UDP, Pascaline, dport=PORT)


def bitmap(ranks: Iterable[int], capacity: int = 64) -> bytes:
    """The bits of a bitmap element that is `capacity` ranks wide, a multiple of 64."""
    bits = 0
    for rank in ranks:
        bits |= 1 << rank
    return bits.to_bytes(capacity // 8, "big")


def ranks_in(bits: bytes) -> list[int]:
    """The ranks that a bitmap element names, ascending."""
    number = int.from_bytes(bits, "big")
    return [rank for rank in range(8 * len(bits)) if number >> rank & 1]
