"""Every card does what it has to, and so does the service."""

from __future__ import annotations

import pytest

from . import at_card, in_line, service
from .scene import Attempt, Case

# Each card's worker after the appliance of that card; what is about no single card at the end.
_ALL = [*at_card.CASES, *service.WORKERS, *in_line.CASES, *service.CASES]


@pytest.mark.parametrize("case", _ALL, ids=str)
def test_guest(attempt: Attempt, case: Case) -> None:
    attempt(case)
