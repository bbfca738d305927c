"""The table of kinds in docs/policies.md has what the fault harness runs."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.runner.shell import ROOT

_WHERE = ("one appliance", "2 levels", "3 levels", "an appliance and its backup")
_CONFLICT = re.compile(r"^shared, [a-z-]+,")
_CELL = re.compile(r"(?P<kind>.+?)(, deaths \w+ it)?(, by multicast)?, \d lcore\(s\), (?P<where>.+)")


def test_table_of_cells(debug_programs: Path) -> None:
    """A row counts the cells of a kind: deaths, unicast and multicast, one lcore or two."""
    command = (debug_programs / "pascaline-lab", "fuzz-protocol", "--cells", "--list")
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(listed) == len(set(listed))
    assert "\n".join(_table(listed)) + "\n" in (ROOT / "docs/policies.md").read_text()


def _table(cells: list[str]) -> Iterator[str]:
    counts: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        found = _CELL.fullmatch(cell)
        assert found, cell
        counts[_CONFLICT.sub("shared, each conflict,", found["kind"]), found["where"]] += 1
    assert {where for _, where in counts} == set(_WHERE)
    yield f"| {len(cells)} cells | {' | '.join(_WHERE)} |"
    yield "|---" * (1 + len(_WHERE)) + "|"
    for kind in dict.fromkeys(kind for kind, _ in counts):
        yield f"| {kind} | {' | '.join(str(counts[kind, where] or '–') for where in _WHERE)} |"
