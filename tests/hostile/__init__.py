"""An attacker with raw sockets beside four workers at a real appliance.

Every case attacks while the workers allreduce, in turns with a control: as many frames of the same length, at
the same rate, to a port of the appliance without a service. A case holds if every sum is exact, workers join,
sum and leave throughout, an allreduce takes at most 1.10 times what it takes beside the control, the drop
reason that names the attack counts it, and the appliance has neither grown nor lost packet buffers.
"""

import sys

from ..bed import ROOT

# The protocol's Scapy layers.
sys.path.append(str(ROOT / "scripts/trex"))
