"""SwitchML's UDP packets as a Scapy layer; docs/switchml.md has their bytes.

One of the larger size, with 256 integers:

    Ether()/IP()/UDP(dport=SWITCHML_PORT)/SwitchML(operation=3, packet=17, slot=5)/Raw(integers)
"""

from __future__ import annotations

from scapy.fields import BitEnumField, BitField, ByteField, IntField, SignedByteField
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_layers

SWITCHML_PORT = 48864
# By the code of the size: how many integers a packet has.
INTEGERS = {1: 64, 3: 256}
SIZES = {code: f"{integers} integers" for code, integers in INTEGERS.items()}
SETS = {0: "first", 1: "second"}


class SwitchML(Packet):
    """The ten bytes before the integers, which are big endian."""

    name = "SwitchML"
    fields_desc = [
        BitField("kind", 1, 4),
        BitField("unused", 0, 1),
        BitEnumField("size", 3, 3, SIZES),
        ByteField("operation", 0),
        IntField("packet", 0),
        BitEnumField("set", 0, 1, SETS),
        BitField("slot", 0, 15),
        SignedByteField("exponent", 0),
        SignedByteField("exponent_2", 0),
    ]


bind_layers(UDP, SwitchML, sport=SWITCHML_PORT)
bind_layers(UDP, SwitchML, dport=SWITCHML_PORT)
