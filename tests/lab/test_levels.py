"""Two levels, one level, a leaf that is killed, a job that is halted."""

from __future__ import annotations

import time

from appliance import Appliance
from process import Failure, run

from . import levels
from .laboratory import Case, Lab, given
from .levels import MOST_STREAMS, STAR, TREE

# Workers of a halted job end at once.
_TOLD_SECONDS = 20.0


def test_two_levels(lab: Lab, case: Case) -> None:
    """Each rack's appliance adds, and the spine's what they send: one stream on each link to the root."""
    levels.start(lab)
    done = lab.allreduce(lab.fabric.leaves, job=TREE)
    streams = levels.streams(lab, done)
    case.figures = levels.figures(lab, done) | {"root_link_streams": streams}
    case.sums_hold(done)
    case.demand(min(streams.values()) >= 1, "a link of the root has carried less than one stream")
    case.demand(max(streams.values()) <= MOST_STREAMS, "a link of the root has carried more than one stream")
    lab.accounts_hold(case)


def test_one_level(lab: Lab, case: Case) -> None:
    """The same workers straight at the spine's appliance: a stream of each on its rack's link."""
    levels.start(lab)
    done = lab.allreduce([lab.fabric.everyone(lab.fabric.spines[0])], job=STAR)
    streams = levels.streams(lab, done)
    case.figures = levels.figures(lab, done) | {"root_link_streams": streams}
    case.sums_hold(done)
    for leaf in lab.fabric.leaves:
        least = streams[f"{leaf.name}-spine0"]
        case.demand(least >= len(leaf.workers), f"{leaf.name}'s link has carried less than its workers sent")


def test_leaf_killed(lab: Lab, case: Case) -> None:
    """A leaf's appliance is killed half way and started again; the running allreduce ends right."""
    levels.start(lab)
    leaf = lab.appliances[lab.fabric.leaves[0].name]
    done = lab.allreduce(lab.fabric.leaves, job=TREE, half_way=lambda: leaf.kill_and_restart(lab.stop))
    case.figures = levels.figures(lab, done) | {"resumed": done.resumed, "longest_seconds": max(done.seconds)}
    case.sums_hold(done)
    case.demand(done.resumed > 0, "no worker has noticed that the leaf was killed")
    lab.accounts_hold(case)


@given(allreduces=24)
def test_halted(lab: Lab, case: Case) -> None:
    """The job is halted at a leaf and reset at the root: all workers learn of it, and begin again."""
    levels.start(lab)
    first, root = (lab.appliances[site.name] for site in (lab.fabric.leaves[0], lab.fabric.spines[0]))
    groups = lab.start(lab.fabric.leaves, job=TREE)
    remedy = f"pascaline job reset {TREE}"

    def command(appliance: Appliance, word: str) -> None:
        run(str(lab.binary), "job", word, str(TREE), "--admin", f"unix:{appliance.socket}")

    if not lab.stop.wait_for(lambda: all(group.all_have_done(1) for group in groups), _TOLD_SECONDS):
        raise Failure("not every worker has done an allreduce", first.tail())
    began = time.monotonic()
    command(first, "halt")
    if not lab.stop.wait_for(lambda: all(group.ended() for group in groups), _TOLD_SECONDS):
        raise Failure("workers of a halted job still run", root.tail())
    told, seconds = sum(group.who_said(remedy) for group in groups), time.monotonic() - began
    command(root, "reset")
    done = lab.allreduce(lab.fabric.leaves, job=TREE)
    case.figures = {"told": told, "seconds_until_told": round(seconds, 2), "verified": done.verified}
    case.demand(told == lab.fabric.shape.workers, f"{told} workers named what ends a Halt")
    case.demand(done.verified, "not every worker has verified every sum after the Reset")
    lab.accounts_hold(case)
