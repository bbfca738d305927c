"""Checks of the TRex profiles without TRex.

The Scapy layers against the protocol's test vectors, the profiles through TRex's own compiler of streams, and
the same streams as pcap files replayed into real DPDK ports of an appliance that must count every frame under
the right name.
"""

import sys

from ..bed import ROOT

sys.path.append(str(ROOT / "scripts/trex"))
