"""TRex's streams, without TRex."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runner.cases import Cases
from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]


def test_vectors_and_replay(shell: Shell, cases: Cases, pascaline: Path) -> None:
    """Scapy reads the test vectors; streams go through real ports, and every frame is counted."""
    done = shell("scripts/trex/check", "--binary", pascaline, seconds=300, code=None)
    cases.add_last_line(done.out)
    assert done.code == 0
