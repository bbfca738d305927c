"""scripts/hostile and scripts/mistakes in their short form: each of their cases counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.runner.cases import Cases
from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]


@pytest.mark.parametrize(("suite", "key", "seconds"), [("mistakes", "named", 180), ("hostile", "held", 400)])
def test_suite(suite: str, key: str, seconds: float, shell: Shell, cases: Cases, pascaline: Path) -> None:
    """Each mistake is named in time to every rank that it concerns; each attack does no harm."""
    words = ("--quick", "--json", "--binary", pascaline)
    said = json.loads(shell(f"scripts/{suite}", *words, seconds=seconds, code=None).out.splitlines()[-1])
    for case in said["details"]:
        if case[key]:
            cases.passed += 1
        else:
            cases.failures.append(f"{case['name']}: {'; '.join(case['problems'])}")
    assert "error" not in said, said["error"]
    assert not cases.failures
