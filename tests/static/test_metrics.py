"""Every counter of lcores and jobs is in the documents' tables of metrics, which are written by hand."""

import re

import pytest

from tests.runner.shell import ROOT

_TABLES = ("docs/operating.md", "docs/olaf.md")
_NAMED = re.compile(r'^    \w+ => "(\w+)",', re.MULTILINE)
_ROW = re.compile(r"^\| (`[^|]+`[^|]*) \|", re.MULTILINE)


def _stem(name: str) -> str:
    """Without the endings that a row writes once, behind its last name."""
    return re.sub(r"_(packets)?_?(total)?_?$", "", name)


def _documented() -> set[str]:
    """The names in the first columns; `…` stands for what the name before it begins with."""
    rows = (row for table in _TABLES for row in _ROW.findall((ROOT / table).read_text()))
    return {_stem(re.sub(r"\{.*", "", name)) for row in rows for name in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize(
    ("source", "prefix"), [("telemetry/src/counters.rs", ""), ("telemetry/src/cells/events.rs", "job_")]
)
def test_counters_are_documented(source: str, prefix: str) -> None:
    """A row names it, in full or behind `…`."""
    names = [prefix + name for name in _NAMED.findall((ROOT / source).read_text())]
    assert names, f"{source} has no counters as this test knows them"
    known = _documented()
    ends = [name[1:] for name in known if name.startswith("…")]
    stems = {name: _stem(name) for name in names}
    missing = [n for n, stem in stems.items() if stem not in known and not any(map(stem.endswith, ends))]
    assert not missing, f"in no table of {' or '.join(_TABLES)}: {', '.join(missing)}"
