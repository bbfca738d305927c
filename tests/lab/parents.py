"""Appliances above others are killed in mid-allreduce, for good, and others take their place."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from process import Failure

from ..bed.appliance import Appliance
from .controller import Controller
from .fabric import Site
from .laboratory import MOST_SECONDS_AWAY, Case, Done, Lab

# How often whichever is in force is killed.
KILLS = 3


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
            raise Failure(f"{self._leaf.name} has no parent")
        return self._names[str(parent["address"]).split()[0]]

    def kill(self) -> None:
        """Kills the one in force, without a warning. Its end is expected."""
        name = self.in_force()
        self._gone[name] = self._lab.appliances.pop(name)
        self._gone[name].kill()

    def come_back(self) -> list[str]:
        """Starts the killed one again, and returns its name."""
        names = list(self._gone)
        for name in names:
            self._lab.appliances[name] = self._gone.pop(name)
            self._lab.appliances[name].restart(self._lab.stop)
        return names

    def killed_in_turn(self, case: Case, sites: list[Site], control: Controller | None = None) -> list[Done]:
        """Has workers sum while the one in force is killed half way, several times; returns the outcome."""
        lab, where = self._lab, control.where if control else ""
        runs: list[Done] = []
        for _ in range(KILLS):
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
        case.sums_hold(*runs)
        case.demand(all(done.resumed for done in runs), "no worker has noticed that the appliance was killed")
        away = case.figures["median_downtime"]
        case.demand(away <= MOST_SECONDS_AWAY, "the workers were away for too long")
        lab.accounts_hold(case)
        self.come_back()
        return runs
