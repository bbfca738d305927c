"""TRex's streams, without TRex."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.cases import Cases
from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]


def test_vectors_and_replay(shell: Shell, cases: Cases, pascaline: Path) -> None:
    """Scapy's reading of the protocol against the test vectors; streams through real ports, every frame counted."""
    done = shell("scripts/trex/check", "--binary", pascaline, seconds=300, code=None)
    cases.add_last_line(done.out)
    assert done.code == 0
