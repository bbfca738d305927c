"""scripts/lab: a leaf-spine network of namespaces, with links of a rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from tests.runner.shell import Shell

pytestmark = [pytest.mark.ports, pytest.mark.all]
Lab = Callable[..., dict[str, Any]]


@pytest.fixture
def lab(shell: Shell, pascaline: Path) -> Lab:
    """Runs cases in their short form; returns what is said of each."""

    def run(*cases: str, more: str = "", seconds: float = 150) -> dict[str, Any]:
        words = [word for case in cases for word in ("--case", case)]
        said = shell.json(
            *("scripts/lab", "--test", "--json", *words, *more.split(), "--binary", pascaline),
            seconds=seconds,
        )
        assert said["ok"]
        return {**said["cases"], "workers": said["workers"]}

    return run


def test_leaf_spine(lab: Lab) -> None:
    """Over two levels the root's links carry one stream each, over one that of each worker."""
    said = lab("two_levels", "one_level", "leaf_killed", more="--bytes 256KiB")
    assert said["two_levels"]["verified"]
    assert said["one_level"]["verified"]
    assert said["leaf_killed"]["verified"]
    assert said["leaf_killed"]["resumed"] > 0
    assert said["two_levels"]["root_link_streams"]["leaf0-spine0"] < 1.25
    assert said["one_level"]["root_link_streams"]["leaf0-spine0"] >= 2


def test_tcp_starves_beside_a_fixed_window(lab: Lab) -> None:
    """A job without congestion control."""
    said = lab("tcp", more="--control fixed --flow cubic --seconds 8", seconds=90)
    assert said["tcp"]["fixed_cubic"]["flow"] < 0.1


def test_tcp_has_its_part_beside_delay(lab: Lab) -> None:
    """In the middle one of three runs, since parts differ (0.51 to 0.62 for the job in 8 s)."""
    said = lab("tcp", more="--control delay --flow cubic --seconds 20 --runs 3")
    assert said["tcp"]["delay_cubic"]["within_20_percent"]
    assert said["tcp"]["delay_cubic"]["verified"]


def test_verified(lab: Lab) -> None:
    """What is proven of a queue holds for an appliance and its workers, and would not with a FIFO."""
    require("z3", "z3")
    said = lab("verified")
    assert not said["verified"]["olaf"]["broken"]
    assert said["verified"]["fifo"]["broken"]


def test_gone_for_good(lab: Lab) -> None:
    """Appliances are killed at the root, in the middle and beside workers; a job is halted."""
    more = "--bytes 256KiB --allreduces 24"
    said = lab("backup", "root_killed", "middle_killed", "halted", more=more, seconds=240)
    assert said["backup"]["verified"]
    assert said["root_killed"]["resumed"] > 0
    assert said["middle_killed"]["verified"]
    assert said["middle_killed"]["resumed"] > 0
    assert said["halted"]["told"] == said["workers"]
    assert said["halted"]["verified"]


def test_multicast(lab: Lab) -> None:
    """One packet of a result for all who hear the group; packets of their own for those who do not."""
    said = lab("multicast", more="--bytes 256KiB --workers 12")["multicast"]
    assert said["heard"]["packets_per_result"] < 1.3
    assert said["filtered"]["packets_per_result"] >= 4
    assert said["filtered_half_way"]["verified"]


def test_trees(lab: Lab) -> None:
    """Two trees share the load, also when an appliance of one is killed for good. How fast is not judged."""
    said = lab("trees", "controlled_trees", more="--bytes 256KiB --allreduces 12", seconds=180)
    trees, controlled = said["trees"], said["controlled_trees"]
    assert trees["verified"]
    assert trees["resumed"] > 0
    assert trees["bytes"]["leaf0-spine0"] < 0.7
    assert trees["bytes"]["leaf0-spine1"] > 0.4
    assert controlled["verified"]
    assert controlled["root_link_streams"]["leaf0-spine0"] < 0.7
    assert controlled["root_link_streams"]["leaf0-spine1"] > 0.4


def test_controller(lab: Lab) -> None:
    """It tells the appliances their parts and workers where to go; it and a leaf are killed."""
    said = lab("controller", "leaf_replaced", more="--bytes 256KiB")
    assert said["controller"]["verified"]
    assert said["controller"]["told_after_restart"] == 0
    assert said["leaf_replaced"]["verified"]
    assert said["leaf_replaced"]["seconds_until_replaced"] > 0


def test_controllers_backups(lab: Lab) -> None:
    """The root, then an appliance in the middle are killed for good: backups take their parts."""
    names = ("controlled_root_killed", "controlled_middle_killed")
    said = lab(*names, more="--bytes 256KiB --allreduces 24")
    for name in names:
        assert said[name]["verified"]
        assert said[name]["resumed"] > 0


def test_etcd(lab: Lab) -> None:
    """The controller that leads is killed, and etcd's leader: the spare takes a leaf's part."""
    require("etcd", "etcd-server")
    said = lab("etcd", more="--bytes 256KiB")["etcd"]
    assert said["verified"]
    assert said["seconds_until_led"] < 5
    assert said["seconds_until_replaced"] > 0
    assert said["told_by_second"] == 1


def test_planned(shell: Shell, pascaline: Path) -> None:
    """What the planner has planned, the controller pushes, and the links carry, within 5 % each."""
    words = ("--plan", "default", "--json", "--bytes", "256KiB", "--binary", pascaline)
    said = shell.json("scripts/lab", *words, seconds=150)
    assert said["ok"]
    planned = said["cases"]["planned"]
    assert planned["verified"]
    assert planned["worst"] <= 0.05
    assert planned["proof"] == "optimal"
