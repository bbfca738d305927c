"""Appliances over two levels, with a job of their own, and one of all workers straight at the root."""

from __future__ import annotations

import json

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


def _star(lab: Lab) -> str:
    members = [member for leaf in lab.fabric.leaves for member in leaf.members]
    return f'[[jobs]]\nid = {STAR}\nname = "star"\nfan_in = {len(members)}\n{members_of(members)}\n'


def _leaf(lab: Lab, root: Site, leaf: Site, place: tuple[int, int]) -> Settings:
    others = [spine for spine in lab.fabric.spines[:2] if spine is not root]
    parent = parent_of(root, place, others, f'mac = "{leaf.router}"')
    return lab.settings(fan_in=len(leaf.members), job_keys=parent)


def parent_of(parent: Site, place: tuple[int, int], others: list[Site], way: str) -> str:
    """A job's `parent`: which rank of how many, the parent's backups, and the way there."""
    rank, ranks = place
    backups = ", ".join(f'{{ address = "{other.appliance_address}" }}' for other in others)
    return (
        f'parent = {{ address = "{parent.appliance_address}:{UDP_PORT}", rank = {rank}, ranks = {ranks}, '
        f"{way}, backups = [{backups}] }}"
    )


def members_of(sites: list[str]) -> str:
    """A job's `members`."""
    return f"members = {json.dumps(sites)}"


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
