"""Runs tshark with the dissector, and tells what it shows in the words of the protocol's test vectors."""

from __future__ import annotations

import ipaddress
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scapy.utils import RawPcapWriter

import dissector as dissector
import pascaline_layers as wire

from ..runner.shell import Shell
from ..trex import vectors

# As tshark labels a value: the bits that it is made of, the field's name, the value's name, the value.
_LABEL = re.compile(r"(?:[01. ]+= )?(?P<name>\w[\w ]*): (?P<word>.*?)(?: \((?P<code>-?\d+)\))?", re.DOTALL)
_ETHERNET = 1
_HEADER = ("job", "rank", "psn", "fan_in", "count", "epoch")
_TERMS = ("number", "session", "cookie", "payload", "window", "joined")
_CONTROL = ("expected", "got", "before", "psn", "first", "workers", "bytes")


@dataclass(frozen=True)
class Field:
    """One field as tshark shows it."""

    key: str
    name: str
    word: str
    show: str
    value: str
    at: int


class Shown:
    """One packet as tshark shows it."""

    def __init__(self, packet: ET.Element) -> None:
        self.protocols = [str(proto.get("name")) for proto in packet.iter("proto")]
        self.fields = list(_fields(packet))

    def all(self, key: str) -> list[Field]:
        """The fields with this filter name."""
        return [field for field in self.fields if field.key == key]

    def one(self, key: str) -> Field:
        (found,) = self.all(key)
        return found

    @property
    def reasons(self) -> list[str]:
        """Why the dissector says that the packet is malformed."""
        return [field.show for field in self.all("pascaline.malformed")]

    @property
    def notes(self) -> list[str]:
        return [field.show for field in self.all("_ws.expert.message")]

    def described(self) -> dict[str, str]:
        """The packet in the words of a test vector, but for the layers that are Wireshark's own."""
        words = {name: self._word(f"pascaline.{name}") for name in ("kind", "dtype", "op")}
        lines = {
            "header": f"kind={words['kind']} flags={self._flags()} element={words['dtype']}/{words['op']} "
            + _shown(self, "pascaline", _HEADER)
            + self._own()
        }
        if self.all("pascaline.control.action"):
            lines["control"] = self._control()
        else:
            lines["payload"] = next((field.value for field in self.all("pascaline.payload")), "none")
        for field in self.all("pascaline.trailer.type"):
            lines[field.word] = getattr(self, f"_{field.word}")()
        return lines

    def _own(self) -> str:
        found = (
            f" {name}={field.word if name == 'status' else field.show}"
            for name in vectors.OWN
            for field in self.all(f"pascaline.{name}")
        )
        return "".join(found)

    def _word(self, key: str) -> str:
        return self.one(key).word

    def _flags(self) -> str:
        names = (
            name for name in wire.FLAGS if self.one(f"pascaline.flags.{name}").show.lower() in ("1", "true")
        )
        return ",".join(names) or "none"

    def _control(self) -> str:
        words = {
            name: self._word(f"pascaline.control.{name}")
            for name in (
                "action", "status", "answers", "dtype", "op", "call", "argument", "hearing", "congestion"
            )
        }  # fmt: skip
        element = _element(words["dtype"], words["op"])
        called = f"{words['call']}/{words['argument']}"
        call = "" if called == "allreduce/0" else f" call={called}"
        return (
            f"action={words['action']} status={words['status']} answers={words['answers']} element={element} "
            + _shown(self, "pascaline.control", _TERMS)
            + f" hearing={words['hearing']} congestion={words['congestion']} "
            + _shown(self, "pascaline.control", _CONTROL)
            + f" group={vectors.group(int(self.one('pascaline.control.group').show))}"
            + call
        )

    def _bitmap(self) -> str:
        return _shown(self, "pascaline.bitmap", ("ranks", "capacity"))

    def _update(self) -> str:
        reward = float(self.one("pascaline.update.reward").show)
        return f"reward={reward:g} generated_ns={self.one('pascaline.update.generated_ns').show}"

    def _queue(self) -> str:
        return _shown(self, "pascaline.queue", ("clusters", "capacity", "waiting"))

    def _seal(self) -> str:
        return f"counter={self.one('pascaline.seal.counter').show} tag={self.one('pascaline.seal.tag').value}"

    def _operations(self) -> str:
        most, differing = (
            f"{rank},{_element(dtype, op)},{first},{length}"
            for rank, dtype, op, first, length in self._columns(
                "operations", "rank", "dtype", "op", "first", "bytes"
            )
        )
        return f"most={most} differing={differing}"

    def _ranks(self) -> str:
        keys = ("rank", "state", "silent_ms", "behind", "port", "address")
        return " ".join(
            f"{rank}={','.join(known)},{_address(address)}"
            for rank, *known, address in self._columns("ranks", *keys)
        )

    def _sentence(self) -> str:
        return self.one("pascaline.sentence.text").show

    def _columns(self, element: str, *names: str) -> Iterator[tuple[str, ...]]:
        columns = ([field.word for field in self.all(f"pascaline.{element}.{name}")] for name in names)
        return zip(*columns, strict=True)


def _fields(packet: ET.Element) -> Iterator[Field]:
    for field in packet.iter("field"):
        label = _LABEL.fullmatch(field.get("showname", ""))
        show = field.get("show", "")
        name, word = (label["name"], label["word"] if label["code"] else show) if label else ("", show)
        yield Field(
            field.get("name", ""), name, word, show, field.get("value", ""), int(field.get("pos", "0"))
        )


def _shown(shown: Shown, prefix: str, names: Iterable[str]) -> str:
    return " ".join(f"{name}={shown.one(f'{prefix}.{name}').show}" for name in names)


def _element(dtype: str, op: str) -> str:
    return "none" if dtype == "none" else f"{dtype}/{op}"


def _address(text: str) -> str:
    address = ipaddress.IPv6Address(text)
    return str(address.ipv4_mapped or address)


class Tshark:
    """Tshark without the user's settings and plugins."""

    def __init__(self, shell: Shell, files: Path) -> None:
        self._shell, self._files = shell, files

    def __call__(self, frames: Sequence[bytes], *options: object, cut: int | None = None) -> list[Shown]:
        """What it shows of each frame; of a capture that keeps no more than `cut` bytes of each."""
        text = self.text(frames, "-T", "pdml", *options, cut=cut)
        shown = [Shown(packet) for packet in ET.fromstring(text).iter("packet")]
        assert len(shown) == len(frames)
        return shown

    def reasons(self, frames: Sequence[bytes]) -> list[str | None]:
        """Why each frame is malformed, and nothing else of it: this is quick."""
        lines = self.text(frames, "-T", "fields", "-e", "pascaline.malformed").splitlines()
        assert len(lines) == len(frames)
        return [line or None for line in lines]

    def text(self, frames: Sequence[bytes], *options: object, cut: int | None = None) -> str:
        """What it prints."""
        capture = self._files / "packets.pcap"
        with RawPcapWriter(str(capture), linktype=_ETHERNET) as writer:
            writer.write_header(None)
            for frame in frames:
                kept = frame[:cut]
                writer.write_packet(kept, sec=0, usec=0, caplen=len(kept), wirelen=len(frame))
        home = {"HOME": str(self._files), "WIRESHARK_CONFIG_DIR": str(self._files / "settings")}
        words = ("tshark", "-X", f"lua_script:{dissector.DISSECTOR}", "-r", capture, *options)
        done = self._shell(*words, environment=home, seconds=120)
        assert "Lua" not in done.err, done.err
        return done.out
