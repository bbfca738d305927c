"""The streams of a load: gradients in two layouts, updates and requests."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import truediv
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from pascaline_layers import (
    DTYPE_BYTES,
    PORT,
    RETRANSMISSION_FLAG,
    Pascaline,
    PascalineControl,
    PascalineTrailer,
    TrailerUpdate,
)
from pascaline_streams import FLAGS_AT, PSN_AT, RANK_AT, SOURCE_AT, Stream, StreamError, Variable, Write

_FIRST_SOURCE_PORT, _SOURCE_PORTS = 49152, 16384
_F32, _I32 = 1, 2
_REPEATED_PPS = 5.0
# How a Join names the generation that its rank knows (protocol, section 9).
_GENERATION, _NO_GENERATION = 0x10000, 0x20000


@dataclass(frozen=True)
class Load:
    """Senders and receiver: jobs of ranks, each a host of its own behind one port of the generator."""

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
    # From the appliance: the first PSN of a job's generation, and cookies by job and rank.
    bases: dict[int, int] = field(default_factory=dict)
    cookies: dict[tuple[int, int], int] = field(default_factory=dict)
    source_mac: str | None = None
    destination_mac: str | None = None

    def address(self, rank: int) -> str:
        """The address of a rank; the same in all jobs."""
        return str(ipaddress.IPv4Address(self.first_address) + rank)

    def source_port(self, job: int) -> int:
        """A rank's UDP port tells its jobs apart."""
        return _FIRST_SOURCE_PORT + (job - 1) % _SOURCE_PORTS

    def layers(self, job: int, rank: int) -> tuple[Packet, Packet, Packet]:
        """Ethernet, IP and UDP of a frame from a rank to the appliance."""
        source, destination = (
            self.source_mac or "02:00:00:00:00:01",
            self.destination_mac or "02:00:00:00:00:fe",
        )
        return (
            Ether(src=source, dst=destination),
            IP(src=self.address(rank), dst=self.appliance, id=0, flags="DF", ttl=64),
            UDP(sport=self.source_port(job), dport=self.udp_port, chksum=0),
        )

    def frame(self, job: int, rank: int, *layers: Packet) -> bytes:
        return bytes(reduce(truediv, (*self.layers(job, rank), *layers)))

    def gradient(self, job: int, rank: int, /, **changes: object) -> Packet:
        """The header of a rank's contribution."""
        fields = {
            "kind": "gradient",
            "job": job,
            "rank": rank,
            "psn": self.first(job),
            "fan_in": self.ranks,
            "dtype": self.dtype,
            "epoch": self.epochs.get(job, 0),
        }
        return Pascaline(**(fields | changes))

    def first(self, job: int) -> int:
        """The job's first PSN: `first_psn` behind the generation's."""
        return (self.bases.get(job, 0) + self.first_psn) % (1 << 32)

    def elements(self, value: int) -> bytes:
        """A payload in which each element is this number; elements are little endian."""
        if self.dtype not in (_F32, _I32):
            raise StreamError("the streams carry f32 or i32")
        one = struct.pack("<f" if self.dtype == _F32 else "<i", value)
        if self.payload <= 0 or self.payload % DTYPE_BYTES[self.dtype]:
            raise StreamError(f"payload of {self.payload} bytes: use a multiple of {DTYPE_BYTES[self.dtype]}")
        return one * (self.payload // len(one))

    def stream(self, name: str, template: bytes, **more: Any) -> Stream:
        fields: dict[str, Any] = {
            "pps": self.pps,
            "count": self.psns,
            "own_source_mac": self.source_mac is not None,
            "own_destination_mac": self.destination_mac is not None,
        }
        return Stream(name=name, template=template, **(fields | more))


def requests(load: Load, action: str, times: int = 1) -> list[Stream]:
    """Join or leave: one packet for each rank of each job. A Join counts once it has the rank's cookie.

    Several follow each other like those of a waiting worker.
    """
    streams = []
    for job in load.jobs:
        for rank in range(load.ranks):
            joins, epoch = action == "join", load.epochs.get(job)
            body = PascalineControl(
                action=action,
                session=load.session,
                payload_bytes=load.payload if joins else 0,
                window=load.window if joins else 0,
                got=(_NO_GENERATION if epoch is None else _GENERATION + epoch) if joins else 0,
                cookie=load.cookies.get((job, rank), 0) if joins else 0,
            )
            header = Pascaline(
                kind="control",
                job=job,
                rank=rank,
                fan_in=load.ranks,
                count=0,
                epoch=0 if joins else epoch or 0,
            )
            streams.append(
                load.stream(
                    f"{action} {job}.{rank}",
                    load.frame(job, rank, header, body),
                    count=times,
                    pps=load.pps if times == 1 else _REPEATED_PPS,
                )
            )
    return streams


def fits(load: Load) -> bool:
    """Whether the field engine can count the PSNs of every job, in either layout: without a carry."""
    room = 1 << 32 - (load.ranks.bit_length() - 1)
    return all(load.first(job) % room + (load.psns or 1) <= room for job in load.jobs)


def _psns(load: Load, job: int) -> Variable:
    first = load.first(job)
    if first + (load.psns or 1) > 1 << 32:
        raise StreamError("PSNs beyond 2^32 - 1: begin at a smaller one")
    return Variable("psn", first, first + load.psns - 1 if load.psns else (1 << 32) - 1, 4)


def gradients_per_rank(load: Load) -> list[Stream]:
    """A stream for each rank of each job; the field engine counts the PSNs. Rank r contributes r + 1."""
    return [
        load.stream(
            f"gradient {job}.{rank}",
            load.frame(job, rank, load.gradient(job, rank), Raw(load.elements(rank + 1))),
            variables=(_psns(load, job),),
            writes=(Write("psn", PSN_AT, 4),),
        )
        for job in load.jobs
        for rank in range(load.ranks)
    ]


def gradients_per_job(load: Load) -> list[Stream]:
    """A stream for each job; the field engine counts ranks, addresses and PSNs. Each rank contributes 1.

    The contributions to a PSN follow each other; the engine gets the PSN by shifting a counter of packets.
    """
    shift = load.ranks.bit_length() - 1
    if load.ranks != 1 << shift:
        raise StreamError(f"{load.ranks} ranks: one stream per job needs a power of two; use --layout rank")
    mask = 0xFFFF_FFFF >> shift
    first = int(ipaddress.IPv4Address(load.first_address))
    count = load.psns * load.ranks if load.psns else None

    def packets(job: int) -> Variable:
        """The engine counts the lower bits of the PSN; the template has those above."""
        begin = (load.first(job) & mask) << shift
        last = begin + count - 1 if count else (1 << 32) - 1
        if last >= 1 << 32:
            raise StreamError(
                f"more than {(1 << 32) // load.ranks} PSNs of {load.ranks} ranks: use --layout rank"
            )
        return Variable("packet", begin, last, 4)

    variables = (
        Variable("rank", 0, load.ranks - 1, 2),
        Variable("address", first, first + load.ranks - 1, 4),
    )
    writes = (
        Write("packet", PSN_AT, 4, shift=shift, mask=mask),
        Write("rank", RANK_AT, 2),
        Write("address", SOURCE_AT, 4),
    )
    return [
        load.stream(
            f"gradient {job}",
            load.frame(job, 0, load.gradient(job, 0), Raw(load.elements(1))),
            variables=(packets(job), *variables),
            writes=writes,
            fix_ip=True,
            pps=load.pps * load.ranks,
            count=count,
        )
        for job in load.jobs
    ]


def updates(load: Load, reward: float, generated_ns: int) -> list[Stream]:
    """Olaf's asynchronous updates: a stream for each rank, a packet for each sending interval.

    The time of generation is behind the payload: the field engine reaches it only if that is short.
    """
    # A worker numbers its updates from 0.
    load, interval = replace(load, bases={}), max(1, round(1e9 / load.pps))
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
                load.stream(f"update {job}.{rank}", frame, variables=(_psns(load, job), time), writes=writes)
            )
    return streams


def again(streams: list[Stream], *, delay_us: float) -> list[Stream]:
    """The same streams once more, later and flagged as retransmissions, as an impatient worker sends them."""
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
