"""scripts/bench measures what it says."""

import sys
from pathlib import Path

import pytest

from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]


def test_quick_report(shell: Shell, pascaline: Path, target: Path) -> None:
    """Every figure is there and none absurd; wrong sums fail it, and memory beyond what was promised."""
    out = target / "test-logs/bench"
    sections = ("--quick", "--no-peers", "--only", "host,allreduce,olaf,memory,ends")
    said = shell("scripts/bench", *sections, "--json", "--binary", pascaline, "--out", out, seconds=240).out
    output = out / "output.json"
    output.write_text(said)
    shell(sys.executable, "-B", "scripts/bench.d/complete.py", output)
    assert all((out / name).stat().st_size for name in ("report.md", "allreduce.svg"))
