"""What tshark shows of the protocol's packets with conf/wireshark/pascaline.lua.

The test vectors that docs/protocol.md prints, packets of every kind, action, status and trailer made of the
Scapy layers, and packets with a bit flipped, whose reason to be refused is that of a judge of its own.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

import dissector
import pascaline_layers as wire
import switchml_layers as switchml
from pascaline_layers import Pascaline, PascalineControl, PascalineTrailer

from ..bed import ROOT
from ..conftest import require
from ..runner.shell import Shell
from ..trex import vectors
from ..trex.verdict import verdict
from .tshark import Shown, Tshark

pytestmark = pytest.mark.all
_DOCUMENT = ROOT / "docs/protocol.md"
_VECTORS = vectors.read(_DOCUMENT)
_WELL_FORMED = [vector for vector in _VECTORS if not vector.malformed]
# The lines of a vector about layers that are Wireshark's own.
_BELOW = ("ethernet", "udp")
# Wireshark ends before UDP: its own layers say what is wrong.
_NOT_REACHED = {"bad-ip-header"}
_HEADER = 42


@pytest.fixture
def tshark(shell: Shell, tmp_path: Path) -> Tshark:
    require("tshark", "tshark")
    return Tshark(shell, tmp_path)


def test_vectors_are_shown_as_printed(tshark: Tshark) -> None:
    """Every field of every vector, by its name and with its value; and where it begins."""
    shown = tshark([vector.frame for vector in _WELL_FORMED])
    for vector, found in zip(_WELL_FORMED, shown, strict=True):
        printed = {key: value for key, value in vector.lines.items() if key not in _BELOW}
        assert found.described() == printed, vector.name
        assert found.one("pascaline.version").at == int(vector.words("udp")["body"]), vector.name
        assert not found.reasons, vector.name


def _frame(*layers: Packet, port: int = wire.PORT) -> bytes:
    packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:fe")
    packet /= IP(src="10.77.0.1", dst="10.77.0.254", id=0, flags="DF")
    packet /= UDP(sport=49152, dport=port, chksum=0)
    for layer in layers:
        packet /= layer
    return bytes(packet)


def _every_kind() -> Iterator[bytes]:
    """Each code of each table, and each flag, at least once."""
    control = Pascaline(kind="control", rank=3, psn=9, fan_in=5, epoch=40_000)
    empty = ("reminder", "fetch")
    for kind, (code, dtype) in itertools.product(wire.KINDS.values(), wire.DTYPES.items()):
        if kind != "control":
            rest = () if kind in empty else (Raw(bytes(range(2 * wire.DTYPE_BYTES[code]))),)
            full = dict.fromkeys(("priority", "round", "origin", "wnd_cap", "pause", "epoch"), 65535)
            yield _frame(Pascaline(kind=kind, dtype=dtype, psn=2**32 - 1, **full), *rest)
    for op, flag in itertools.product(wire.OPS.values(), wire.FLAGS[:5]):
        yield _frame(Pascaline(op=op, dtype="f32", flags=flag), Raw(bytes(8)))
    for action, call in itertools.product(list(wire.ACTIONS.values())[1:], wire.COLLECTIVES):
        answers = "join" if action == "ack" else "none"
        most = {"argument": 4095, "bytes_whole": 2**48 - 1, "session": 2**64 - 1, "number": 2**32 - 1}
        most |= {"before": 0x1FFFF, "workers": 2**32 - 1, "joined": 65535, "group": 0xEFFF_FFFF}
        body = PascalineControl(action=action, answered=answers, call=call, **most)
        yield _frame(control, body)
    for status in wire.STATUSES.values():
        yield _frame(control, PascalineControl(action="ack", status=status, answered="query", dtype="bf16"))
    yield _frame(control, PascalineControl(action="join"), Raw(bytes(100)))
    for hearing, congestion in itertools.zip_longest(wire.HEARINGS, wire.CONGESTION, fillvalue=0):
        yield _frame(
            control, PascalineControl(hearing=hearing, congestion=congestion, group=0xFF15 << 32 | 9)
        )
    for code in wire.STATUSES:
        yield _frame(Pascaline(kind="ack", status=code))
    yield _frame(Pascaline(kind="gradient", flags="bypass", round=7), Raw(bytes(4)))
    reports = [
        wire.RankReport(rank=rank, state=state, silent_ms=rank, behind=7, port=49152, address="2001:db8::9")
        for rank, state in enumerate(list(wire.RANK_STATES.values())[-7:])
    ]
    text = "über 100 ms — ✓ 🧮"
    elements = [
        wire.TrailerBitmap(bits=wire.bitmap([0, 63, 1023], 1024)),
        wire.TrailerRanks(parts=reports),
        wire.TrailerSentence(text=text.encode()),
    ]
    ack = PascalineControl(action="ack", answered="query")
    yield _frame(control, ack, PascalineTrailer(elements=elements))
    yield _frame(control, ack, PascalineTrailer(elements=[wire.TrailerRanks(parts=[wire.RankReport()])]))


def test_every_code_has_its_name(tshark: Tshark) -> None:
    """Packets of every kind, action, status, collective and state of a rank, as the layers read them."""
    frames = [*_every_kind(), *(vector.frame for vector in _WELL_FORMED)]
    shown = tshark(frames)
    for frame, found in zip(frames, shown, strict=True):
        lines = vectors.described(frame)
        assert found.described() == {key: lines[key] for key in lines if key not in _BELOW}, frame.hex()
        assert not found.reasons, frame.hex()
    for key, names in (
        ("kind", wire.KINDS), ("dtype", wire.DTYPES), ("op", wire.OPS),
        ("control.status", wire.STATUSES), ("control.call", wire.COLLECTIVES), ("status", wire.STATUSES),
        ("control.hearing", wire.HEARINGS), ("control.congestion", wire.CONGESTION),
        ("ranks.state", wire.RANK_STATES), ("trailer.type", wire.TRAILER_TYPES),
    ):  # fmt: skip
        words = {field.word for one in shown for field in one.all(f"pascaline.{key}")}
        assert words == set(names.values()), key
    actions = {field.word for one in shown for field in one.all("pascaline.control.action")}
    assert actions == set(wire.ACTIONS.values()) - {"none"}


def test_names_are_the_documents(tshark: Tshark) -> None:
    """Each field of the tables of header and control body has its name there, and no other is shown."""
    (shown,) = tshark([_frame(Pascaline(kind="control"), PascalineControl())])
    text = _DOCUMENT.read_text()
    layout = text.partition("## 4.")[2].partition("## 5.")[0]
    header = set(re.findall(r"^\| \d+ \| (\w+) \| \d+", layout, re.MULTILINE))
    body = text.partition("| field | in a request | in an Ack |\n")[2].partition("\n\n")[0]
    control = set(re.findall(r"^\| (\w+) \|", body, re.MULTILINE))
    # Two fields each, as the layout above the table has them.
    control = control - {"element"} | {"op", "dtype", "argument"}
    named = {field.key: field.name for field in shown.fields if field.key.startswith("pascaline.")}
    assert all(key.endswith(f".{name}") for key, name in named.items() if name)
    own = {key for key in named if key.count(".") == 1} - {"pascaline.malformed"}
    assert own == {f"pascaline.{name}" for name in header}
    body_fields = {key for key in named if key.startswith("pascaline.control.")}
    assert body_fields == {f"pascaline.control.{name}" for name in control}


def _reason(found: Shown) -> str | None:
    assert len(found.reasons) <= 1
    return found.reasons[0] if found.reasons else None


def test_malformed_are_named(tshark: Tshark) -> None:
    """The reason that the document gives, as a field and as expert information."""
    malformed = [vector for vector in _VECTORS if vector.malformed]
    reasons = set(re.findall(r"^\| `(\w+)` \|", _DOCUMENT.read_text().partition("## 12.")[2], re.MULTILINE))
    assert reasons >= set(dissector.REASONS)
    assert {vector.malformed for vector in malformed} == reasons
    # By default Wireshark waits for the rest of a fragment, and looks at no checksum.
    options = ("-o", "ip.check_checksum:TRUE", "-o", "ip.defragment:FALSE")
    shown = tshark([vector.frame for vector in malformed], *options)
    for vector, found in zip(malformed, shown, strict=True):
        if vector.name in _NOT_REACHED:
            assert "pascaline" not in found.protocols, vector.name
            continue
        assert _reason(found) == vector.malformed, vector.name
        assert any(f"malformed: {vector.malformed}" in note for note in found.notes), vector.name


def test_flipped_bits_are_judged_as_the_text_says(tshark: Tshark) -> None:
    """Each bit of header, control body and trailer of each vector: refused for the same reason, or shown."""
    frames = []
    for vector in _WELL_FORMED:
        begin = int(vector.words("udp")["body"])
        end = len(vector.frame) - int(vector.words("udp")["padding"])
        for bit in range(8 * begin, 8 * end):
            frame = bytearray(vector.frame)
            frame[bit // 8] ^= 1 << bit % 8
            frames.append(bytes(frame))
    judged = [verdict(frame) for frame in frames]
    assert {"version", "kind", "flags", "dtype", "trailer", "payload_length", "control"} <= set(judged)
    wrong = [
        f"{frame.hex()}: {found}, not {reason}"
        for frame, reason, found in zip(frames, judged, tshark.reasons(frames), strict=True)
        if found != reason
    ]
    assert not wrong, "\n".join(wrong[:10])
    print(f"{len(frames)} packets, {sum(reason is not None for reason in judged)} of them refused")


def test_shorter_datagrams_are_judged(tshark: Tshark) -> None:
    """Every length that a datagram can be cut to, with IP and UDP lengths that fit."""
    bodies = [vector.frame[_HEADER:] for vector in _WELL_FORMED if vector.words("ethernet")["vlan"] == "none"]
    bodies = [body for body in bodies if len(body) < 200]
    frames = [_frame(Raw(body[:length])) for body in bodies for length in range(1, len(body))]
    assert tshark.reasons(frames) == [verdict(frame) for frame in frames]


def test_other_ports_are_recognised_by_content(tshark: Tshark) -> None:
    """Well-formed packets are dissected; others, and SwitchML's, are left alone."""
    good = [_frame(Pascaline(), Raw(bytes(64)), port=5000), *(vector.frame for vector in _WELL_FORMED[:1])]
    other = [
        _frame(Raw(bytes(64)), port=5000),
        _frame(Pascaline(version=1), Raw(bytes(64)), port=5000),
        _frame(Pascaline(), Raw(bytes(63)), port=5000),
    ]
    shown = tshark(good + other)
    assert ["pascaline" in found.protocols for found in shown] == [True] * len(good) + [False] * len(other)
    (server,) = tshark([_frame(Pascaline(kind="update"), Raw(bytes(3)), port=dissector.PORTS[1])])
    assert _reason(server) == "payload_length"


def test_ports_are_a_preference(tshark: Tshark) -> None:
    """An appliance may listen on several; the first ones are given up then."""
    frames = [_frame(Pascaline(version=1), port=port) for port in (16448, 16455, wire.PORT)]
    shown = tshark(frames, "-o", "pascaline.ports:16448-16455")
    assert [_reason(found) for found in shown] == ["version", "version", None]


def test_what_a_capture_has_cut_is_not_judged(tshark: Tshark) -> None:
    """The appliance's captures keep 1,536 bytes of a packet: the header is shown, the rest is not judged."""
    frame = _frame(Pascaline(psn=77), Raw(bytes(8000)), PascalineTrailer(elements=[wire.TrailerBitmap()]))
    (shown,) = tshark([frame], cut=1536)
    assert shown.one("pascaline.psn").show == "77"
    assert not shown.reasons
    assert any("has not the whole packet" in note for note in shown.notes)
    (shown,) = tshark([frame], cut=50)
    assert not shown.reasons
    assert any("has not the whole packet" in note for note in shown.notes)


def test_events_are_noted(tshark: Tshark) -> None:
    """Congestion, packets that were sent again, refusals."""
    (marked,) = tshark([_frame(Pascaline(flags="ecn_echo+retransmission"), Raw(bytes(8)))])
    assert any("congestion" in note for note in marked.notes)
    assert any("sent this PSN before" in note for note in marked.notes)
    body = PascalineControl(action="ack", status="rank_taken", answered="join")
    (refused,) = tshark([_frame(Pascaline(kind="control"), body)])
    assert "refused: rank_taken" in refused.notes


def test_elements_are_shown(tshark: Tshark) -> None:
    """The first values of a payload, little endian, and how many there are."""
    values = [1.0, -2.5, *map(float, range(30))]
    (shown,) = tshark([_frame(Pascaline(dtype="f32"), Raw(struct.pack("<32f", *values)))])
    assert shown.one("pascaline.elements").show == "32"
    assert [float(field.show) for field in shown.all("pascaline.f32")] == values[:16]
    (shown,) = tshark([_frame(Pascaline(dtype="i32"), Raw(struct.pack("<2i", -7, 2**31 - 1)))])
    assert [field.show for field in shown.all("pascaline.i32")] == ["-7", str(2**31 - 1)]
    (shown,) = tshark([_frame(Pascaline(dtype="u32"), Raw(struct.pack("<2I", 7, 2**32 - 1)))])
    assert [field.show for field in shown.all("pascaline.u32")] == ["7", str(2**32 - 1)]


@pytest.mark.parametrize("size", switchml.INTEGERS)
def test_packets_of_switchml(tshark: Tshark, size: int) -> None:
    """All fields of both sizes; what no client sends is said to be so."""
    integers = switchml.INTEGERS[size]
    values = {"size": size, "operation": 250, "packet": 2**31, "set": 1, "slot": 16383}
    exponents = {"exponent": -5, "exponent_2": 127}
    body = Raw(struct.pack(f">{integers}i", *range(-2, integers - 2)))
    layer = switchml.SwitchML(**values, **exponents)
    good, short, kind = tshark(
        [
            _frame(layer, body, port=switchml.SWITCHML_PORT),
            _frame(layer, Raw(body.load[4:]), port=switchml.SWITCHML_PORT),
            _frame(switchml.SwitchML(**values | {"kind": 2}), body, port=switchml.SWITCHML_PORT),
        ]
    )
    assert {key: good.one(f"switchml.{key}").show for key in values | exponents} == {
        key: str(value) for key, value in (values | exponents).items()
    }
    assert good.one("switchml.size").word == switchml.SIZES[size]
    assert good.one("switchml.set").word == "second"
    assert [field.show for field in good.all("switchml.integer")][:3] == ["-2", "-1", "0"]
    assert not good.notes
    assert all(any("SwitchML" in note for note in bad.notes) for bad in (short, kind))


def test_summaries(tshark: Tshark) -> None:
    """The line of the list of packets says what a packet is for, and about which PSN."""
    body = PascalineControl(action="ack", status="pending", answered="join")
    frames = [
        _frame(Pascaline(job=7, rank=2, psn=9, fan_in=4, epoch=3, flags="fin"), Raw(bytes(4))),
        _frame(Pascaline(kind="control", count=2, fan_in=4), body),
        _frame(Pascaline(kind="update", dtype=9), Raw(bytes(4))),
    ]
    lines = tshark.text(frames).splitlines()
    assert len(lines) == len(frames)
    for line, end in zip(
        lines,
        (
            "gradient job=7 rank=2 psn=9 epoch=3 count=1/4 [fin]",
            "ack pending to join job=1 rank=0 psn=0 epoch=0 count=2/4",
            "update job=1 rank=0 psn=0 epoch=0 count=1/1 malformed: dtype",
        ),
        strict=True,
    ):
        assert line.endswith(end), line
        assert "Pascaline" in line
