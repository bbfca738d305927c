"""Appliances over two levels, with a job of their own, and one of all workers straight at the root."""

from __future__ import annotations

from appliance import UDP_PORT, Settings

from ..bed.appliance import Appliance
from .fabric import Site
from .laboratory import Done, Lab

# The job over two levels, and that of the same workers straight at the root.
TREE, STAR = 1, 2
# Beyond what has to cross a link: a busy machine is late now and then, and something is sent again.
MOST_STREAMS = 1.25


def start(lab: Lab) -> None:
    """Starts the appliances of spine 0 and of all leaves, with the jobs of both trees."""
    leaves, spine = lab.fabric.leaves, lab.fabric.spines[0]
    root(lab, spine)
    for rank, leaf in enumerate(leaves):
        lab.appliance(leaf, _leaf(lab, spine, leaf, (rank, len(leaves))))


def root(lab: Lab, site: Site) -> Appliance:
    """An appliance with both jobs; a leaf that is silent may be at the other root."""
    site.members = [leaf.appliance_address for leaf in lab.fabric.leaves]
    keys = 'dead_after = "0s"'
    return lab.appliance(site, lab.settings(fan_in=len(site.members), job_keys=keys, more=_star(lab)))


def whole(lab: Lab) -> None:
    start(lab)
    lab.appliance(lab.fabric.spare, lab.settings(fan_in=0, jobs=0))


def clear(lab: Lab) -> None:
    """Leaf 0 and the spare that had its part end: the next case begins with others."""
    for site in (lab.fabric.leaves[0], lab.fabric.spare):
        lab.clear(site)


def _star(lab: Lab) -> str:
    members = [member for leaf in lab.fabric.leaves for member in leaf.members]
    listed = ", ".join(f'"{member}"' for member in members)
    return f'[[jobs]]\nid = {STAR}\nname = "star"\nfan_in = {len(members)}\nmembers = [{listed}]\n'


def _leaf(lab: Lab, root: Site, leaf: Site, place: tuple[int, int]) -> Settings:
    rank, ranks = place
    others = [spine for spine in lab.fabric.spines[:2] if spine is not root]
    backups = ", ".join(f'{{ address = "{spine.appliance_address}" }}' for spine in others)
    parent = (
        f'parent = {{ address = "{root.appliance_address}:{UDP_PORT}", rank = {rank}, ranks = {ranks}, '
        f'mac = "{leaf.router}", backups = [{backups}] }}'
    )
    return lab.settings(fan_in=len(leaf.members), job_keys=parent)


def streams(lab: Lab, done: Done) -> dict[str, float]:
    """How often each link of spine 0 has carried what one worker sends."""
    return {link: round(sent / lab.stream, 4) for link, sent in done.links.items() if "spine0" in link}


def figures(lab: Lab, done: Done) -> dict[str, object]:
    return {
        "verified": done.verified,
        "median_seconds": round(done.median, 4),
        # The time that one stream takes on a shaped link, over what an allreduce took.
        "of_link": round(lab.least_seconds / done.median, 3),
    }
