"""The mistakes that users make, and whether the error names rank and reason, and how soon.

Each case makes one mistake against a real appliance on DPDK ports, with real workers, and checks what each of
them says against what it must say. A case is good only if the mistake is named in time.
"""

import sys

from ..bed import ROOT

# The protocol's Scapy layers.
sys.path.append(str(ROOT / "scripts/trex"))
