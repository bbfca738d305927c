"""Traffic that has to pass an appliance in line unchanged: frames of many kinds, TCP with offloads."""

from __future__ import annotations

import hashlib
import socket
import sys
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

_ENDS = "0a00000000ca0a00000000c9"
_TAG, _SERVICE_TAG, _IP4, _IP6 = "8100002a", "88a8002a", "0800", "86dd"
_HOSTS = "0a4d00c90a4d00ca"
# IPv4 for 64 bytes of GRE, and IPv6 for as many of UDP.
_SHORT = "4500005412340000402f521b" + _HOSTS
_V6 = "6000000000401140" + 32 * "fd"
# Headers of frames between two hosts, neither of them the appliance, and which bytes of the pattern follow.
# tests/static/test_transit.py checks them against Scapy.
_FRAMES = {
    "an unknown protocol": (_ENDS + "88b5", 0, 100),
    "LLDP": ("0180c200000e0a00000000c988cc", 0, 60),
    "multicast": ("01005e0000050a00000000c9" + _IP4 + "4500005412340000405951f1" + _HOSTS, 0, 64),
    "IPv6": (_ENDS + _IP6 + _V6, 0, 64),
    "a VLAN": (_ENDS + _TAG + _IP4 + _SHORT, 0, 64),
    "two VLANs": (_ENDS + _TAG + _TAG + _IP4 + _SHORT, 0, 64),
}
# net_af_packet has the kernel reassemble fragments, and knows one kind of tags.
_KERNEL_FRAMES = {
    "a first fragment": (_ENDS + _IP4 + "4500007c1234200040113211" + _HOSTS + "0007000700d00000", 0, 96),
    "a last fragment": (_ENDS + _IP4 + "4500007c1234000d40115204" + _HOSTS, 96, 200),
    "an 802.1ad tag": (_ENDS + _SERVICE_TAG + _IP4 + _SHORT, 0, 64),
    "QinQ": (_ENDS + _SERVICE_TAG + _TAG + _IP6 + _V6, 0, 64),
}
# The checksum and the length of an IPv4 header, added.
_CHECKED = 0x526F


def frames_to_pass(driver: str, mtu: int) -> dict[str, bytes]:
    """Frames by name."""
    long = f"{_ENDS}{_IP4}4500{mtu:04x}12340000402f{_CHECKED - mtu:04x}{_HOSTS}"
    kinds = _FRAMES | {"IPv4, as long as the MTU": (long, 0, mtu - 20)}
    kinds |= _KERNEL_FRAMES if driver == "kernel" else {}
    return {what: bytes.fromhex(header) + _PATTERN[begin:end] for what, (header, begin, end) in kinds.items()}


def pass_untouched(wire: Wire, driver: str) -> tuple[list[str], int]:
    """Sends frames both ways. Returns the kinds that did not arrive unchanged, and the number of kinds."""
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
    """All frames that arrive there, with the VLAN tags that the kernel reports."""
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
        for _, told, data in beside:
            if told == _PACKET_AUXDATA:
                # Of linux/if_packet.h's tpacket_auxdata: the status, the tag, its ethertype.
                status, tag, kind = (_native(data[at : at + size]) for at, size in ((0, 4), (16, 2), (18, 2)))
                if status & _VLAN_VALID:
                    known = kind if status & _VLAN_TPID_VALID else 0x8100
                    found = found[:12] + known.to_bytes(2) + tag.to_bytes(2) + found[12:]
        if found == frame:
            return True
    return False


def _native(number: bytes) -> int:
    return int.from_bytes(number, sys.byteorder)


def offloaded_tcp(wire: Wire, server: str) -> bool:
    """Whether TCP works both ways while checksums and long segments are offloaded to the card."""
    wire.offloads("on")
    try:
        return echoes(wire, server)
    finally:
        wire.offloads("off")


def echoes(wire: Wire, server: str) -> bool:
    """Whether a stream from the first worker to the server and back brings the same bytes."""
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
