"""Appliances are killed for good, beside workers, at the root and in the middle, and others stand in."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from appliance import Settings

from . import levels
from .controller import JOB, Controller, in_force
from .fabric import Site
from .laboratory import MOST_SECONDS_AWAY, Case, Lab, given
from .levels import STAR, TREE, members_of, parent_of
from .parents import KILLS, Parents

# Of the job over three levels.
_THREE = 21
_LEAVES = 3


@given(allreduces=24)
def test_backup(lab: Lab, case: Case) -> None:
    """An appliance is killed half way, for good: its workers go on at another spine's. Three times."""
    lab.needs(2)
    levels.start(lab)
    first, second = lab.fabric.spines[:2]
    levels.root(lab, second)
    runs = []
    for _ in range(KILLS):
        killed = lab.appliances[first.name]

        def kill() -> None:
            lab.appliances.pop(first.name).kill()

        runs.append(
            lab.allreduce(
                [lab.fabric.everyone(lab.fabric.spines[0])], job=STAR, half_way=kill, backups=[second]
            )
        )
        killed.kill_and_restart(lab.stop)
        lab.appliances[first.name] = killed
    away = [max(done.seconds) - done.median for done in runs]
    case.figures = levels.figures(lab, runs[0]) | {
        "resumed": sum(done.resumed for done in runs),
        "seconds_away": away,
        "median_seconds_away": statistics.median(away),
    }
    case.sums_hold(*runs)
    case.demand(all(done.resumed for done in runs), "no worker has resumed at the backup")
    case.demand(statistics.median(away) <= MOST_SECONDS_AWAY, "the workers were away for too long")


@given(allreduces=24)
def test_root_killed(lab: Lab, case: Case) -> None:
    """The root is killed half way and stays away, the other one takes its place. Several times."""
    lab.needs(2)
    levels.start(lab)
    spines = lab.fabric.spines[:2]
    levels.root(lab, spines[1])
    parents = Parents(lab, TREE, spines, lab.fabric.leaves[0])
    runs = parents.killed_in_turn(case, lab.fabric.leaves)
    told = min(done.resumed for done in runs)
    case.demand(told >= lab.fabric.shape.workers, "a worker has not noticed that the root was killed")


@given(allreduces=24)
def test_middle_killed(lab: Lab, case: Case) -> None:
    """Racks 0 and 1 below a spine, that and rack 2 below a root: the spine is killed, another takes over."""
    lab.needs(2, _LEAVES)
    fabric = lab.fabric
    root, middles = fabric.leaves[2], fabric.spines[:2]
    _start(lab, root, middles)
    # The workers of rack 2 are not at its appliance, which is the root, but at the spare one.
    rack = Site("rack2", fabric.spare.appliance, fabric.spare.appliance_address, root.router, fabric.mtu)
    rack.workers = root.workers
    Parents(lab, _THREE, middles, fabric.leaves[0]).killed_in_turn(case, [*fabric.leaves[:2], rack])
    lab.clear(*fabric.sites)


def _start(lab: Lab, root: Site, middles: list[Site]) -> None:
    fabric = lab.fabric
    lab.clear(*fabric.sites)
    lab.appliance(root, _settings(lab, 2, []))
    racks = fabric.leaves[:2]
    for middle in middles:
        above = _above(root, middle, (0, 2))
        lab.appliance(middle, _settings(lab, 2, [leaf.appliance_address for leaf in racks], above))
    for rank, leaf in enumerate(racks):
        above = _above(middles[0], leaf, (rank, 2), middles[1])
        lab.appliance(leaf, _settings(lab, len(leaf.members), leaf.members, above))
    above = _above(root, fabric.spare, (1, 2))
    lab.appliance(fabric.spare, _settings(lab, len(root.members), root.members, above))


def _settings(lab: Lab, fan_in: int, members: list[str], parent: str = "") -> Settings:
    """With this job alone. A leaf that is silent may be below the other middle."""
    keys = [
        f'[[jobs]]\nid = {_THREE}\nname = "three levels"\nfan_in = {fan_in}\ndead_after = "0s"',
        *([members_of(members)] if members else []),
        parent,
    ]
    return lab.settings(fan_in=0, jobs=0, more="\n".join(keys) + "\n")


def _above(parent: Site, site: Site, place: tuple[int, int], *others: Site) -> str:
    return parent_of(parent, place, list(others), f'via = "{site.router_address}"')


@given(allreduces=24)
def test_controlled_root_killed(lab: Lab, case: Case) -> None:
    """A controller's tree, with a free appliance at the other spine: the root in force is killed."""
    # Between two leaves a tree needs no root at a spine.
    lab.needs(2, _LEAVES)
    with _controlled(lab, "") as control:
        _killed(lab, case, control)


@given(allreduces=24)
def test_controlled_middle_killed(lab: Lab, case: Case) -> None:
    """A controller's tree of three levels: the middle one in force is killed, at either spine."""
    lab.needs(2, _LEAVES)
    names = [leaf.name for leaf in lab.fabric.leaves]
    root, *racks = names[2], *names[:2], *names[3:]
    middle = lab.fabric.spines[0].name
    edges = [*((rack, middle) for rack in racks), (middle, root)]
    written = ", ".join(f'{{ appliance = "{below}", parent = "{above}" }}' for below, above in edges)
    with _controlled(lab, f"tree = [{written}]") as control:
        _killed(lab, case, control)


def _killed(lab: Lab, case: Case, control: Controller) -> None:
    """Whichever spine's appliance has the part above the first leaf."""
    parents = Parents(lab, JOB, lab.fabric.spines[:2], lab.fabric.leaves[0])
    parents.killed_in_turn(case, lab.fabric.leaves, control)
    case.figures["moves"] = [move for move in control.moves() if "takes the part" in move]
    case.demand(len(case.figures["moves"]) >= KILLS, "the controller has not given the part away each time")


@contextmanager
def _controlled(lab: Lab, tree: str) -> Iterator[Controller]:
    """A controller with appliances at all leaves and two spines, which gives its job a tree, or this one."""
    fabric = lab.fabric
    everywhere = [*fabric.leaves, *fabric.spines[:2], fabric.spare]
    lab.afresh(*everywhere)
    try:
        with in_force(Controller(lab.binary, fabric, lab.files, roots=2, keys=tree), lab.stop) as control:
            yield control
    finally:
        lab.clear(*everywhere)
