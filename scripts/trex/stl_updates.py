"""TRex profile: Olaf's asynchronous updates of N workers × J clusters (jobs), with reward and time."""

from pascaline_trex import Profile
from pascaline_tunables import LOADS


def register() -> Profile:
    return Profile("stl_updates", LOADS["updates"], __doc__)
