"""pascaline-fleet: plans with known optima, and verdicts on queues."""

import json
from pathlib import Path

import pytest

from tests.conftest import require
from tests.runner.shell import ROOT, Shell, holds

pytestmark = pytest.mark.all
_INSTANCES = sorted((ROOT / "fleet/planner/tests/instances").glob("*.json"))
_PLANS = ROOT / "clients/examples/plans"
_VERIFY = ROOT / "clients/examples/verify"


@pytest.mark.parametrize("file", _INSTANCES, ids=[file.stem for file in _INSTANCES])
def test_known_optimum(file: Path, shell: Shell, fleet: Path) -> None:
    """The optimum that a file names is read here, and not by the program."""
    said = shell.json(fleet, "plan", file, "--json")
    assert said["k"] == json.loads(file.read_text())["optimal"]["max_flows_k"]
    holds(said, "proof == 'optimal'; bound == throughput_gbps; seconds < 0.1")


def test_there_are_instances() -> None:
    assert len(_INSTANCES) >= 5


def test_placement(shell: Shell, fleet: Path) -> None:
    """Where two appliances belong, with a proof."""
    said = shell.json(fleet, "plan", _PLANS / "appliances.json", "--place", 2, "--json")
    holds(said["placement"], "proof == 'optimal'; tried == 3")


def test_routes_are_kept(shell: Shell, fleet: Path, tmp_path: Path) -> None:
    """A plan that still fits is not changed."""
    before = tmp_path / "before.json"
    before.write_text(shell(fleet, "plan", _PLANS / "fat-tree.json", "--json").out)
    routes = shell.json(fleet, "plan", _PLANS / "fat-tree.json", "--keep", before, "--json")["routes"]
    assert routes["kept"][1] == "language.0"
    assert not routes["moved"]


def test_larger_networks(shell: Shell, lab: Path) -> None:
    """ARO's figure 11: 240 switches with five tasks of 500 workers, close to optimal and within 5 s."""
    said = shell.json(lab, "paper", "aro-fig-11", "--quick", "--seeds", 2, "--json")
    holds(said, "rows[0]['mean'] > 10; rows[1]['mean'] < 5000; rows[2]['mean'] < 2")


def test_no_time_and_no_way(shell: Shell, fleet: Path, tmp_path: Path) -> None:
    """A time limit of 0 is exit code 3, a cut network 2."""
    shell(fleet, "plan", _PLANS / "fat-tree.json", "--time-limit", "0s", code=3)
    cut = tmp_path / "cut.json"
    lines = (_PLANS / "appliances.json").read_text().splitlines(keepends=True)
    cut.write_text("".join(line for line in lines if '"lower": "leaf-a"' not in line))
    shell(fleet, "plan", cut, code=2)


def test_fairness_holds(shell: Shell, fleet: Path) -> None:
    shell(fleet, "verify", _VERIFY / "fairness.toml")


def test_starvation_is_found_with_a_picture(shell: Shell, fleet: Path, tmp_path: Path) -> None:
    """The example that fails."""
    picture = tmp_path / "starved.svg"
    shell(fleet, "verify", _VERIFY / "starved.toml", "--picture", picture, "--json", code=1)
    assert "</svg>" in picture.read_text()


def test_mistake_in_a_file_is_named_with_its_place(shell: Shell, fleet: Path, tmp_path: Path) -> None:
    """A period of 0."""
    bad = tmp_path / "bad.toml"
    lines = (_VERIFY / "fairness.toml").read_text().splitlines()
    bad.write_text("\n".join('period = "0ms"' if line.startswith("period = ") else line for line in lines))
    line = lines.index(next(line for line in lines if line.startswith("period = "))) + 1
    assert f":{line}:" in (said := shell(fleet, "verify", bad, code=2).err), said
    assert ": a period" in said


def test_phases(shell: Shell, fleet: Path) -> None:
    """The queries to Z3: one query fails with an example, the other holds."""
    require("z3", "z3")
    said = shell.json(fleet, "verify", _VERIFY / "phases.toml", "--json", code=1)
    wants = "method == 'z3'; queries[0]['verdict'] == 'fails'; queries[0]['example']['value'] > 100;"
    holds(said, f"{wants} queries[1]['verdict'] == 'holds'")


def test_printed_constraints_are_vacuous(shell: Shell, fleet: Path) -> None:
    """The paper's own model, which says so."""
    require("z3", "z3")
    said = shell(fleet, "verify", _VERIFY / "phases.toml", "--model", "paper", code=1).out
    assert any(line.startswith("vacuous:") for line in said.splitlines()), said


def test_verification_gives_up_in_time(shell: Shell, fleet: Path) -> None:
    require("z3", "z3")
    shell(fleet, "verify", _VERIFY / "phases.toml", "--time-limit", "0s", code=3)


def test_missing_solver_is_named(shell: Shell, fleet: Path) -> None:
    """With the command that installs it."""
    nowhere = {"PASCALINE_Z3": "/nowhere/z3"}
    said = shell(fleet, "verify", _VERIFY / "phases.toml", code=2, environment=nowhere).err
    assert "apt-get install z3" in said
