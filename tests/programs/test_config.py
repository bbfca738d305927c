"""What a user writes into files, and types."""

import re
from pathlib import Path

import pytest

from tests.runner.shell import ROOT, Shell

_EXAMPLE = "conf/appliance.toml"


def test_example_is_accepted(shell: Shell, debug_programs: Path) -> None:
    shell(debug_programs / "pascaline", "check", _EXAMPLE)


def test_misspelt_key_is_rejected_with_its_place(shell: Shell, debug_programs: Path, tmp_path: Path) -> None:
    lines = (ROOT / _EXAMPLE).read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith("udp_port"))
    lines[place] = lines[place].replace("udp_port", "udp_prot", 1)
    copy = tmp_path / "misspelt.toml"
    copy.write_text("".join(lines))
    said = shell(debug_programs / "pascaline", "check", copy, code=2).text
    assert re.search(rf"line {place + 1},? column \d+|:{place + 1}:\d+", said), said
    assert "udp_prot" in said


@pytest.mark.parametrize("script", ["demo", "test", "lab", "hostile", "mistakes", "train"])
def test_unknown_option_is_rejected(script: str, shell: Shell) -> None:
    shell(f"scripts/{script}", "--no-such-option", code=2)


def test_quick_names_its_successor(shell: Shell) -> None:
    """What `--quick` was is what scripts/test does without an option."""
    assert "scripts/test --all" in shell("scripts/test", "--quick", code=2).err
