"""Appliances above others are killed in mid-allreduce, for good, and others take their place."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from appliance import Appliance
from fabric import Site
from lab_controller import JOB, Controller
from laboratory import Case, Done, Lab
from process import Failure

# How often whichever is in force is killed, and for how long an allreduce may be held up by that, in the
# median: by itself, on a busy machine; and where a controller has found the backup.
_KILLS = 3
_MOST_SECONDS_BY_ITSELF = 2.0
_MOST_SECONDS_AWAY = 1.0
_LEAVES = 3


class Parents:
    """Appliances that stand in for each other as a leaf's parent: the one in force is killed."""

    def __init__(self, lab: Lab, job: int, sites: Sequence[Site], leaf: Site) -> None:
        self._lab = lab
        self._job = job
        self._names = {site.appliance_address: site.name for site in sites}
        self._leaf = leaf
        self._gone: dict[str, Appliance] = {}

    def in_force(self) -> str:
        """The name of the one to which the leaf's sums go."""
        leaf = self._lab.appliances[self._leaf.name]
        parent = leaf.admin(f"/api/v1/jobs/{self._job}/explain")["parent"]
        if not parent:
            raise Failure(f"{self._leaf.name} sends its sums to nobody")
        return self._names[str(parent["address"]).split()[0]]

    def kill(self) -> None:
        """Kills the one in force, without a warning. Nobody is to miss it meanwhile."""
        name = self.in_force()
        self._gone[name] = self._lab.appliances.pop(name)
        self._gone[name].kill()

    def come_back(self) -> list[str]:
        """Starts whatever was killed again, and names it."""
        names = list(self._gone)
        for name in names:
            self._lab.appliances[name] = self._gone.pop(name)
            self._lab.appliances[name].restart(self._lab.stop)
        return names

    def killed_in_turn(self, case: Case, sites: list[Site], control: Controller | None = None) -> list[Done]:
        """Has workers sum while the one in force is killed half way, several times; says what came of it."""
        lab, where = self._lab, control.where if control else ""
        runs: list[Done] = []
        for _ in range(_KILLS):
            for name in self.come_back():
                if control:
                    control.wait_for_backup(name, lab.stop)
            runs.append(lab.allreduce(sites, job=self._job, half_way=self.kill, controller=where))
            if control:
                control.wait_for_part(self.in_force(), lab.stop)
        downtimes = [round(max(done.seconds) - done.median, 3) for done in runs]
        case.figures |= {
            "verified": all(done.verified for done in runs),
            "resumed": sum(done.resumed for done in runs),
            "downtimes": downtimes,
            "median_downtime": statistics.median(downtimes),
        }
        case.demand(all(done.verified for done in runs), "not every worker has verified every sum")
        case.demand(all(done.resumed for done in runs), "nobody has noticed that the appliance was killed")
        most = _MOST_SECONDS_AWAY if control else _MOST_SECONDS_BY_ITSELF
        case.demand(case.figures["median_downtime"] <= most, "the workers were away for too long")
        lab.accounts_hold(case)
        self.come_back()
        return runs


def controlled_root_killed(lab: Lab, case: Case) -> None:
    """A controller's tree, with a free appliance at the other spine: the root in force is killed."""
    if len(lab.fabric.leaves) < _LEAVES:
        raise Failure("between two leaves a tree needs no root at a spine: --leaves 3")
    with _controlled(lab, "") as control:
        _killed(lab, case, control)


def controlled_middle_killed(lab: Lab, case: Case) -> None:
    """A controller's tree of three levels: the middle one in force is killed, at either spine."""
    names = [leaf.name for leaf in lab.fabric.leaves]
    if len(names) < _LEAVES:
        raise Failure("controlled_middle_killed takes three leaves: --leaves 3")
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
    case.demand(len(case.figures["moves"]) >= _KILLS, "the controller has not given the part away each time")


@contextmanager
def _controlled(lab: Lab, tree: str) -> Iterator[Controller]:
    """A controller with appliances at all leaves and two spines, which gives its job a tree, or this one."""
    fabric = lab.fabric
    if len(fabric.spines) < 2:
        raise Failure("a backup of an appliance above others takes a second spine: --spines 2")
    everywhere = [*fabric.leaves, *fabric.spines[:2], fabric.spare]
    for site in everywhere:
        lab.clear(site)
        lab.appliance(site, lab.settings(fan_in=0, jobs=0))
    control = Controller(lab.binary, fabric, lab.files, roots=2, keys=tree)
    try:
        control.wait_in_force(lab.stop)
        yield control
    finally:
        control.end()
        for site in everywhere:
            lab.clear(site)
