"""One case: slots of the control and of the attack in turn, and the judgement."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx

from metrics import ANSWERED, DROPPED
from process import Failure

from ..bed.leaks import held_kib
from ..bed.metrics import Metrics
from . import frames as f
from . import sender
from .scene import Case, Scene
from .victims import Victims

BOUND = 1.10
_BUFFERS = "pascaline_packet_buffers_in_use"
_SLOTS = "pascaline_pool_slots_used"
# Slots in use are counted by the sweep, a little later than their buffers: up to a job's window.
_ALLOWED_BUFFERS = 512
_LOOKS, _BETWEEN_LOOKS = 4, 0.05
_ALLOWED_KIB = 2048
# Memory that is touched for the first time is no leak: what leaks grows each time as many rounds are run.
_MEMORY_LOOKS = 3
# The least length of an Ethernet frame.
_LEAST_FRAME = 60
# The part of the frames that has to be counted under the reasons that name the attack.
_SHARE = 0.5
_SENDER_SECONDS = 30.0
# Where the ratio is above the bound, up to this many times the rounds: noise must not decide, and all count.
_ROUNDS_MORE = 3


@dataclass(frozen=True)
class Form:
    rounds: int
    slots: int
    slot_seconds: float
    judge_ratio: bool


FULL = Form(rounds=4, slots=12, slot_seconds=0.35, judge_ratio=True)
QUICK = Form(rounds=1, slots=4, slot_seconds=0.15, judge_ratio=False)


@dataclass
class Found:
    name: str
    about: str
    held: bool = False
    ratio: float | None = None
    rounds: list[float] = field(default_factory=list)
    allreduces: int = 0
    controls: int = 0
    sent: int = 0
    counted: dict[str, int] = field(default_factory=dict)
    memory_kib: tuple[int, int] = (0, 0)
    buffers: tuple[int, int] = (0, 0)
    problems: list[str] = field(default_factory=list)
    # No rank gets a sum any more: the next case needs another appliance.
    stuck: bool = False


def measure(case: Case, scene: Scene, victims: Victims, form: Form) -> Found:
    """Runs a case beside workers that are at work. Its failures are the case's."""
    found = Found(case.name, case.about)
    sums, problems = victims.sums, len(victims.problems)
    try:
        if victims.ready(scene.stop):
            _attack(case, scene, victims, form, found)
        else:
            found.problems.append("before the attack the workers get no sum")
            found.stuck = True
    except (Failure, AssertionError, httpx.HTTPError) as failure:
        found.problems.append(failure.whole if isinstance(failure, Failure) else str(failure))
        found.stuck = True
    found.allreduces = victims.sums - sums
    found.problems += _distinct(victims.problems[problems:])
    found.held = not found.problems
    return found


def _attack(case: Case, scene: Scene, victims: Victims, form: Form, found: Found) -> None:
    """The rounds of a case, and the state before and after them."""
    if case.prepare:
        case.prepare(scene)
    before, memory, buffers = scene.appliance.scrape(), held_kib(scene.appliance.pid), _buffers(scene)
    times: tuple[list[float], list[float]] = [], []
    for number in range(form.rounds * _ROUNDS_MORE):
        if number >= form.rounds and not (form.judge_ratio and (found.ratio or 0.0) > BOUND):
            break
        _round(case, scene, victims, form, found, times)
    found.memory_kib = memory, held_kib(scene.appliance.pid)
    for _ in range(_MEMORY_LOOKS - 1):
        if not _has_grown(found):
            break
        for _ in range(form.rounds):
            _round(case, scene, victims, form, found, times)
        found.memory_kib = found.memory_kib[1], held_kib(scene.appliance.pid)
    if not victims.ready(scene.stop):
        found.problems.append("after the attack the workers get no sum")
        found.stuck = True
    found.buffers = buffers, _buffers(scene)
    found.counted = _grown(before, scene.appliance.scrape(), found.controls)
    found.problems += _judge(case.names(scene.security), found, form)
    if case.judge:
        found.problems += case.judge(scene)


def _has_grown(found: Found) -> bool:
    before, after = found.memory_kib
    return after > before + _ALLOWED_KIB


def _distinct(problems: list[str]) -> list[str]:
    return [f"{text} ({count} times)" if count > 1 else text for text, count in Counter(problems).items()]


def _round(
    case: Case,
    scene: Scene,
    victims: Victims,
    form: Form,
    found: Found,
    times: tuple[list[float], list[float]],
) -> None:
    """Slots of the control and of the attack, and the times of allreduces in them."""
    scene.look()
    attack = case.make(scene)
    controls_frames = [control(scene, case.wire, len(frame)) for frame in attack]
    with scene.flood((controls_frames, attack), case.wire, case.rate, form.slot_seconds, form.slots) as child:
        scene.stop.wait_for(lambda: bool(child.out.read_text()), _SENDER_SECONDS)
        start = float(child.out.read_text() or "nan")
        took = victims.run(scene.stop, start - time.monotonic() + form.slots * form.slot_seconds)
        if not scene.stop.wait_for(lambda: child.exit_code() is not None, _SENDER_SECONDS):
            raise Failure("the attacker does not end", child.tail())
        controls, attacks = sender.sent(child.out.read_text())
    found.controls += controls
    found.sent += attacks
    here: tuple[list[float], list[float]] = [], []
    for begin, end in took:
        # In one slot, or in two of the same kind.
        first, last = (int((at - start) // form.slot_seconds) for at in (begin, end))
        if first >= 0 and last - first <= 1 and sender.under_attack(first) == sender.under_attack(last):
            here[sender.under_attack(first)].append(end - begin)
    for kind, some in enumerate(here):
        times[kind].extend(some)
    if here[0] and here[1]:
        found.rounds.append(round(statistics.median(here[1]) / statistics.median(here[0]), 3))
    if times[0] and times[1]:
        found.ratio = round(statistics.median(times[1]) / statistics.median(times[0]), 3)


def control(scene: Scene, wire: str, length: int) -> bytes:
    """As many bytes, to a port of the appliance without a service."""
    datagram = bytes(max(_LEAST_FRAME, length) - f.HEADERS)
    return scene.way(wire).to_closed_port().frame(datagram)


def _buffers(scene: Scene) -> int:
    """The least of a few readings of the packet buffers in use, without those of partials and results."""
    found = []
    for _ in range(_LOOKS):
        metrics = scene.appliance.scrape()
        found.append(metrics.total(_BUFFERS) - metrics.total(_SLOTS))
        scene.stop.sleep(_BETWEEN_LOOKS)
    return min(found)


def _grown(before: Metrics, after: Metrics, controls: int) -> dict[str, int]:
    """Drops by reason and answers, without the control."""
    old, new = (metrics.by_label(DROPPED, "reason") for metrics in (before, after))
    grown = {reason: count - old.get(reason, 0) for reason, count in new.items()}
    grown["no_service"] = grown.get("no_service", 0) - controls
    grown["answered"] = after.total(ANSWERED) - before.total(ANSWERED)
    return {reason: count for reason, count in grown.items() if count > 0}


def _judge(named_by: tuple[str, ...], found: Found, form: Form) -> list[str]:
    problems = []
    if not found.sent:
        problems.append("nothing was sent: the case proves nothing")
    if found.ratio is None and form.judge_ratio:
        problems.append("no allreduce came to its end beside the control, or none beside the attack")
    elif found.ratio is not None and form.judge_ratio and found.ratio > BOUND:
        problems.append(f"an allreduce takes {found.ratio:.2f} × what it takes beside the control")
    named = sum(found.counted.get(reason, 0) for reason in named_by)
    if named_by and named < _SHARE * found.sent:
        wanted = " + ".join(named_by)
        problems.append(f"{named} of {found.sent} packets are counted as {wanted}: {found.counted}")
    if _has_grown(found):
        before, after = found.memory_kib
        grown = f"the appliance has grown from {before} to {after} KiB"
        problems.append(f"{grown}, the last of {_MEMORY_LOOKS} times")
    if found.buffers[1] > found.buffers[0] + _ALLOWED_BUFFERS:
        problems.append(f"packet buffers in use: {found.buffers[0]} before, {found.buffers[1]} after")
    return problems
