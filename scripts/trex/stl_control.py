"""TRex profile: every rank asks to join its jobs, or leaves them, one packet each.

A Join counts with the cookie of its answer, which a profile cannot read: `scripts/trex/run … join` joins.
The same --session repeats a request; a larger one is a rank that has started anew.
"""

from pascaline_trex import Profile
from pascaline_tunables import CONTROL


def register() -> Profile:
    return Profile("stl_control", CONTROL, __doc__)
