"""Control packets and floods from hosts that are no members, or pretend to be."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Any

from process import run

from ..bed.process import command
from . import bed as beds
from . import frames as f
from . import sender
from .reasons import JOINS, REFUSED, TOLD, UNSEALED, WINDOW
from .scene import Case, Scene

_MANY = 1000
_FEW = 20.0
# As many bytes may come back as were sent, and ARP.
_SLACK_BYTES = 64_000
_WIDE_RANKS = 1024
_LEGITIMATE_SECONDS = 60.0
# More than an appliance can decide on that looks for requests every millisecond, and takes a few each time.
_FLOOD_RATE = 100_000.0
_FLOOD_SECONDS = 10.0
_START_SECONDS = 30.0


def _join(scene: Scene, rank: int, **fields: Any) -> bytes:
    """A Join, by default of a random session."""
    return f.control("join", scene.job, rank, **({"session": scene.random.getrandbits(64)} | fields))


def _asked(scene: Scene) -> tuple[int, ...]:
    """Generations that a Join may name: nothing, that it knows none, the present one."""
    return (0, f.NO_GENERATION, f.GENERATION + scene.now)


def _joins(scene: Scene) -> list[bytes]:
    """As many sessions as there are, the largest among them; with and without the latest Ack's generation."""
    sessions = [(1 << 64) - 1, 0, 1, *(scene.random.getrandbits(64) for _ in range(60))]
    return [
        scene.way().frame(_join(scene, rank, session=session, got=got))
        for session in sessions
        for got in _asked(scene)
        for rank in range(f.RANKS)
    ]


def _joins_as_ranks(scene: Scene) -> list[bytes]:
    """The same from the ranks' own addresses: from their ports, and from others."""
    return [
        replace(scene.as_rank(rank), source_port=port).frame(_join(scene, rank, got=got))
        for rank in range(f.RANKS)
        for port in (beds.worker_port(scene.job, rank), 50_000)
        for got in _asked(scene)
        for _ in range(40)
    ]


def _spoofed_joins(scene: Scene) -> list[bytes]:
    """From addresses of the ranks' network and of any other, each from another port."""
    found = []
    for number in range(_MANY):
        for source in (f"10.77.0.{1 + number % 253}", f"172.16.{number % 256}.{number % 250 + 1}"):
            way = scene.way(source=source, port=scene.random.randrange(1024, 65536))
            found += [way.frame(_join(scene, 2, got=got)) for got in (0, f.GENERATION + scene.now)]
    return found


def _proven(scene: Scene, joins: list[dict[str, Any]]) -> list[bytes]:
    """Joins from the attacker's own address with the cookies that the appliance gives it for them."""
    way = scene.way()
    asked = {(join["job"], join["rank"], join["session"]): join for join in joins}
    found = []
    for answer in scene.ask(way.frame(f.control("join", **join)) for join in joins):
        body = answer.payload
        if join := asked.get((answer.job, answer.rank, body.session)):
            told = {"cookie": body.cookie, "got": f.GENERATION + answer.epoch}
            found.append(way.frame(f.control("join", **join, **told)))
    return found


def _proven_joins(scene: Scene) -> list[bytes]:
    """A stranger that has proven its own address wants the ranks of workers that are alive."""
    ranks = [rank for rank in range(f.RANKS) for _ in range(8)]
    return _proven(
        scene, [{"job": scene.job, "rank": rank, "session": scene.random.getrandbits(64)} for rank in ranks]
    )


def _replayed_cookies(scene: Scene) -> list[bytes]:
    """Cookies that were given to the attacker's address, sent from the ranks', and from other ports."""
    found = []
    for datagram in (frame[f.HEADERS :] for frame in _proven_joins(scene)):
        ways = [scene.way(port=port) for port in (1, 50_000)]
        packet = f.parse_control(datagram)
        assert packet
        found += [way.frame(datagram) for way in (*ways, scene.as_rank(packet.rank))]
    return found


def _forged_cookies(scene: Scene) -> list[bytes]:
    def one(rank: int) -> bytes:
        cookie = scene.random.getrandbits(64)
        return scene.as_rank(rank).frame(_join(scene, rank, cookie=cookie, got=f.GENERATION + scene.now))

    return [one(number % f.RANKS) for number in range(_MANY)]


def _control_as_ranks(scene: Scene) -> list[bytes]:
    """Leave, Reset, SetH, Halt and Query, from the ranks' addresses and ports, of guessed sessions."""

    def one(rank: int, action: str) -> bytes:
        number, session = scene.random.getrandbits(32), scene.random.getrandbits(64)
        body = {"session": session, "payload_bytes": 0, "window": 0, "expected": 2}
        return scene.as_rank(rank).frame(
            f.control(action, scene.job, rank, epoch=scene.now, number=number, **body)
        )

    actions = ("leave", "reset", "set_h", "halt", "query")
    return [one(rank, action) for action in actions for rank in range(f.RANKS) for _ in range(40)]


def _queries(scene: Scene) -> list[bytes]:
    def one() -> bytes:
        rank = scene.random.randrange(f.RANKS)
        psn, session = scene.random.getrandbits(32), scene.random.getrandbits(64)
        body = bytes(f.PascalineControl(action="query", session=session, psn=psn))
        return scene.way().frame(f.header("control", scene.job, rank, epoch=scene.now) + body)

    return [one() for _ in range(200)]


def _strange_gradients(scene: Scene) -> list[bytes]:
    return [scene.way().frame(scene.gradient(rank)) for rank in range(f.RANKS) for _ in range(200)]


def _strange_kinds(scene: Scene) -> list[bytes]:
    kinds = ("result", "partial", "update", "ack", "fetch", "reminder")
    return [
        scene.way().frame(
            scene.gradient(kind=kind, count=4, length=0 if kind in ("fetch", "reminder") else 512)
        )
        for kind in kinds
        for _ in range(64)
    ]


def _wide_joins(scene: Scene) -> list[bytes]:
    """A job of 1,024 ranks in the name of a host that has asked for nothing; then Reminders and Results."""
    way, sessions = scene.way(source=beds.UNUSED), range(1, 1 + _WIDE_RANKS)
    joins = [f.control("join", beds.WIDE, at - 1, fan_in=_WIDE_RANKS, session=at) for at in sessions]
    epochs = scene.random.sample(range(1 << 16), 256)
    asking = [datagram for epoch in epochs for datagram in _asking(epoch)]
    return [way.frame(datagram) for datagram in joins + asking]


def _asking(epoch: int) -> list[bytes]:
    """Frames that make an appliance send to all ranks."""
    reminder, result = (
        f.header(kind, beds.WIDE, 0, psn=epoch, fan_in=_WIDE_RANKS, count=count, epoch=epoch)
        for kind, count in (("reminder", 0), ("result", _WIDE_RANKS))
    )
    return [reminder, result + bytes(1024)]


def _own_wide_joins(scene: Scene) -> list[bytes]:
    """The same from an address that is proven for each rank."""
    ranks = range(_WIDE_RANKS)
    joins = [{"job": beds.WIDE, "rank": at, "fan_in": _WIDE_RANKS, "session": 1 + at} for at in ranks]
    frames = _proven(scene, joins)
    packets = [f.parse_control(frame[f.HEADERS :]) for frame in frames]
    epochs = {packet.payload.got - f.GENERATION for packet in packets if packet}
    return frames + [scene.way().frame(datagram) for epoch in epochs for datagram in _asking(epoch) * 100]


def _many_jobs(scene: Scene) -> list[bytes]:
    """Jobs of one rank, up to the limit and beyond."""
    return _proven(scene, [{"job": job, "rank": 0, "fan_in": 1, "session": job} for job in range(1000, 1064)])


def _is_no_amplifier(scene: Scene) -> list[str]:
    sent, heard = (now - before for now, before in zip(scene.bytes_on_wire(), scene.before, strict=True))
    return [f"{heard} bytes came back for {sent}"] if heard > sent + _SLACK_BYTES else []


def _note_bytes(scene: Scene) -> None:
    scene.before = scene.bytes_on_wire()


def _all_at_once(scene: Scene) -> list[bytes]:
    """Joins from all addresses, and commands in the ranks' names, in turns."""
    commands = _control_as_ranks(scene)
    return [frame for join in _spoofed_joins(scene) for frame in (join, scene.random.choice(commands))]


def _is_open_during_a_flood(scene: Scene) -> list[str]:
    """Sends without a pause; meanwhile workers of a new job join, sum and leave, one after the other."""
    times: list[float] = []
    with scene.flood((_all_at_once(scene),) * 2, "eth1", _FLOOD_RATE, _FLOOD_SECONDS, 1) as child:
        assert scene.stop.wait_for(lambda: bool(child.out.read_text()), _START_SECONDS), child.tail()
        while child.exit_code() is None:
            began = time.monotonic()
            if problems := _is_open_to_others(scene):
                return problems
            times.append(time.monotonic() - began)
        sent = sum(sender.sent(child.out.read_text()))
    longest, rate = max(times, default=0.0), sent / _FLOOD_SECONDS
    told = f"    {rate:,.0f} frames/s; {len(times)} jobs, {longest:.1f} s at most"
    print(told, file=sys.stderr, flush=True)
    return [] if times else [f"in a flood of {rate:.0f} frames/s no job of one worker comes to its end"]


def _is_open_to_others(scene: Scene) -> list[str]:
    """Another host gets a job of its own while the attacker has as many as it can get."""
    terms = {"job": 1500, "rank": 0, "ranks": 1, "bytes": "4KiB", "iterations": 1}
    line = command(scene.binary, "worker", "allreduce", appliance=beds.APPLIANCE_ADDRESS, **terms)
    inside = ("ip", "netns", "exec", scene.bed.workers[0].name)
    done = run(*inside, *line, check=False, timeout=_LEGITIMATE_SECONDS)
    return [] if done.returncode == 0 else [f"a job of another host is refused: {done.stderr.strip()}"]


_AMPLIFIER: dict[str, Any] = {"prepare": _note_bytes, "judge": _is_no_amplifier}
_STRANGE = (*REFUSED, *TOLD, *WINDOW)

CASES = [
    Case(
        "joins", "Joins for the ranks of live workers, any session, no proof", _joins, JOINS, sealed=UNSEALED
    ),
    Case(
        "joins-few", "the same, but only a few: no limit of a rate", _joins, JOINS, rate=_FEW, sealed=UNSEALED
    ),
    Case(
        "joins-listed", "the same for a job with `members`", _joins, JOINS, job=beds.LISTED, sealed=UNSEALED
    ),
    Case("joins-as-ranks", "Joins from the ranks' own addresses", _joins_as_ranks, JOINS, sealed=UNSEALED),
    Case(
        "joins-as-ranks-listed",
        "the same with `members`",
        _joins_as_ranks,
        JOINS,
        job=beds.LISTED,
        sealed=UNSEALED,
    ),
    Case(
        "joins-proven",
        "a stranger proves its address, and wants a live rank",
        _proven_joins,
        JOINS,
        sealed=UNSEALED,
    ),
    Case("join-flood", "Joins from a thousand made-up addresses", _spoofed_joins, JOINS, sealed=UNSEALED),
    Case(
        "cookies-replayed",
        "cookies sent from where they were not given",
        _replayed_cookies,
        JOINS,
        sealed=UNSEALED,
    ),
    Case("cookies-forged", "Joins of the ranks with random cookies", _forged_cookies, JOINS, sealed=UNSEALED),
    Case(
        "commands-as-ranks",
        "Leave, Reset, SetH, Halt in the ranks' names",
        _control_as_ranks,
        JOINS,
        sealed=UNSEALED,
    ),
    Case("queries", "strangers ask which ranks are missing", _queries, JOINS, **_AMPLIFIER, sealed=UNSEALED),
    Case(
        "gradients-of-strangers",
        "gradients from no rank's address",
        _strange_gradients,
        _STRANGE,
        sealed=UNSEALED,
    ),
    Case(
        "kinds-of-strangers",
        "every other kind",
        _strange_kinds,
        (*_STRANGE, "unhandled_kind"),
        sealed=UNSEALED,
    ),
    Case(
        "amplifier",
        "1,024 Joins in another host's name, then Reminders and Results",
        _wide_joins,
        (*JOINS, "payload_length"),
        sealed=UNSEALED,
        **_AMPLIFIER,
    ),
    Case(
        "amplifier-proven",
        "the same from an address that is proven for each rank",
        _own_wide_joins,
        (*JOINS, *TOLD, *WINDOW),
        # Without the key none of its ranks becomes a member, in whose name the rest is.
        sealed=(*UNSEALED, "not_member"),
        **_AMPLIFIER,
    ),
    Case(
        "flood-without-a-pause",
        "100,000 control packets/s for 10 s, in which workers of another job come and go",
        _all_at_once,
        JOINS,
        judge=_is_open_during_a_flood,
        long=True,
        sealed=UNSEALED,
    ),
    # Jobs that Joins form have no key.
    Case(
        "jobs-of-one-host",
        "one host wants all the jobs that Joins may form",
        _many_jobs,
        JOINS,
        judge=_is_open_to_others,
    ),
]
