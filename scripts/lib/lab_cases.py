"""The cases of scripts/lab: each says what it did in figures, and what is wrong."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from appliance import UDP_PORT, Appliance, Settings
from fabric import Site
from lab_controller import JOB, Controller
from lab_etcd import Killing, several
from lab_middle import middle_killed
from lab_multicast import multicast
from lab_parents import Parents, controlled_middle_killed, controlled_root_killed
from lab_tcp import tcp
from lab_trees import controlled_trees, trees
from lab_verified import verified
from laboratory import Case, Done, Lab
from process import Failure, run

# The job over two levels, and that of the same workers straight at the root.
_TREE, _STAR = 1, 2
# Beyond what has to cross a link: a busy machine is late now and then, and something is sent again.
_MOST_STREAMS = 1.25
# How often an appliance is killed beside its workers, and what may pass until the workers go on elsewhere.
_KILLS = 3
_MOST_SECONDS_AWAY = 1.0
# What is halted is told at once.
_TOLD_SECONDS = 20.0
# A controller looks at its appliances this long after an allreduce at the latest, on a busy machine, too.
_LOOKED_SECONDS = 2.0
_SUMS_UNTIL_TOLD = 5


def two_levels(lab: Lab, case: Case) -> None:
    """Each rack's appliance adds, and the spine's what they send: one stream on each link to the root."""
    _two_levels(lab)
    done = lab.allreduce(_racks(lab), job=_TREE)
    streams = _streams(lab, done)
    case.figures = _figures(lab, done) | {"root_link_streams": streams}
    case.demand(done.verified, "not every worker has verified every sum")
    case.demand(min(streams.values()) >= 1, "a link of the root has carried less than one stream")
    case.demand(max(streams.values()) <= _MOST_STREAMS, "a link of the root has carried more than one stream")
    lab.accounts_hold(case)


def one_level(lab: Lab, case: Case) -> None:
    """The same workers straight at the spine's appliance: a stream of each on its rack's link."""
    _two_levels(lab)
    done = lab.allreduce([_everybody(lab)], job=_STAR)
    streams = _streams(lab, done)
    case.figures = _figures(lab, done) | {"root_link_streams": streams}
    case.demand(done.verified, "not every worker has verified every sum")
    for leaf in lab.fabric.leaves:
        least = streams[f"{leaf.name}-spine0"]
        case.demand(least >= len(leaf.workers), f"{leaf.name}'s link has carried less than its workers sent")


def leaf_killed(lab: Lab, case: Case) -> None:
    """A leaf's appliance is killed half way and started again; the running allreduce ends right."""
    _two_levels(lab)
    leaf = lab.appliances[lab.fabric.leaves[0].name]
    done = lab.allreduce(_racks(lab), job=_TREE, half_way=lambda: leaf.kill_and_restart(lab.stop))
    case.figures = _figures(lab, done) | {"resumed": done.resumed, "longest_seconds": max(done.seconds)}
    case.demand(done.verified, "not every worker has verified every sum")
    case.demand(done.resumed > 0, "nobody has noticed that the leaf was killed")
    lab.accounts_hold(case)


def backup(lab: Lab, case: Case) -> None:
    """An appliance is killed half way, for good: its workers go on at another spine's. Three times."""
    if len(lab.fabric.spines) < 2:
        raise Failure("a backup needs a second spine: --spines 2")
    _two_levels(lab)
    first, second = lab.fabric.spines[:2]
    _root(lab, second)
    runs = []
    for _ in range(_KILLS):
        killed = lab.appliances[first.name]

        def kill() -> None:
            lab.appliances.pop(first.name).kill()

        runs.append(lab.allreduce([_everybody(lab)], job=_STAR, half_way=kill, backups=[second]))
        killed.kill_and_restart(lab.stop)
        lab.appliances[first.name] = killed
    away = [max(done.seconds) - done.median for done in runs]
    case.figures = _figures(lab, runs[0]) | {
        "resumed": sum(done.resumed for done in runs),
        "seconds_away": away,
        "median_seconds_away": statistics.median(away),
    }
    case.demand(all(done.verified for done in runs), "not every worker has verified every sum")
    case.demand(all(done.resumed for done in runs), "nobody has gone on at the backup")
    case.demand(statistics.median(away) <= _MOST_SECONDS_AWAY, "the workers were away for too long")


def root_killed(lab: Lab, case: Case) -> None:
    """The root is killed half way and stays away, the other one takes its place. Several times."""
    _two_levels(lab)
    root, *backups = lab.fabric.spines[:2]
    if not backups:
        raise Failure("root_killed takes a second spine, with the root's backup: --spines 2")
    _root(lab, backups[0])
    parents = Parents(lab, _TREE, [root, backups[0]], lab.fabric.leaves[0])
    runs = parents.killed_in_turn(case, _racks(lab))
    told = min(done.resumed for done in runs)
    case.demand(told >= lab.fabric.shape.workers, "somebody has not noticed that the root was killed")


def halted(lab: Lab, case: Case) -> None:
    """The job is halted at a leaf and reset at the root: all workers are told, and begin again."""
    _two_levels(lab)
    first, root = (lab.appliances[site.name] for site in (lab.fabric.leaves[0], lab.fabric.spines[0]))
    groups = lab.start(_racks(lab), job=_TREE)
    remedy = f"pascaline job reset {_TREE}"

    def command(appliance: Appliance, word: str) -> None:
        run(str(lab.binary), "job", word, str(_TREE), "--admin", f"unix:{appliance.socket}")

    if not lab.stop.wait_for(lambda: all(group.all_have_done(1) for group in groups), _TOLD_SECONDS):
        raise Failure("not every worker has done an allreduce", first.tail())
    began = time.monotonic()
    command(first, "halt")
    if not lab.stop.wait_for(lambda: all(group.ended() for group in groups), _TOLD_SECONDS):
        raise Failure("workers of a halted job still run", root.tail())
    told, seconds = sum(group.who_said(remedy) for group in groups), time.monotonic() - began
    command(root, "reset")
    done = lab.allreduce(_racks(lab), job=_TREE)
    case.figures = {"told": told, "seconds_until_told": round(seconds, 2), "verified": done.verified}
    case.demand(told == lab.fabric.shape.workers, f"{told} workers named what ends a Halt")
    case.demand(done.verified, "not every worker has verified every sum after the Reset")
    lab.accounts_hold(case)


def controller(lab: Lab, case: Case) -> None:
    """A controller tells the appliances their parts and the workers where to go; killed, it goes on."""
    with _controlled(lab) as control:
        done = lab.allreduce(_racks(lab), job=JOB, controller=control.where)
        streams = _streams(lab, done)
        control.kill_and_restart(lab.stop)
        again = lab.allreduce(_racks(lab), job=JOB, controller=control.where)
        case.figures = _figures(lab, done) | {
            "root_link_streams": streams,
            "seconds_until_in_force": control.seconds,
            "told_after_restart": control.told(),
        }
        case.demand(done.verified and again.verified, "not every worker has verified every sum")
        case.demand(
            max(streams.values()) <= _MOST_STREAMS, "a link of the root has carried more than a stream"
        )
        case.demand(control.told() == 0, "the controller that came back told appliances what they knew")


def leaf_replaced(lab: Lab, case: Case) -> None:
    """A leaf's appliance is killed half way, for good: what runs ends right at the spare one."""
    with _controlled(lab) as control:
        leaf = lab.fabric.leaves[0]
        before = lab.allreduce(_racks(lab), job=JOB, controller=control.where)
        killed = 0.0

        def kill() -> None:
            nonlocal killed
            killed = time.monotonic()
            lab.appliances.pop(leaf.name).kill()

        running = lab.allreduce(_racks(lab), job=JOB, controller=control.where, half_way=kill)
        control.wait_for_part(lab.fabric.spare.name, lab.stop)
        taken = f"job {JOB}: spare takes the part of {leaf.name}, every rank as it was"
        seconds = control.when(taken) - killed
        picture = control.picture()
        if lab.picture:
            lab.picture.write_bytes(picture)
        done = lab.allreduce(_racks(lab), job=JOB, controller=control.where)
        case.figures = _figures(lab, done) | {
            "root_link_streams": _streams(lab, done),
            "seconds_until_replaced": round(seconds, 3),
            "seconds_away": round(max(running.seconds) - running.median, 3),
            "resumed": running.resumed,
            "moves": control.moves(),
        }
        right = before.verified and running.verified and done.verified
        case.demand(right, "not every worker has verified every sum")
        case.demand(running.resumed > 0, "nobody has gone on at the spare one")
        case.demand(b"spare takes the part" in picture, "the picture does not show what moved")
    _clear(lab)


def etcd(lab: Lab, case: Case) -> None:
    """Two controllers with one etcd: the one that leads is killed, then etcd's leader, and a leaf at last."""
    _whole(lab)
    with several(lab.binary, lab.fabric, lab.files, lab.stop) as (cluster, controllers):
        first = controllers.leader(lab.stop)
        second = controllers.other(first)
        # The one that follows says where to go as well.
        second.wait_in_force(lab.stop)
        kill = Killing(lambda: controllers.kill(first))
        one = lab.allreduce(_racks(lab), job=JOB, controller=second.where, half_way=kill)
        led = kill.seconds_until(second, lab.stop)
        leader = cluster.leader(lab.stop)
        kill = Killing(lambda: cluster.kill(leader))
        # The first one named is dead: workers ask the next.
        both = f"{first.where} {second.where}"
        two = lab.allreduce(_racks(lab), job=JOB, controller=both, half_way=kill)
        goes_on = kill.seconds_until(second, lab.stop)
        # What it decides now has to be in etcd first.
        lab.appliances.pop(lab.fabric.leaves[0].name).kill()
        replaced = second.wait_for_part(lab.fabric.spare.name, lab.stop)
        three = _until_told(lab, second)
        case.figures = _figures(lab, one) | {
            "seconds_until_led": led,
            "seconds_until_led_again": goes_on,
            "seconds_until_replaced": replaced,
            "told_by_second": second.told(),
            "moves": second.moves(),
        }
        verified = one.verified and two.verified and three.verified
        case.figures["verified"] = verified
        case.demand(verified, "not every worker has verified every sum")
        case.demand(one.resumed + two.resumed == 0, "an allreduce has noticed that a controller or etcd died")
    _clear(lab)


def _until_told(lab: Lab, control: Controller) -> Done:
    """Sums until the controller has seen all ranks at the spare one, and told it: it looks now and then."""
    for _ in range(_SUMS_UNTIL_TOLD):
        done = lab.allreduce(_racks(lab), job=JOB, controller=control.where)
        if not done.verified or lab.stop.wait_for(lambda: control.told() > 0, _LOOKED_SECONDS):
            break
    return done


CASES: dict[str, Callable[[Lab, Case], None]] = {
    "two_levels": two_levels,
    "one_level": one_level,
    "leaf_killed": leaf_killed,
    "backup": backup,
    "root_killed": root_killed,
    "middle_killed": middle_killed,
    "halted": halted,
    "controller": controller,
    "leaf_replaced": leaf_replaced,
    "controlled_root_killed": controlled_root_killed,
    "controlled_middle_killed": controlled_middle_killed,
    "etcd": etcd,
    "tcp": tcp,
    "multicast": multicast,
    "trees": trees,
    "controlled_trees": controlled_trees,
    "verified": verified,
}


def _two_levels(lab: Lab) -> None:
    """Starts the appliances of spine 0 and of all leaves, with the jobs of both trees."""
    leaves, root = lab.fabric.leaves, lab.fabric.spines[0]
    _root(lab, root)
    for rank, leaf in enumerate(leaves):
        lab.appliance(leaf, _leaf(lab, root, leaf, (rank, len(leaves))))


def _root(lab: Lab, site: Site) -> Appliance:
    """An appliance with both jobs; a leaf that is silent may be at the other root."""
    site.members = [leaf.appliance_address for leaf in lab.fabric.leaves]
    keys = 'dead_after = "0s"'
    return lab.appliance(site, lab.settings(fan_in=len(site.members), job_keys=keys, more=_star(lab)))


def _whole(lab: Lab) -> None:
    """The appliances of both levels, and a spare one."""
    _two_levels(lab)
    lab.appliance(lab.fabric.spare, lab.settings(fan_in=0, jobs=0))


def _clear(lab: Lab) -> None:
    """Leaf 0 and the spare that had its part are nobody's: the next case begins with others."""
    for site in (lab.fabric.leaves[0], lab.fabric.spare):
        lab.clear(site)


def _star(lab: Lab) -> str:
    """The job of all workers at one appliance."""
    members = [member for leaf in lab.fabric.leaves for member in leaf.members]
    listed = ", ".join(f'"{member}"' for member in members)
    return f'[[jobs]]\nid = {_STAR}\nname = "star"\nfan_in = {len(members)}\nmembers = [{listed}]\n'


def _everybody(lab: Lab) -> Site:
    """All workers at the appliance of spine 0."""
    spine = lab.fabric.spines[0]
    everybody = Site("everybody", spine.appliance, spine.appliance_address, spine.router, lab.fabric.mtu)
    everybody.workers = [worker for leaf in lab.fabric.leaves for worker in leaf.workers]
    return everybody


@contextmanager
def _controlled(lab: Lab) -> Iterator[Controller]:
    """A controller of all appliances, one spare among them, that has told them all."""
    _whole(lab)
    control = Controller(lab.binary, lab.fabric, lab.files)
    try:
        control.wait_in_force(lab.stop)
        yield control
    finally:
        control.end()


def _leaf(lab: Lab, root: Site, leaf: Site, place: tuple[int, int]) -> Settings:
    rank, ranks = place
    others = [spine for spine in lab.fabric.spines[:2] if spine is not root]
    backups = ", ".join(f'{{ address = "{spine.appliance_address}" }}' for spine in others)
    parent = (
        f'parent = {{ address = "{root.appliance_address}:{UDP_PORT}", rank = {rank}, ranks = {ranks}, '
        f'mac = "{leaf.router}", backups = [{backups}] }}'
    )
    return lab.settings(fan_in=len(leaf.members), job_keys=parent)


def _racks(lab: Lab) -> list[Site]:
    return lab.fabric.leaves


def _streams(lab: Lab, done: Done) -> dict[str, float]:
    """How often each link of spine 0 has carried what one worker sends."""
    return {link: round(sent / lab.stream, 4) for link, sent in done.links.items() if "spine0" in link}


def _figures(lab: Lab, done: Done) -> dict[str, object]:
    """What every case says."""
    return {
        "verified": done.verified,
        "median_seconds": round(done.median, 4),
        # The time that one stream takes on a shaped link, over what an allreduce took.
        "of_link": round(lab.least_seconds / done.median, 3),
    }
