"""A job over several trees: more links, a path that is congested, an appliance that dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..bed.appliance import Appliance
from .controller import JOB, Controller, in_force
from .fabric import Site
from .laboratory import MOST_SECONDS_AWAY, Case, Done, Lab, given

# The first tree's job; the others have the next numbers.
_JOB = 11
_ADMITTED = """[admission]
jobs = "{first}-{last}"
from = ["10.80.0.0/16"]
max_fan_in = {ranks}
max_jobs = 4
slots_per_job = 512
"""
# From this many on, the fewest streams are those of a root at a spine.
_LEAVES = 3
# Of the ideal, which is the number of trees: four carry 3.5 times what one does.
_LEAST_OF_IDEAL = 0.875
# Of its rate, what a congested path has left.
_CONGESTED = 0.25
# Of its part of a stream, what a root's link may carry, and what some are sent again.
_MOST_OF_PART = 1.25
# Of a tensor, what each of several trees carries, as a multiple of its part.
_LEAST_SHARE, _MOST_SHARE = 0.8, 1.4
# Where the rates are measured, shorter turns would measure the beginning of each allreduce.
_JUDGED_BYTES = 2 << 20


@given(allreduces=12)
def test_trees(lab: Lab, case: Case) -> None:
    """One tree and several, all links as they are; then with one path congested; then one dies."""
    lab.needs(2)
    spines = lab.fabric.spines
    more = _ADMITTED.format(first=_JOB, last=_JOB + 7, ranks=lab.fabric.shape.workers)
    lab.afresh(*spines, more=more)
    one, several = _over(lab, spines[:1]), _over(lab, spines)
    faster = one.median / several.median
    with ExitStack() as cleanup:
        _congest(lab, spines[0], cleanup)
        slow, beside = _over(lab, spines[:1]), _over(lab, spines)
    dead = lab.appliances.pop(spines[0].name)
    killed = _over(lab, spines, dead)
    away = max(killed.seconds) - killed.median
    everything = [one, several, slow, beside, killed]
    case.figures = {
        "verified": all(done.verified for done in everything),
        "trees": len(spines),
        "one_seconds": round(one.median, 4),
        "seconds": round(several.median, 4),
        "times_one": round(faster, 3),
        "bytes": _shares(lab, several),
        "congested_one_seconds": round(slow.median, 4),
        "congested_seconds": round(beside.median, 4),
        "times_one_congested": round(slow.median / beside.median, 3),
        "killed": [round(seconds, 4) for seconds in killed.seconds],
        "resumed": killed.resumed,
        "seconds_away": round(away, 3),
    }
    case.sums_hold(*everything)
    case.demand(killed.resumed > 0, "no worker has noticed that a tree's appliance was killed")
    case.demand(away <= MOST_SECONDS_AWAY, "the workers were away for too long")
    part = 1 / len(spines)
    near = all(_LEAST_SHARE * part < share < _MOST_SHARE * part for share in _shares(lab, several).values())
    case.demand(near, "a tree has carried much more, or less, than its part")
    if lab.bytes >= _JUDGED_BYTES:
        case.demand(faster >= _LEAST_OF_IDEAL * len(spines), "several trees carry too little more than one")
        case.demand(beside.median < slow.median, "several trees are no faster than one on a congested path")
    lab.accounts_hold(case)
    lab.clear(*spines)


@given(allreduces=12)
def test_controlled_trees(lab: Lab, case: Case) -> None:
    """A controller gives a job one tree, then one at each spine; then a root is killed half way, for good."""
    lab.needs(2, _LEAVES)
    leaves, spines = lab.fabric.leaves, lab.fabric.spines
    everywhere = [*leaves, *spines, lab.fabric.spare]
    lab.afresh(*everywhere)
    with _controller(lab, 1) as control:
        one = _placed(lab, control)
    with _controller(lab, len(spines)) as control:
        several = _placed(lab, control)
        killed = _placed(lab, control, lab.appliances.pop(spines[0].name))
        control.wait_in_force(lab.stop)
        again = _placed(lab, control)
        moves = [move for move in control.moves() if "takes the part" in move]
    names = [f"{leaf.name}-{spine.name}" for leaf in leaves for spine in spines]
    streams = {name: several.links[name] / lab.stream for name in names}
    away = max(killed.seconds) - several.median
    everything = [one, several, killed, again]
    case.figures = {
        "verified": all(done.verified for done in everything),
        "trees": len(spines),
        "one_seconds": round(one.median, 4),
        "seconds": round(several.median, 4),
        "times_one": round(one.median / several.median, 3),
        "root_link_streams": {name: round(sent, 4) for name, sent in streams.items()},
        "killed": [round(seconds, 4) for seconds in killed.seconds],
        "seconds_away": round(away, 3),
        "after_seconds": round(again.median, 4),
        "moves": moves,
    }
    part = 1 / len(spines)
    case.sums_hold(*everything)
    case.demand(min(streams.values()) >= part, "a root's link has carried less than its part of a stream")
    case.demand(max(streams.values()) <= part * _MOST_OF_PART, "a root's link has carried more than its part")
    case.demand(away <= MOST_SECONDS_AWAY, "the workers were away for too long")
    # How fast they are is no demand: with appliances at all leaves it is soon the processor that says so.
    lab.accounts_hold(case)
    lab.clear(*everywhere)


@contextmanager
def _controller(lab: Lab, trees: int) -> Iterator[Controller]:
    """One whose job has `trees` trees, once all appliances have their parts."""
    with in_force(Controller(lab.binary, lab.fabric, lab.files, trees=trees), lab.stop) as control:
        yield control


def _placed(lab: Lab, control: Controller, dies: Appliance | None = None) -> Done:
    """All workers where the controller says; an appliance may be killed half way, for good."""
    kill = dies.kill if dies else None
    return lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where, half_way=kill)


def _over(lab: Lab, spines: list[Site], dies: Appliance | None = None) -> Done:
    """All workers over a tree at each of these spines; one's appliance may be killed half way, for good."""
    kill = dies.kill if dies else None
    return lab.allreduce([lab.fabric.everyone(spines[0])], job=_JOB, half_way=kill, trees=spines[1:])


def _congest(lab: Lab, spine: Site, cleanup: ExitStack) -> None:
    """Leaves the links of a spine a part of their rate."""
    at = lab.fabric.spines.index(spine)
    mbit = lab.fabric.shape.mbit
    lab.fabric.shape_spine(at, mbit * _CONGESTED)
    cleanup.callback(lab.fabric.shape_spine, at, mbit)


def _shares(lab: Lab, done: Done) -> dict[str, float]:
    """How much of a whole tensor each link to a spine has carried for each of its rack's workers."""
    shares = {}
    for leaf in lab.fabric.leaves:
        for spine in lab.fabric.spines:
            sent = done.links[f"{leaf.name}-{spine.name}"]
            shares[f"{leaf.name}-{spine.name}"] = round(sent / lab.stream / len(leaf.workers), 4)
    return shares
