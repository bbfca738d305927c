"""What has to pass an appliance in line as it is: frames of many kinds, TCP with the kernel's offloads."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from netns import in_namespace

if TYPE_CHECKING:
    from inline import Wire

_PACKET_AUXDATA = 8
_SOL_PACKET = 263
_VLAN_VALID, _VLAN_TPID_VALID = 0x10, 0x40
_ALL = 3
_SECONDS = 2.0
_TCP_BYTES = 8 << 20
_TCP_SECONDS = 10.0
_PATTERN = bytes(index * 37 & 0xFF for index in range(9216))
# Of the data of a first fragment, at most; of all fragments but the last a multiple of eight.
_FRAGMENT = 800


def _ipv4(fragment: int, payload: bytes, protocol: int = 17) -> bytes:
    """A packet from one host to another, neither the appliance."""
    length = struct.pack(">H", 20 + len(payload))
    head = b"\x45\x00" + length + b"\x12\x34" + struct.pack(">H", fragment) + bytes([64, protocol])
    ends = bytes([10, 77, 0, 201, 10, 77, 0, 202])
    total = sum(struct.unpack(">9H", head + ends))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return head + struct.pack(">H", ~total & 0xFFFF) + ends + payload


def frames_to_pass(driver: str, mtu: int) -> dict[str, bytes]:
    """Frames by what they are."""
    ends = bytes.fromhex("0a00000000ca0a00000000c9")
    vlan, ip4, ip6 = b"\x81\x00\x00\x2a", b"\x08\x00", b"\x86\xdd"
    cut = min(_FRAGMENT, (mtu - 20) // 8 * 8)
    data = _PATTERN[: min(1400, 2 * cut - 8)]
    udp = struct.pack(">HHHH", 7, 7, 8 + len(data), 0) + data
    ipv6 = b"\x60\x00\x00\x00" + struct.pack(">HBB", 64, 17, 64) + b"\xfd" * 32 + _PATTERN[:64]
    kinds = {
        "an unknown protocol": ends + b"\x88\xb5" + _PATTERN[:100],
        "LLDP": bytes.fromhex("0180c200000e") + ends[6:] + b"\x88\xcc" + _PATTERN[:60],
        "multicast": bytes.fromhex("01005e000005") + ends[6:] + ip4 + _ipv4(0, _PATTERN[:64], 89),
        "IPv4, as long as the MTU": ends + ip4 + _ipv4(0, _PATTERN[: mtu - 20], 47),
        "IPv6": ends + ip6 + ipv6,
        "a VLAN": ends + vlan + ip4 + _ipv4(0, _PATTERN[:64], 47),
        "two VLANs": ends + vlan + vlan + ip4 + _ipv4(0, _PATTERN[:64], 47),
    }
    if driver == "kernel":
        # net_af_packet has the kernel put fragments together, and knows one kind of tags.
        kinds |= {
            "a first fragment": ends + ip4 + _ipv4(0x2000, udp[:cut]),
            "a last fragment": ends + ip4 + _ipv4(cut // 8, udp[cut:]),
            "an 802.1ad tag": ends + b"\x88\xa8\x00\x2a" + ip4 + _ipv4(0, _PATTERN[:64], 47),
            "QinQ": ends + b"\x88\xa8\x00\x2a" + vlan + ip6 + ipv6,
        }
    return kinds


def pass_untouched(wire: Wire, driver: str) -> tuple[list[str], int]:
    """Sends frames both ways. Returns what did not arrive as it left, and how many kinds there were."""
    ends = ((wire.rack, "uplink"), (wire.server, "eth0"))
    left, right = (in_namespace(name, lambda at=at: _listen(at)) for name, at in ends)  # type: ignore[misc]
    lost = []
    kinds = frames_to_pass(driver, wire.mtu)
    try:
        for what, frame in kinds.items():
            for way, (source, sink) in (("out", (left, right)), ("back", (right, left))):
                source.send(frame)
                if not _arrives(sink, frame):
                    lost.append(f"{what} ({way})")
                    break
    finally:
        left.close()
        right.close()
    return lost, len(kinds)


def _listen(interface: str) -> socket.socket:
    """Everything that arrives there, with what the kernel says of tags."""
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    listener.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    listener.bind((interface, _ALL))
    return listener


def _arrives(listener: socket.socket, frame: bytes) -> bool:
    end = time.monotonic() + _SECONDS
    while (left := end - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            found, beside, _, _ = listener.recvmsg(65536, 256)
        except TimeoutError:
            break
        for _, kind, data in beside:
            if kind == _PACKET_AUXDATA:
                status, _, _, _, _, tag, protocol = struct.unpack("=IIIHHHH", data[:20])
                if status & _VLAN_VALID:
                    known = protocol if status & _VLAN_TPID_VALID else 0x8100
                    found = found[:12] + struct.pack(">HH", known, tag) + found[12:]
        if found == frame:
            return True
    return False


def offloaded_tcp(wire: Wire, server: str) -> bool:
    """Whether TCP works both ways while the kernel leaves checksums and long segments to the card."""
    wire.offloads("on")
    try:
        return _echoes(wire, server)
    finally:
        wire.offloads("off")


def _echoes(wire: Wire, server: str) -> bool:
    sent = hashlib.shake_256(b"inline").digest(_TCP_BYTES)
    listener = in_namespace(wire.server, lambda: socket.create_server((server, 7007)))
    listener.settimeout(_TCP_SECONDS)

    def read(stream: socket.socket) -> bytes:
        return b"".join(iter(lambda: stream.recv(1 << 16), b""))

    def echo() -> None:
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(_TCP_SECONDS)
            stream.sendall(read(stream))

    served = threading.Thread(target=echo, daemon=True)
    served.start()
    address = (server, 7007)
    try:
        with in_namespace(wire.workers[0], lambda: socket.create_connection(address, _TCP_SECONDS)) as stream:
            stream.sendall(sent)
            stream.shutdown(socket.SHUT_WR)
            back = read(stream)
    except OSError:
        return False
    finally:
        listener.close()
    served.join(1.0)
    return back == sent
