"""Makes conf/wireshark/pascaline.lua, the dissector for Wireshark, out of the Scapy layers.

The layers are the one description of the packets in Python. What becomes a field of Wireshark's, at which
byte, of which type and with which names for its values, is read off them; what a dissector does with such
fields is in dissector.d, which stays as it is.

    scripts/wireshark            writes the dissector
    scripts/wireshark --check    exit code 1 if the one in the repository is another
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scapy import fields as kinds
from scapy.packet import Packet

import pascaline_layers as wire
import switchml_layers as switchml

ROOT = Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "conf/wireshark/pascaline.lua"
_PARTS = Path(__file__).with_name("dissector.d")

# The port of the appliance, and that of a parameter server.
PORTS = (wire.PORT, wire.PORT + 1)
# Why a packet is malformed (protocol, section 12), where a dissector of UDP can see it.
REASONS = {
    "vlan_depth": "more than two VLAN tags",
    "length": "the UDP length is not what the IP packet holds",
    "ip_header": "an IPv4-mapped address in an IPv6 packet",
    "ip_options": "IPv4 options, or IPv6 extension headers",
    "ip_fragment": "a fragment",
    "ip_checksum": "the IPv4 header checksum is wrong",
    "truncated": "shorter than the header, or than a control body",
    "version": "not version 3",
    "kind": "a kind that version 3 does not have",
    "flags": "a reserved flag is set",
    "dtype": "an element that version 3 does not have",
    "trailer": "lengths that do not add up, or an element that is unknown, out of order or not legal",
    "payload_length": "not a whole number of elements, or none or some where the kind has others",
    "control": "a control body that version 3 does not have",
}
# Tables of names, by the name that they have in Lua.
_TABLES: dict[str, Mapping[int, str]] = {
    "KINDS": wire.KINDS,
    "DTYPES": wire.DTYPES,
    "DTYPES_OR_NONE": wire.DTYPES_OR_NONE,
    "OPS": wire.OPS,
    "ACTIONS": wire.ACTIONS,
    "STATUSES": wire.STATUSES,
    "COLLECTIVES": wire.COLLECTIVES,
    "RANK_STATES": wire.RANK_STATES,
    "TRAILER_TYPES": wire.TRAILER_TYPES,
    "HEARINGS": wire.HEARINGS,
    "CONGESTION": wire.CONGESTION,
    "SIZES": switchml.SIZES,
    "SETS": switchml.SETS,
}
_WHOLE = (8, 16, 24, 32, 64)


@dataclass
class Row:
    """One field as Wireshark knows it."""

    name: str
    first_bit: int
    bits: int
    type: str
    names: str = ""
    flags: bool = False
    # Of packets of these uses alone.
    uses: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[int, int]:
        """The bytes that it lies in: the first one and their number."""
        at = self.first_bit // 8
        return at, (self.first_bit + self.bits - 1) // 8 + 1 - at

    def lua(self) -> str:
        """A table's constructor."""
        at, size = self.place
        parts = [f'name = "{self.name}"', f"at = {at}", f"size = {size}", f'type = "{self.type}"']
        if self.bits < 8 * size:
            # Behind it in these bytes.
            rest = 8 * (at + size) - self.first_bit - self.bits
            parts += [f"bit = {self.first_bit - 8 * at}", f"bits = {self.bits}"]
            parts.append(f"mask = {((1 << self.bits) - 1) << rest:#x}")
        if self.names:
            parts.append(f"names = {self.names}")
        if self.flags:
            parts.append("flags = FLAGS")
        if self.uses:
            parts.append(f"of = {{ {', '.join(f'{use} = true' for use in self.uses)} }}")
        return f"{{ {', '.join(parts)} }}"


def rows(layer: type[Packet], first: int = 0) -> Iterator[Row]:
    """The fields of a layer that have a place of their own, from this one on, counted from its first byte."""
    bit = 0
    for field in layer.fields_desc[first:]:
        own = isinstance(field, wire.Own)
        found = field.fld if own else field
        if isinstance(found, kinds.PacketListField):
            return
        if isinstance(found, kinds.StrLenField) and not isinstance(found, kinds.StrFixedLenField):
            return
        bit, uses = (8 * field.at, field.uses) if own else (bit, ())
        bits = _bits(found)
        name = wire.PROTOCOL_NAMES.get(found.name, found.name)
        is_flags = isinstance(found, kinds.FlagsField)
        if not name.startswith("unused"):
            yield Row(name, bit, bits, _type(found, bit, bits), _names(found), is_flags, uses)
        bit += bits


def _bits(found: Any) -> int:
    # Only fields of bits have a size in bits.
    if hasattr(found, "size"):
        return int(found.size)
    return 24 if isinstance(found, kinds.ThreeBytesField) else 8 * int(found.sz)


def _type(found: Any, bit: int, bits: int) -> str:
    """The name of the type in Wireshark's Lua."""
    if isinstance(found, kinds.IEEEFloatField):
        return "float"
    if isinstance(found, kinds.IP6Field):
        return "ipv6"
    if isinstance(found, kinds.StrFixedLenField):
        return "bytes"
    if isinstance(found, kinds.SignedByteField):
        return "int8"
    if bits in _WHOLE and bit % 8 == 0:
        return f"uint{bits}"
    size = 8 * Row("", bit, bits, "").place[1]
    # Of 48 bits: a dissector reads them itself.
    return f"uint{size}" if size in _WHOLE else "uint64"


def _names(found: Any) -> str:
    if isinstance(found, kinds.FlagsField) or not hasattr(found, "i2s"):
        return ""
    return next(name for name, table in _TABLES.items() if table == found.i2s)


def text() -> str:
    """The dissector."""
    head, *rest = (
        (_PARTS / f"{part}.lua").read_text() for part in ("head", "fields", "legal", "show", "dissect")
    )
    return "\n".join((head, *_tables(), "", *rest))


def _tables() -> Iterator[str]:
    yield f'local PORTS = "{PORTS[0]}-{PORTS[-1]}"'
    yield f'local SWITCHML_PORT = "{switchml.SWITCHML_PORT}"'
    yield ""
    for name, table in _TABLES.items():
        yield from _table(name, {number: f'"{word}"' for number, word in table.items()})
    # By bit, from the lowest.
    yield from _table("FLAGS", {bit: f'"{word}"' for bit, word in enumerate(wire.FLAGS)})
    yield from _table("DTYPE_BYTES", wire.DTYPE_BYTES)
    yield from _table("INTEGERS", switchml.INTEGERS)
    yield "local REASONS = {"
    yield from (f"    {name} = {json.dumps(reason)}," for name, reason in REASONS.items())
    yield "}"
    yield from _layout("HEADER", wire.Pascaline)
    yield from _layout("CONTROL", wire.PascalineControl)
    yield from _layout("SWITCHML", switchml.SwitchML)
    yield ""
    yield "local ELEMENTS = {"
    for number, element in wire.ELEMENTS.items():
        yield from _element(number, element)
    yield "}"


def _table(name: str, entries: Mapping[int, object]) -> Iterator[str]:
    yield f"local {name} = {{"
    line = "   "
    for number, value in entries.items():
        entry = f" [{number}] = {value},"
        if len(line) + len(entry) > 100:
            yield line
            line = "   "
        line += entry
    yield line
    yield "}"


def _layout(name: str, layer: type[Packet]) -> Iterator[str]:
    yield ""
    yield f"-- {(layer.__doc__ or '').splitlines()[0]}"
    yield f"local {name} = {{"
    yield from (f"    {row.lua()}," for row in rows(layer))
    yield "}"


def _element(number: int, element: type[wire.TrailerElement]) -> Iterator[str]:
    """Behind type and length: fields of its own, equal parts, or what one word names."""
    lengths = element.lengths
    yield f"    -- {(element.__doc__ or '').splitlines()[0]}"
    yield f"    [{number}] = {{"
    yield f'        name = "{wire.TRAILER_TYPES[number]}",'
    yield f"        least = {lengths[0]}, most = {lengths[-1]}, step = {lengths.step},"
    part = getattr(element, "part", None)
    if part:
        yield f"        part = {len(part())},"
    yield "        fields = {"
    yield from (f"            {row.lua()}," for row in (rows(part) if part else rows(element, 2)))
    yield "        },"
    if not part and not list(rows(element, 2)):
        yield f'        rest = "{element.fields_desc[2].name}",'
    yield "    },"


def main(arguments: list[str]) -> int:
    """Writes the dissector, or compares it."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="scripts/wireshark", description=__doc__, formatter_class=form)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if it would change")
    parser.add_argument("--json", action="store_true", help="last line of output: one JSON object")
    options = parser.parse_args(arguments)
    made = text()
    same = DISSECTOR.is_file() and DISSECTOR.read_text() == made
    if not options.check and not same:
        DISSECTOR.parent.mkdir(parents=True, exist_ok=True)
        DISSECTOR.write_text(made)
    good = same or not options.check
    if options.json:
        print(json.dumps({"ok": good, "file": str(DISSECTOR), "changed": not same}))
    elif good:
        print(DISSECTOR)
    if not good:
        print(f"wireshark: {DISSECTOR} is not what the layers say: run scripts/wireshark", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
