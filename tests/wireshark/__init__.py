"""The dissector for Wireshark: what tshark makes of the protocol's packets."""

from .. import trex as trex  # It makes scripts/trex importable.
