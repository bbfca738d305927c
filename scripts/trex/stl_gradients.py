"""TRex profile: gradients of N ranks × J jobs. The ranks must have joined (stl_control.py, --epochs)."""

from pascaline_trex import Profile
from pascaline_tunables import LOADS


def register() -> Profile:
    return Profile("stl_gradients", LOADS["gradients"], __doc__)
