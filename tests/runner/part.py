"""The steps that one of several processes runs."""

from enum import Enum

import pytest

# Folders and files whose steps wait more than they compute, and judge no time that a busy machine could miss.
_PATIENT = {"lab", "mistakes", "trex", "test_clients.py"}


class Part(Enum):
    ALL = "all"
    # Those that root has to run, and the others.
    ROOT = "root"
    USER = "user"
    # Those that run beside compilers, and the others.
    BESIDE = "beside"
    ALONE = "alone"

    def has(self, item: pytest.Item) -> bool:
        """Whether a step is among them."""
        match self:
            case Part.ALL:
                return True
            case Part.ROOT | Part.USER:
                return (item.get_closest_marker("root") is not None) == (self is Part.ROOT)
            case Part.BESIDE | Part.ALONE:
                patient = not _PATIENT.isdisjoint((item.path.parent.name, item.path.name))
                return patient == (self is Part.BESIDE)
