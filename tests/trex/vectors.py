"""The test vectors that docs/protocol.md prints, and the Scapy layers against them, both ways."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path

from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Padding, Raw

import pascaline_layers as wire
from pascaline_layers import (
    Operation,
    Pascaline,
    PascalineControl,
    PascalineTrailer,
    RankReport,
    TrailerBitmap,
    TrailerOperations,
    TrailerQueue,
    TrailerRanks,
    TrailerSeal,
    TrailerSentence,
    TrailerUpdate,
)

from .verdict import verdict

_BLOCK = re.compile(r"^```vector\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NUMBERS = (
    "number", "session", "cookie", "window", "joined", "expected", "got", "before", "psn", "first", "workers"
)  # fmt: skip
# The fields that a kind has of its own, in the order of a packet.
OWN = ("priority", "round", "origin", "status", "wnd_cap", "pause")
_TAGS = {0x8100: Dot1Q, 0x88A8: Dot1AD}


@dataclass
class Vector:
    """One block: a frame, and what it means or why it is refused."""

    name: str
    frame: bytes
    malformed: str | None = None
    lines: dict[str, str] = field(default_factory=dict)

    def words(self, line: str) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.lines[line].split())


def read(document: Path) -> list[Vector]:
    return [_parse(block) for block in _BLOCK.findall(document.read_text())]


def _parse(block: str) -> Vector:
    lines: dict[str, str] = {}
    frame = ""
    for line in block.splitlines():
        if line.startswith("  "):
            frame += line.split("#")[0]
        else:
            key, _, value = line.partition(":")
            lines[key] = value.strip()
    name, malformed = lines.pop("name"), lines.pop("malformed", None)
    lines.pop("frame")
    return Vector(name, bytes.fromhex(frame), malformed, lines)


def differences(vector: Vector) -> list[str]:
    """The differences between a vector and the layers; empty if there are none."""
    reason = verdict(vector.frame)
    if reason != vector.malformed:
        return [f"judged {reason or 'well-formed'}, printed {vector.malformed or 'well-formed'}"]
    if vector.malformed:
        return []
    found = []
    decoded = described(vector.frame)
    found += [
        f"decoded {key}: {decoded.get(key)}, printed {vector.lines.get(key)}"
        for key in sorted(decoded.keys() | vector.lines.keys())
        if decoded.get(key) != vector.lines.get(key)
    ]
    encoded = bytes(built(vector))
    if encoded != vector.frame:
        found.append(f"encoded {encoded.hex()}, printed {vector.frame.hex()}")
    return found


def described(frame: bytes) -> dict[str, str]:
    """A frame in the notation of the document."""
    packet = Ether(frame)
    ip = packet[IP] if IP in packet else packet[IPv6]
    header = packet[Pascaline]
    padding = packet[Padding].load if Padding in packet else b""
    # Building a layer builds what is behind it, the padding included.
    body = len(frame) - len(bytes(ip.payload)) + 8
    lines = {
        "ethernet": f"dst={packet.dst} src={packet.src} vlan={_tags(packet)}",
        "udp": (
            f"src={ip.src} dst={ip.dst} src_port={ip.payload.sport} dst_port={ip.payload.dport} "
            f"body={body} padding={len(padding)}"
        ),
        "header": (
            f"kind={wire.KINDS[header.kind]} flags={_flags(int(header.flags))} "
            f"element={wire.DTYPES[header.dtype]}/{wire.OPS[header.op]} "
            + " ".join(
                f"{name}={getattr(header, name)}"
                for name in ("job", "rank", "psn", "fan_in", "count", "epoch")
            )
            + _own(header)
        ),
    }
    if PascalineControl in packet:
        lines["control"] = _control(packet[PascalineControl])
    else:
        lines["payload"] = header.payload.load.hex() if isinstance(header.payload, Raw) else "none"
    for element in packet[PascalineTrailer].elements if PascalineTrailer in packet else ():
        lines[wire.TRAILER_TYPES[element.type]] = _element(element)
    return lines


def _own(header: Pascaline) -> str:
    """The kind's own fields."""
    use = wire.use(header.kind, int(header.flags))
    has = {field.name for field in header.fields_desc if use in getattr(field, "uses", ())}
    words = {name: str(getattr(header, name)) for name in OWN if name in has}
    if "status" in words:
        words["status"] = wire.STATUSES[header.status]
    return "".join(f" {name}={word}" for name, word in words.items())


def group(code: int) -> str:
    """A multicast group, of its 48 bits."""
    if not code:
        return "none"
    if code < 1 << 32:
        return str(ipaddress.IPv4Address(code))
    return str(ipaddress.IPv6Address((code >> 32) << 112 | code & 0xFFFF_FFFF))


def _group_code(address: str) -> int:
    if address == "none":
        return 0
    found = ipaddress.ip_address(address)
    number = int(found)
    return number if found.version == 4 else number >> 112 << 32 | number & 0xFFFF_FFFF


def _tags(packet: Packet) -> str:
    tags, layer = [], packet
    while isinstance(layer.payload, Dot1Q):
        tag = layer.payload
        # The third field is called `id` in old versions of Scapy and `dei` in new ones.
        tags.append(f"{layer.type:x}/{int.from_bytes(bytes(tag)[:2], 'big')}")
        layer = tag
    return ",".join(tags) or "none"


def _flags(flags: int) -> str:
    return ",".join(name for bit, name in enumerate(wire.FLAGS) if flags >> bit & 1) or "none"


def _control(body: PascalineControl) -> str:
    return (
        f"action={wire.ACTIONS[body.action]} status={wire.STATUSES[body.status]} "
        f"answers={wire.ACTIONS[body.answered]} element={_called(body.op << 4 | body.dtype)} "
        f"number={body.number} session={body.session} cookie={body.cookie} "
        f"payload={body.payload_bytes} window={body.window} joined={body.joined} "
        f"hearing={wire.HEARINGS[body.hearing]} congestion={wire.CONGESTION[body.congestion]} "
        f"expected={body.expected} got={body.got} before={body.before} "
        f"psn={body.psn} first={body.first} workers={body.workers} "
        f"bytes={body.bytes_whole} group={group(body.group)}{_call(body)}"
    )


def _call(body: PascalineControl) -> str:
    """Which collective is called; nothing for an allreduce."""
    called = body.call or body.argument
    return f" call={wire.COLLECTIVES[body.call]}/{body.argument}" if called else ""


def _called(element: int) -> str:
    return f"{wire.DTYPES[element & 0xF]}/{wire.OPS[element >> 4]}" if element else "none"


def _code(called: str) -> int:
    if called == "none":
        return 0
    dtype, op = called.split("/")
    return _key(wire.DTYPES, dtype) | _key(wire.OPS, op) << 4


def _key(names: dict[int, str], name: str) -> int:
    return next(code for code, found in names.items() if found == name)


def _element(element: Packet) -> str:
    if isinstance(element, TrailerBitmap):
        ranks = ",".join(map(str, wire.ranks_in(element.bits)))
        return f"ranks={ranks} capacity={8 * len(element.bits)}"
    if isinstance(element, TrailerUpdate):
        return f"reward={element.reward:g} generated_ns={element.generated_ns}"
    if isinstance(element, TrailerQueue):
        return f"clusters={element.clusters} capacity={element.capacity} waiting={element.waiting}"
    if isinstance(element, TrailerOperations):
        most, differing = (
            f"{one.rank},{_called(one.op << 4 | one.dtype)},{one.first},{one.bytes_whole}"
            for one in element.parts
        )
        return f"most={most} differing={differing}"
    if isinstance(element, TrailerRanks):
        return " ".join(map(_report, element.parts))
    if isinstance(element, TrailerSentence):
        return str(element.text.decode())
    return f"counter={element.counter} tag={element.tag.hex()}"


def _report(one: RankReport) -> str:
    where = ipaddress.IPv6Address(one.address)
    address = where.ipv4_mapped or where
    return f"{one.rank}={wire.RANK_STATES[one.state]},{one.silent_ms},{one.behind},{one.port},{address}"


def built(vector: Vector) -> Packet:
    """The frame that a sender makes of a vector's fields, by the conventions of the protocol's section 3."""
    ethernet, udp = vector.words("ethernet"), vector.words("udp")
    packet = _ethernet(ethernet)
    if ipaddress.ip_address(udp["src"]).version == 4:
        packet /= IP(src=udp["src"], dst=udp["dst"], id=0, flags="DF", ttl=64, tos=0)
        checksum = 0
    else:
        packet /= IPv6(src=udp["src"], dst=udp["dst"], hlim=64, tc=0, fl=0)
        checksum = None
    packet /= UDP(sport=int(udp["src_port"]), dport=int(udp["dst_port"]), chksum=checksum)
    packet /= _header(vector.words("header"))
    if "control" in vector.lines:
        packet /= _body(vector.words("control"))
    elif vector.lines["payload"] != "none":
        packet /= Raw(bytes.fromhex(vector.lines["payload"]))
    elements = [_built_element(vector, kind) for kind in wire.TRAILER_TYPES.values() if kind in vector.lines]
    if elements:
        packet /= PascalineTrailer(elements=elements)
    # Scapy counts padding that it finds into no length.
    return packet / Padding(bytes(int(udp["padding"]))) if int(udp["padding"]) else packet


def _ethernet(words: dict[str, str]) -> Packet:
    packet: Packet = Ether(dst=words["dst"], src=words["src"])
    if words["vlan"] == "none":
        return packet
    tags = [tag.split("/") for tag in words["vlan"].split(",")]
    packet.type = int(tags[0][0], 16)
    for at, (ethertype, number) in enumerate(tags):
        tag = _TAGS[int(ethertype, 16)](vlan=int(number) & 0xFFF, prio=int(number) >> 13)
        if at + 1 < len(tags):
            tag.type = int(tags[at + 1][0], 16)
        packet /= tag
    return packet


def _header(words: dict[str, str]) -> Packet:
    dtype, op = words["element"].split("/")
    flags = [] if words["flags"] == "none" else words["flags"].split(",")
    named = {key: words[key] for key in words.keys() & {"kind", "status"}}
    numbers = {key: int(words[key]) for key in words.keys() - {"flags", "element", *named}}
    return Pascaline(flags="+".join(flags), dtype=dtype, op=op, **named, **numbers)


def _body(words: dict[str, str]) -> Packet:
    numbers = {key: int(words[key]) for key in _NUMBERS}
    element = _code(words["element"])
    names = {"answered": words["answers"]}
    names |= {key: words[key] for key in ("action", "status", "hearing", "congestion")}
    call, argument = words.get("call", "allreduce/0").split("/")
    return PascalineControl(
        payload_bytes=int(words["payload"]),
        bytes_whole=int(words["bytes"]),
        group=_group_code(words["group"]),
        call=call,
        argument=int(argument),
        op=element >> 4,
        dtype=element & 0xF,
        **names,
        **numbers,
    )


def _built_element(vector: Vector, kind: str) -> Packet:
    if kind == "sentence":
        return TrailerSentence(text=vector.lines[kind].encode())
    words = vector.words(kind)
    if kind == "bitmap":
        ranks = [int(rank) for rank in words["ranks"].split(",")]
        return TrailerBitmap(bits=wire.bitmap(ranks, int(words["capacity"])))
    if kind == "update":
        return TrailerUpdate(reward=float(words["reward"]), generated_ns=int(words["generated_ns"]))
    if kind == "queue":
        return TrailerQueue(**{key: int(value) for key, value in words.items()})
    if kind == "operations":
        return TrailerOperations(parts=list(map(_operation, words.values())))
    if kind == "ranks":
        return TrailerRanks(parts=[_rank_report(*word) for word in words.items()])
    return TrailerSeal(counter=int(words["counter"]), tag=bytes.fromhex(words["tag"]))


def _operation(text: str) -> Operation:
    rank, called, first, length = text.split(",")
    element = _code(called)
    return Operation(
        rank=int(rank), op=element >> 4, dtype=element & 0xF, first=int(first), bytes_whole=int(length)
    )


def _rank_report(rank: str, known: str) -> RankReport:
    state, silent, behind, port, address = known.split(",")
    mapped = f"::ffff:{address}" if "." in address else address
    return RankReport(
        rank=int(rank), state=state, silent_ms=int(silent), behind=int(behind), port=int(port), address=mapped
    )
