"""The streams, without TRex: templates, and the field engine's program for each.

A `Stream` can become a TRex stream (`pascaline_trex`) or, by the model of the field engine here, the frames
that TRex would send. The bounds checked here are TRex's own (v3.08); it does not check all of them itself.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

from scapy.utils import checksum

_ENGINE_REACH = 512
_ENGINE_BYTES = 64
_ETHERNET, _IP, _UDP = 14, 20, 8
IP_AT = _ETHERNET
SOURCE_AT = IP_AT + 12
HEADER_AT = _ETHERNET + _IP + _UDP
FLAGS_AT = HEADER_AT + 2
RANK_AT = HEADER_AT + 6
PSN_AT = HEADER_AT + 8


class StreamError(ValueError):
    """A stream that TRex could not send as intended; the message says what to change."""


@dataclass(frozen=True)
class Variable:
    """Counts from `low` to `high` in steps, then begins again."""

    name: str
    low: int
    high: int
    size: int
    step: int = 1

    def at(self, packet: int) -> int:
        """Its value in the n-th packet, from 0."""
        return self.low + packet * self.step % (self.high - self.low + 1)


@dataclass(frozen=True)
class Write:
    """Puts a variable into the packet, big endian; shifted right and masked if configured."""

    variable: str
    offset: int
    size: int
    shift: int = 0
    mask: int | None = None

    @property
    def plain(self) -> bool:
        """Whether the engine's simple instruction suffices."""
        return self.mask is None and self.shift == 0


@dataclass(frozen=True)
class Stream:
    """One stream: a template, how to change it from packet to packet, how many at which rate."""

    name: str
    template: bytes
    pps: float
    count: int | None
    variables: tuple[Variable, ...] = ()
    writes: tuple[Write, ...] = ()
    fix_ip: bool = False
    delay_us: float = 0.0
    own_source_mac: bool = False
    own_destination_mac: bool = False

    def __post_init__(self) -> None:
        """Refuses streams that TRex would send wrongly."""
        for write in self.writes:
            if write.offset + write.size > min(_ENGINE_REACH, len(self.template)):
                raise StreamError(
                    f"{self.name}: {write.variable} lies at byte {write.offset} of {len(self.template)}, "
                    f"but TRex's "
                    f"field engine reaches the first {_ENGINE_REACH} only: use a shorter payload"
                )
        if sum(variable.size for variable in self.variables) > _ENGINE_BYTES:
            raise StreamError(
                f"{self.name}: more than {_ENGINE_BYTES} bytes of variables: use several streams"
            )
        for variable in self.variables:
            # A size of 8 up to 2^64 - 1 ends TRex's server by SIGFPE.
            if not 0 <= variable.low <= variable.high < 1 << min(8 * variable.size, 63):
                raise StreamError(f"{self.name}: {variable.name} does not fit {variable.size} bytes")

    def frame(self, packet: int) -> bytes:
        """The n-th packet that the field engine makes, from 0."""
        frame = bytearray(self.template)
        values = {variable.name: variable.at(packet) for variable in self.variables}
        for write in self.writes:
            value = values[write.variable] >> write.shift
            whole = (1 << 8 * write.size) - 1
            mask = whole if write.mask is None else write.mask
            place = slice(write.offset, write.offset + write.size)
            kept = int.from_bytes(frame[place], "big") & ~mask & whole
            frame[place] = (kept | value & mask).to_bytes(write.size, "big")
        if self.fix_ip:
            fix_ip(frame)
        return bytes(frame)


def fix_ip(frame: bytearray) -> None:
    header, place = slice(IP_AT, IP_AT + _IP), slice(IP_AT + 10, IP_AT + 12)
    frame[place] = bytes(2)
    frame[place] = checksum(bytes(frame[header])).to_bytes(2, "big")


def frames(streams: list[Stream]) -> Iterator[tuple[float, bytes]]:
    """All packets of streams that end and the second when each is due, in the order of one core."""
    for time, packet, number in heapq.merge(*(_due(*numbered) for numbered in enumerate(streams))):
        yield time, streams[number].frame(packet)


def _due(number: int, stream: Stream) -> Iterator[tuple[float, int, int]]:
    """When the packets of a stream are due: second, packet, stream."""
    if stream.count is None:
        raise StreamError(f"{stream.name} does not end: give a count")
    for packet in range(stream.count):
        yield stream.delay_us / 1e6 + packet / stream.pps, packet, number
