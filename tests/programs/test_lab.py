"""pascaline-lab in virtual time: faults, 65,536 ranks, policies, papers."""

import re
from pathlib import Path

import pytest

from tests.runner.shell import Shell, holds

pytestmark = pytest.mark.all


def test_protocol_under_faults(shell: Shell, lab: Path) -> None:
    """Real workers and a real appliance against an adversary: no promise is broken in 10,000 schedules."""
    shell(lab, "fuzz-protocol", "--seed", 200000, "--runs", 10000, "--jobs", 2)


def test_every_kind_under_faults(shell: Shell, lab: Path) -> None:
    """The same in 150 schedules of each combination that a configuration can express."""
    words = ("--cells", "--seed", 730_000_000, "--runs", 53_400, "--jobs", 2)
    said = shell.json(lab, "fuzz-protocol", *words, "--json")
    holds(said, "violations == 0; least == 150; cells == 356; len(schedules_of) == cells")


@pytest.mark.parametrize("levels", [2, 3])
def test_trees_under_faults(levels: int, shell: Shell, lab: Path) -> None:
    """The same below two and three levels of appliances."""
    shell(lab, "fuzz-protocol", "--levels", levels, "--seed", 100000, "--runs", 2000, "--jobs", 2)


def test_sealed_packets_under_attack(shell: Shell, lab: Path) -> None:
    """The same with sealed packets, and an attacker on their path."""
    shell(lab, "fuzz-protocol", "--sealed", "--seed", 20000, "--runs", 3000, "--jobs", 2)


@pytest.mark.parametrize("trees", [2, 3])
def test_several_trees_under_faults(trees: int, shell: Shell, lab: Path) -> None:
    """The same of one job over several trees."""
    shell(lab, "fuzz-protocol", "--trees", trees, "--seed", 1, "--runs", 2000, "--jobs", 2)


def test_many_ranks(shell: Shell, lab: Path) -> None:
    """As many workers as three levels of appliances are meant for join, and sum exactly."""
    words = ("--levels", "32,32,64", "--bytes", "1KiB", "--iterations", 2)
    wants = "workers == 65536; wrong == 0; seconds[1] > 0;"
    wants += "levels[0]['appliances'] == 1; levels[2]['appliances'] == 1024"
    holds(shell.json(lab, "scale", *words, "--json"), wants)


def test_policies_compared(shell: Shell, lab: Path) -> None:
    """Every result is exact, and every packet accounted for: otherwise the exit code is 1."""
    wants = "verified == expected > 1_000_000; scale > 1; cells[0]['completion_ms'] > 0;"
    wants += "1 <= ranking[0]['times_best'] < ranking[19]['times_best'];"
    wants += "paper[13]['figure'] == 11; paper[13]['here'] > 0"
    holds(shell.json(lab, "bench", "policies", "--quick", "--json"), wants)


def test_security_is_measured(shell: Shell, lab: Path) -> None:
    """Every contribution opens, every result is sealed once, masks cancel: otherwise the exit code is 1."""
    wants = "mac_pool > 0; encrypt_pool > 0; tag_ns_1k > 0; masked_ns_per_element > 0;"
    wants += "len(ciphers) == 24; len(seals) == 12"
    holds(shell.json(lab, "bench", "security", "--rounds", 20, "--turns", 3, "--json"), wants)


def test_papers(shell: Shell, lab: Path, target: Path) -> None:
    """Every table and figure is there with a picture; what differs from its paper has a reason."""
    out = target / "test-logs/papers"
    said = shell.json(lab, "paper", "all", "--quick", "--out", out, "--json")
    holds(said, "broken == 0; unexplained == 0; compared > 60; seconds < 180")
    listed = re.findall(r"^ +- ([a-z0-9-]+):", shell(lab, "paper", "--help").out, re.MULTILINE)
    names = set(listed) - {"all"}
    assert names
    assert names <= set(said["names"])
    assert all((out / f"{name}.svg").stat().st_size for name in names)


def test_olaf_table_1(shell: Shell, lab: Path) -> None:
    """Olaf's losses with Poisson senders are known: within two points."""
    rows = shell.json(lab, "paper", "olaf-table-1", "--json")["rows"]
    for row, known in ((0, 32.0), (1, 0.0), (7, 65.2), (8, 0.9), (14, 91.0), (15, 6.6)):
        assert rows[row]["mean"] == pytest.approx(known, abs=2), rows[row]
    assert rows[15]["name"] == "Olaf lost"
