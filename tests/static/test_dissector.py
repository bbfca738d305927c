"""The dissector for Wireshark in the repository is the one that the Scapy layers make."""

from tests.wireshark.tshark import dissector


def test_dissector_is_made_of_the_layers() -> None:
    """`scripts/wireshark` makes it anew."""
    assert dissector.DISSECTOR.read_text() == dissector.text()
