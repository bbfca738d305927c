"""A controller gives the appliances their parts, and is killed; so are a leaf, etcd, another controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from . import levels
from .controller import JOB, Controller, in_force
from .etcd import Killing, several
from .laboratory import MOST_SECONDS_AWAY, Case, Done, Lab, given
from .levels import MOST_STREAMS

# A controller looks at its appliances this long after an allreduce at the latest, on a busy machine, too.
_LOOKED_SECONDS = 5.0
_SUMS_UNTIL_TOLD = 5


def test_controller(lab: Lab, case: Case) -> None:
    """A controller tells the appliances their parts and the workers where to go; killed, it goes on."""
    with _controlled(lab) as control:
        done = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
        streams = levels.streams(lab, done)
        control.kill_and_restart(lab.stop)
        again = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
        case.figures = levels.figures(lab, done) | {
            "root_link_streams": streams,
            "seconds_until_in_force": control.seconds,
            "told_after_restart": control.told(),
        }
        case.sums_hold(done, again)
        case.demand(
            max(streams.values()) <= MOST_STREAMS, "a link of the root has carried more than a stream"
        )
        case.demand(control.told() == 0, "the controller that came back told appliances what they knew")


def test_leaf_replaced(lab: Lab, case: Case) -> None:
    """A leaf's appliance is killed half way, for good: what runs ends right at the spare one."""
    with _controlled(lab) as control:
        leaf = lab.fabric.leaves[0]
        before = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
        killed = 0.0

        def kill() -> None:
            nonlocal killed
            killed = time.monotonic()
            lab.appliances.pop(leaf.name).kill()

        running = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where, half_way=kill)
        control.wait_for_part(lab.fabric.spare.name, lab.stop)
        taken = f"job {JOB}: spare takes the part of {leaf.name}, every rank as it was"
        seconds = control.when(taken) - killed
        picture = control.picture()
        if lab.picture:
            lab.picture.write_bytes(picture)
        done = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
        case.figures = levels.figures(lab, done) | {
            "root_link_streams": levels.streams(lab, done),
            "seconds_until_replaced": round(seconds, 3),
            "seconds_away": round(max(running.seconds) - running.median, 3),
            "resumed": running.resumed,
            "moves": control.moves(),
        }
        case.sums_hold(before, running, done)
        case.demand(running.resumed > 0, "no worker has resumed at the spare one")
        case.demand(seconds > 0, "the spare one has not taken the part")
        case.demand(b"spare takes the part" in picture, "the picture does not show what moved")
    lab.clear(lab.fabric.leaves[0], lab.fabric.spare)


@given(needs="etcd")
def test_etcd(lab: Lab, case: Case) -> None:
    """Two controllers with one etcd: the one that leads is killed, then etcd's leader, and a leaf at last."""
    levels.whole(lab)
    with several(lab.binary, lab.fabric, lab.files, lab.stop) as (cluster, first, second):
        # The one that follows says where to go as well.
        second.wait_in_force(lab.stop)
        kill = Killing(first.kill)
        one = lab.allreduce(lab.fabric.leaves, job=JOB, controller=second.where, half_way=kill)
        led = kill.seconds_until(second, lab.stop)
        leader = cluster.leader(lab.stop)
        kill = Killing(lambda: cluster.kill(leader))
        # The first one named is dead: workers ask the next.
        both = f"{first.where} {second.where}"
        two = lab.allreduce(lab.fabric.leaves, job=JOB, controller=both, half_way=kill)
        goes_on = kill.seconds_until(second, lab.stop)
        # What it decides now has to be in etcd first.
        lab.appliances.pop(lab.fabric.leaves[0].name).kill()
        replaced = second.wait_for_part(lab.fabric.spare.name, lab.stop)
        three = _until_told(lab, second)
        case.figures = levels.figures(lab, one) | {
            "seconds_until_led": led,
            "seconds_until_led_again": goes_on,
            "seconds_until_replaced": replaced,
            "told_by_second": second.told(),
            "moves": second.moves(),
        }
        case.figures["verified"] = one.verified and two.verified and three.verified
        case.sums_hold(one, two, three)
        case.demand(led <= MOST_SECONDS_AWAY, "no controller led for too long")
        case.demand(replaced > 0, "the spare one has not taken the part")
        case.demand(second.told() == 1, "the second controller has not told one appliance its part")
        case.demand(one.resumed + two.resumed == 0, "an allreduce has noticed that a controller or etcd died")
    lab.clear(lab.fabric.leaves[0], lab.fabric.spare)


def _until_told(lab: Lab, control: Controller) -> Done:
    """Sums until the controller has seen all ranks at the spare one, and told it: it looks now and then."""
    for _ in range(_SUMS_UNTIL_TOLD):
        done = lab.allreduce(lab.fabric.leaves, job=JOB, controller=control.where)
        if not done.verified or lab.stop.wait_for(lambda: control.told() > 0, _LOOKED_SECONDS):
            break
    return done


@contextmanager
def _controlled(lab: Lab) -> Iterator[Controller]:
    """A controller of all appliances, one spare among them, that has configured them all."""
    levels.whole(lab)
    with in_force(Controller(lab.binary, lab.fabric, lab.files), lab.stop) as control:
        yield control
