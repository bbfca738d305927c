"""Every attack holds."""

from __future__ import annotations

import pytest

from . import hosts, members, neighbours, noise, sealed, strangers, updates
from .scene import Attack, Case

_KINDS = (hosts, members, neighbours, noise, sealed, strangers, updates)


@pytest.mark.parametrize("case", [case for kind in _KINDS for case in kind.CASES], ids=str)
def test_attack(attack: Attack, case: Case) -> None:
    """While the workers allreduce."""
    attack(case)
