"""TRex profile: packets that must be refused, --psns of each way to be wrong.

With --refused the ranks must have joined.
"""

from pascaline_trex import Profile
from pascaline_tunables import LOADS


def register() -> Profile:
    return Profile("stl_malformed", LOADS["malformed"], __doc__)
