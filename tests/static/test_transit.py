"""The frames that scripts/demo --inline sends past an appliance, against Scapy."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.packet import Raw

from untouched import frames_to_pass

_LAYERS = {
    "an unknown protocol": [Ether, Raw],
    "LLDP": [Ether, Raw],
    "multicast": [Ether, IP, Raw],
    "IPv4, as long as the MTU": [Ether, IP, Raw],
    "IPv6": [Ether, IPv6, UDP, Raw],
    "a VLAN": [Ether, Dot1Q, IP, Raw],
    "two VLANs": [Ether, Dot1Q, Dot1Q, IP, Raw],
    "a first fragment": [Ether, IP, UDP, Raw],
    "a last fragment": [Ether, IP, Raw],
    "an 802.1ad tag": [Ether, Dot1AD, IP, Raw],
    "QinQ": [Ether, Dot1AD, Dot1Q, IPv6, UDP, Raw],
}


@pytest.mark.parametrize("mtu", [128, 9216])
@pytest.mark.parametrize("what", _LAYERS)
def test_frame_is_what_it_is_called(what: str, mtu: int) -> None:
    """Its layers, the checksum of IPv4, and its length."""
    frame = frames_to_pass("kernel", mtu)[what]
    packet = Ether(frame)
    layers = [layer for layer in packet.layers() if layer.__name__ in {one.__name__ for one in _LAYERS[what]}]
    assert layers == _LAYERS[what]
    if IP in packet:
        again = packet[IP].copy()
        del again.chksum
        assert packet[IP].chksum == IP(bytes(again)).chksum
        assert packet[IP].len == len(packet[IP])
    assert (len(frame) == 14 + mtu) == (what == "IPv4, as long as the MTU")


def test_fragments_make_a_datagram() -> None:
    """The first has the beginning, the last follows where it ends."""
    frames = frames_to_pass("kernel", 1500)
    first, last = (Ether(frames[what])[IP] for what in ("a first fragment", "a last fragment"))
    assert (first.flags.MF, first.frag, last.flags.MF) == (True, 0, False)
    assert 8 * last.frag == len(first) - 20
    assert first[UDP].len == len(first) - 20 + len(last) - 20
