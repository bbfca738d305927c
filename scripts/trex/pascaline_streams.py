"""What is sent, without TRex: templates, and the field engine's program for each.

A `Stream` can become a TRex stream (`pascaline_trex`) or, by the model of the field engine here, the frames that TRex
would send. The bounds checked here are TRex's own (v3.08); it does not check all of them itself.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pascaline_layers import (
    DTYPE_BYTES,
    PORT,
    RETRANSMISSION_FLAG,
    Pascaline,
    PascalineControl,
    PascalineTrailer,
    TrailerUpdate,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

_ENGINE_REACH = 512
_ENGINE_BYTES = 64
_FIRST_SOURCE_PORT, _SOURCE_PORTS = 49152, 16384
_ETHERNET, _IP, _UDP = 14, 20, 8
IP_AT = _ETHERNET
SOURCE_AT = IP_AT + 12
HEADER_AT = _ETHERNET + _IP + _UDP
FLAGS_AT = HEADER_AT + 2
RANK_AT = HEADER_AT + 6
PSN_AT = HEADER_AT + 8
_F32, _I32 = 1, 2


class StreamError(ValueError):
    """A stream that TRex could not send as it is meant. Says what to change."""


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
    """Puts a variable into the packet, big endian; shifted right and masked if told so."""

    variable: str
    offset: int
    size: int
    shift: int = 0
    mask: int | None = None

    @property
    def plain(self) -> bool:
        """The engine's simple instruction will do."""
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
        """Refuses what TRex would get wrong."""
        for write in self.writes:
            if write.offset + write.size > min(_ENGINE_REACH, len(self.template)):
                raise StreamError(
                    f"{self.name}: {write.variable} lies at byte {write.offset} of {len(self.template)}, but TRex's "
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
            _fix_ip(frame)
        return bytes(frame)


def _fix_ip(frame: bytearray) -> None:
    header = slice(IP_AT, IP_AT + _IP)
    frame[IP_AT + 10 : IP_AT + 12] = b"\0\0"
    total = sum(struct.unpack("!10H", frame[header]))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    frame[IP_AT + 10 : IP_AT + 12] = struct.pack("!H", total ^ 0xFFFF)


def frames(streams: list[Stream]) -> Iterator[tuple[float, bytes]]:
    """All packets of streams that end, with the second each is due at, in the order in which one core sends them."""
    due = []
    for number, stream in enumerate(streams):
        if stream.count is None:
            raise StreamError(f"{stream.name} does not end: give a count")
        due += [
            (stream.delay_us / 1e6 + packet / stream.pps, packet, number) for packet in range(stream.count)
        ]
    for time, packet, number in sorted(due):
        yield time, streams[number].frame(packet)


@dataclass(frozen=True)
class Load:
    """Who sends what to whom: jobs of ranks, each a host of its own behind one port of the generator."""

    appliance: str = "10.77.0.254"
    appliance_ipv6: str | None = None
    udp_port: int = PORT
    first_address: str = "10.77.0.1"
    jobs: range = range(1, 2)
    ranks: int = 4
    payload: int = 1024
    dtype: int = _F32
    psns: int | None = 1000
    first_psn: int = 0
    pps: float = 1000.0
    window: int = 512
    session: int = 1
    epochs: dict[int, int] = field(default_factory=dict)
    source_mac: str | None = None
    destination_mac: str | None = None

    def address(self, rank: int) -> str:
        """The address of a rank; the same in all jobs."""
        return str(ipaddress.IPv4Address(self.first_address) + rank)

    def source_port(self, job: int) -> int:
        """A rank's UDP port tells its jobs apart."""
        return _FIRST_SOURCE_PORT + (job - 1) % _SOURCE_PORTS

    def frame(self, job: int, rank: int, *layers: Packet) -> bytes:
        """A frame from a rank to the appliance."""
        ethernet = Ether(
            src=self.source_mac or "02:00:00:00:00:01", dst=self.destination_mac or "02:00:00:00:00:fe"
        )
        packet = (
            ethernet
            / IP(src=self.address(rank), dst=self.appliance, id=0, flags="DF", ttl=64)
            / UDP(sport=self.source_port(job), dport=self.udp_port, chksum=0)
        )
        for layer in layers:
            packet /= layer
        return bytes(packet)

    def gradient(self, job: int, rank: int, /, **changes: object) -> Packet:
        """The header of a rank's contribution."""
        fields = {
            "kind": "gradient",
            "job": job,
            "rank": rank,
            "psn": self.first_psn,
            "fan_in": self.ranks,
            "dtype": self.dtype,
            "epoch": self.epochs.get(job, 0),
        }
        return Pascaline(**(fields | changes))

    def elements(self, value: int) -> bytes:
        """A payload in which each element is this number; elements are little endian."""
        if self.dtype not in (_F32, _I32):
            raise StreamError("the streams carry f32 or i32")
        one = struct.pack("<f" if self.dtype == _F32 else "<i", value)
        if self.payload <= 0 or self.payload % DTYPE_BYTES[self.dtype]:
            raise StreamError(f"payload of {self.payload} bytes: use a multiple of {DTYPE_BYTES[self.dtype]}")
        return one * (self.payload // len(one))

    def stream(self, name: str, template: bytes, **more: object) -> Stream:
        """A stream of this load."""
        fields = {
            "pps": self.pps,
            "count": self.psns,
            "own_source_mac": self.source_mac is not None,
            "own_destination_mac": self.destination_mac is not None,
        }
        return Stream(name=name, template=template, **(fields | more))


def requests(load: Load, action: str) -> list[Stream]:
    """Join or leave: one packet for each rank of each job."""
    streams = []
    for job in load.jobs:
        for rank in range(load.ranks):
            joins = action == "join"
            body = PascalineControl(
                action=action,
                session=load.session,
                payload_bytes=load.payload if joins else 0,
                window=load.window if joins else 0,
            )
            epoch = 0 if joins else load.epochs.get(job, 0)
            header = Pascaline(kind="control", job=job, rank=rank, fan_in=load.ranks, count=0, epoch=epoch)
            streams.append(
                load.stream(f"{action} {job}.{rank}", load.frame(job, rank, header, body), count=1)
            )
    return streams


def _psns(load: Load) -> Variable:
    if load.first_psn + (load.psns or 1) > 1 << 32:
        raise StreamError("PSNs beyond 2^32 - 1: begin at a smaller one")
    last = load.first_psn + load.psns - 1 if load.psns else (1 << 32) - 1
    return Variable("psn", load.first_psn, last, 4)


def gradients_per_rank(load: Load) -> list[Stream]:
    """A stream for each rank of each job; the field engine counts the PSNs. Rank r contributes the number r + 1."""
    return [
        load.stream(
            f"gradient {job}.{rank}",
            load.frame(job, rank, load.gradient(job, rank), Raw(load.elements(rank + 1))),
            variables=(_psns(load),),
            writes=(Write("psn", PSN_AT, 4),),
        )
        for job in load.jobs
        for rank in range(load.ranks)
    ]


def gradients_per_job(load: Load) -> list[Stream]:
    """A stream for each job; the field engine counts ranks, their addresses and PSNs. Everybody contributes 1.

    The contributions to a PSN follow each other; the engine gets the PSN by shifting a counter of packets.
    """
    shift = load.ranks.bit_length() - 1
    if load.ranks != 1 << shift:
        raise StreamError(f"{load.ranks} ranks: one stream per job needs a power of two; use --layout rank")
    if load.first_psn:
        raise StreamError("one stream per job begins at PSN 0; use --layout rank")
    first = int(ipaddress.IPv4Address(load.first_address))
    count = load.psns * load.ranks if load.psns else None
    last = count - 1 if count else (1 << 32) - 1
    if last >= 1 << 32:
        raise StreamError(
            f"more than {(1 << 32) // load.ranks} PSNs of {load.ranks} ranks: use --layout rank"
        )
    variables = (
        Variable("packet", 0, last, 4),
        Variable("rank", 0, load.ranks - 1, 2),
        Variable("address", first, first + load.ranks - 1, 4),
    )
    writes = (
        Write("packet", PSN_AT, 4, shift=shift, mask=0xFFFF_FFFF >> shift),
        Write("rank", RANK_AT, 2),
        Write("address", SOURCE_AT, 4),
    )
    return [
        load.stream(
            f"gradient {job}",
            load.frame(job, 0, load.gradient(job, 0), Raw(load.elements(1))),
            variables=variables,
            writes=writes,
            fix_ip=True,
            pps=load.pps * load.ranks,
            count=count,
        )
        for job in load.jobs
    ]


def updates(load: Load, reward: float, generated_ns: int) -> list[Stream]:
    """Olaf's asynchronous updates: a stream for each rank; each packet is generated one sending interval later.

    The time of generation is behind the payload: the field engine reaches it only if that is short.
    """
    interval = max(1, round(1e9 / load.pps))
    count = load.psns or (1 << 32)
    time = Variable("generated", generated_ns, generated_ns + interval * count - 1, 8, interval)
    streams = []
    for job in load.jobs:
        for rank in range(load.ranks):
            trailer = PascalineTrailer(elements=[TrailerUpdate(reward=reward, generated_ns=generated_ns)])
            header = load.gradient(job, rank, kind="update", flags="trailer")
            frame = load.frame(job, rank, header, Raw(load.elements(rank + 1)), trailer)
            # From the end: the trailer's length, then the time.
            writes = (Write("psn", PSN_AT, 4), Write("generated", len(frame) - 10, 8))
            streams.append(
                load.stream(f"update {job}.{rank}", frame, variables=(_psns(load), time), writes=writes)
            )
    return streams


def again(streams: list[Stream], *, delay_us: float) -> list[Stream]:
    """The same streams once more, later and flagged as what they are: what an impatient worker sends again."""
    return [
        replace(
            stream,
            name=f"again {stream.name}",
            template=_flagged(stream.template, RETRANSMISSION_FLAG),
            delay_us=stream.delay_us + delay_us,
        )
        for stream in streams
    ]


def _flagged(template: bytes, flag: int) -> bytes:
    frame = bytearray(template)
    frame[FLAGS_AT] |= flag
    return bytes(frame)
