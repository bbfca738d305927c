"""Three levels, and the appliance in the middle of two racks is killed."""

from __future__ import annotations

from appliance import UDP_PORT, Settings
from fabric import Site
from lab_parents import Parents
from laboratory import Case, Lab
from process import Failure

_JOB = 21
_LEAVES = 3


def middle_killed(lab: Lab, case: Case) -> None:
    """Racks 0 and 1 below a spine, that and rack 2 below a root: the spine is killed, another takes over."""
    fabric = lab.fabric
    if len(fabric.spines) < 2 or len(fabric.leaves) < _LEAVES:
        raise Failure("middle_killed takes two spines and three leaves: --spines 2 --leaves 3")
    root, middles = fabric.leaves[2], fabric.spines[:2]
    _start(lab, root, middles)
    # The workers of rack 2 are not at its appliance, which is the root, but at the spare one.
    rack = Site("rack2", fabric.spare.appliance, fabric.spare.appliance_address, root.router, fabric.mtu)
    rack.workers = root.workers
    Parents(lab, _JOB, middles, fabric.leaves[0]).killed_in_turn(case, [*fabric.leaves[:2], rack])
    for site in fabric.sites:
        lab.clear(site)


def _start(lab: Lab, root: Site, middles: list[Site]) -> None:
    """The appliances of three levels."""
    fabric = lab.fabric
    for site in fabric.sites:
        lab.clear(site)
    lab.appliance(root, _settings(lab, 2, []))
    racks = fabric.leaves[:2]
    for middle in middles:
        above = _above(root, middle, (0, 2), [])
        lab.appliance(middle, _settings(lab, 2, [leaf.appliance_address for leaf in racks], above))
    for rank, leaf in enumerate(racks):
        above = _above(middles[0], leaf, (rank, 2), middles[1:])
        lab.appliance(leaf, _settings(lab, len(leaf.members), leaf.members, above))
    above = _above(root, fabric.spare, (1, 2), [])
    lab.appliance(fabric.spare, _settings(lab, len(root.members), root.members, above))


def _settings(lab: Lab, fan_in: int, members: list[str], parent: str = "") -> Settings:
    """With this job alone. A leaf that is silent may be below the other middle."""
    listed = ", ".join(f'"{member}"' for member in members)
    keys = [
        f'[[jobs]]\nid = {_JOB}\nname = "three levels"\nfan_in = {fan_in}\ndead_after = "0s"',
        *([f"members = [{listed}]"] if members else []),
        parent,
    ]
    return lab.settings(fan_in=0, jobs=0, more="\n".join(keys) + "\n")


def _above(parent: Site, site: Site, place: tuple[int, int], others: list[Site]) -> str:
    rank, ranks = place
    backups = ", ".join(f'{{ address = "{other.appliance_address}" }}' for other in others)
    return (
        f'parent = {{ address = "{parent.appliance_address}:{UDP_PORT}", rank = {rank}, ranks = {ranks}, '
        f'via = "{site.router_address}", backups = [{backups}] }}'
    )
