"""Control packets and floods of those who are no members, or pretend to be."""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import bed as beds
import frames as f
import sender
from cases_noise import REFUSED, TOLD, WINDOW, gradient
from frames import Body, Header
from netns import APPLIANCE_ADDRESS
from process import Child, Failure, run
from scene import Case, Scene

_MANY = 1000
_FEW = 20.0
_JOINS = ("answered", "control_full", *REFUSED)
# What comes back may be as much as what was said, and ARP.
_SLACK_BYTES = 64_000
_WIDE_RANKS = 1024
_LEGITIMATE_SECONDS = 15.0
# More than an appliance that looks for requests every millisecond, and takes a few each time, can decide on.
_FLOOD_RATE = 100_000.0
_FLOOD_SECONDS = 10.0
_START_SECONDS = 5.0
# Within which a worker joins, sums and leaves meanwhile: a second without a flood, and requests sent anew.
_MEANWHILE_SECONDS = 5.0


def _join(scene: Scene, rank: int, **fields: int) -> bytes:
    """A Join of a random session, unless told otherwise."""
    header = Header(job=fields.pop("job", scene.job), rank=rank, fan_in=fields.pop("fan_in", beds.RANKS))
    body = Body(session=scene.random.getrandbits(64))
    return f.control(header, replace(body, **fields))


def _joins(scene: Scene) -> list[bytes]:
    """As many sessions as there are, the largest among them; with and without what the latest Ack told."""
    sessions = [(1 << 64) - 1, 0, 1, *(scene.random.getrandbits(64) for _ in range(60))]
    asked = (0, f.NO_GENERATION, 0x10000 + scene.now)
    way = scene.way()
    return [
        way.frame(_join(scene, rank, session=session, got=got))
        for session in sessions
        for got in asked
        for rank in range(beds.RANKS)
    ]


def _joins_as_ranks(scene: Scene) -> list[bytes]:
    """The same from the ranks' own addresses: from their ports, and from others."""
    return [
        replace(scene.as_rank(rank), source_port=port).frame(_join(scene, rank, got=got))
        for rank in range(beds.RANKS)
        for port in (beds.worker_port(scene.job, rank), 50_000)
        for got in (0, f.NO_GENERATION, 0x10000 + scene.now)
        for _ in range(40)
    ]


def _spoofed_joins(scene: Scene) -> list[bytes]:
    """From addresses of the ranks' network and of any other, each from another port."""
    return [
        scene.way(source=source, port=scene.random.randrange(1024, 65536)).frame(_join(scene, 2, got=got))
        for number in range(_MANY)
        for source in (f"10.77.0.{1 + number % 253}", f"172.16.{number % 256}.{number % 250 + 1}")
        for got in (0, 0x10000 + scene.now)
    ]


def _proven(scene: Scene, joins: list[tuple[Header, Body]]) -> list[bytes]:
    """Joins from the attacker's own address with the cookies that the appliance gives it for them."""
    way = scene.way()
    asked = {(header.job, header.rank, body.session): (header, body) for header, body in joins}
    found = []
    for answer in scene.ask(way.frame(f.control(header, body)) for header, body in joins):
        header, body = asked.get((answer.header.job, answer.header.rank, answer.body.session), (None, None))
        if header and body:
            got = 0x10000 + answer.header.epoch
            found.append(way.frame(f.control(header, replace(body, cookie=answer.body.cookie, got=got))))
    return found


def _proven_joins(scene: Scene) -> list[bytes]:
    """A stranger who has proven his own address wants the ranks of workers that are alive."""
    headers = [Header(job=scene.job, rank=rank) for rank in range(beds.RANKS) for _ in range(8)]
    return _proven(scene, [(header, Body(session=scene.random.getrandbits(64))) for header in headers])


def _replayed_cookies(scene: Scene) -> list[bytes]:
    """Cookies that were given to the attacker's address, sent from the ranks', and from other ports."""
    own = scene.way()
    found = []
    for frame in _proven_joins(scene):
        datagram = frame[42:]
        rank = int.from_bytes(datagram[6:8])
        found += [replace(own, source_port=port).frame(datagram) for port in (1, 50_000)]
        found.append(scene.as_rank(rank).frame(datagram))
    return found


def _forged_cookies(scene: Scene) -> list[bytes]:
    def one(rank: int) -> bytes:
        cookie = scene.random.getrandbits(64)
        return scene.as_rank(rank).frame(_join(scene, rank, cookie=cookie, got=0x10000 + scene.now))

    return [one(number % beds.RANKS) for number in range(_MANY)]


def _control_as_ranks(scene: Scene) -> list[bytes]:
    """Leave, Reset, SetH, Halt and Query, from the ranks' addresses and ports, of guessed sessions."""
    actions = (f.LEAVE, f.RESET, f.SET_H, f.HALT, f.QUERY)

    def one(rank: int, action: int) -> bytes:
        header = Header(job=scene.job, rank=rank, epoch=scene.now, psn=scene.random.getrandbits(32))
        body = Body(action, session=scene.random.getrandbits(64), payload=0, window=0, expected=2)
        return scene.as_rank(rank).frame(f.control(header, body))

    return [one(rank, action) for action in actions for rank in range(beds.RANKS) for _ in range(40)]


def _queries(scene: Scene) -> list[bytes]:
    def one() -> bytes:
        header = Header(job=scene.job, rank=scene.random.randrange(beds.RANKS), epoch=scene.now)
        body = Body(f.QUERY, session=scene.random.getrandbits(64), psn=scene.random.getrandbits(32))
        return scene.way().frame(f.control(header, body))

    return [one() for _ in range(200)]


def _strange_gradients(scene: Scene) -> list[bytes]:
    return [scene.way().frame(gradient(scene, rank)) for rank in range(beds.RANKS) for _ in range(200)]


def _strange_kinds(scene: Scene) -> list[bytes]:
    kinds = (f.RESULT, f.PARTIAL, f.UPDATE, f.ACK, f.FETCH, f.REMINDER)
    lengths = {f.FETCH: 0, f.REMINDER: 0}
    return [
        scene.way().frame(gradient(scene, kind=kind, count=4, length=lengths.get(kind, 512)))
        for kind in kinds
        for _ in range(64)
    ]


def _wide_joins(scene: Scene) -> list[bytes]:
    """A job of 1,024 ranks in the name of somebody who has asked for nothing; then Reminders and Results."""
    way = scene.way(source=beds.NOBODY)
    joins = [
        way.frame(_join(scene, rank, job=beds.WIDE, fan_in=_WIDE_RANKS, got=0, session=1 + rank))
        for rank in range(_WIDE_RANKS)
    ]
    return joins + [way.frame(datagram) for epoch in range(256) for datagram in _asking(epoch)]


def _asking(epoch: int) -> list[bytes]:
    """What makes an appliance send to all ranks."""
    header = Header(f.REMINDER, beds.WIDE, 0, epoch, _WIDE_RANKS, epoch=epoch)
    result = replace(header, kind=f.RESULT, count=_WIDE_RANKS).bytes() + bytes(1024)
    return [header.bytes(), result]


def _own_wide_joins(scene: Scene) -> list[bytes]:
    """The same by somebody who proves his address for each rank."""
    headers = [Header(job=beds.WIDE, rank=rank, fan_in=_WIDE_RANKS) for rank in range(_WIDE_RANKS)]
    frames = _proven(scene, [(header, Body(session=1 + header.rank)) for header in headers])
    epochs = {int.from_bytes(frame[42 + 36 + 3 : 42 + 36 + 4]) for frame in frames}
    return frames + [scene.way().frame(datagram) for epoch in epochs for datagram in _asking(epoch) * 100]


def _many_jobs(scene: Scene) -> list[bytes]:
    """Jobs of one rank, as many as may be, and more."""
    headers = [Header(job=job, rank=0, fan_in=1) for job in range(1000, 1064)]
    return _proven(scene, [(header, Body(session=header.job)) for header in headers])


def _is_no_amplifier(scene: Scene) -> list[str]:
    said, heard = scene.said() - scene.said_before, scene.heard() - scene.heard_before
    if heard > said + _SLACK_BYTES:
        return [f"{heard} bytes came back for {said}"]
    return []


def _note_bytes(scene: Scene) -> None:
    scene.said_before, scene.heard_before = scene.said(), scene.heard()


def _all_at_once(scene: Scene) -> list[bytes]:
    """Joins from everywhere, and commands in the ranks' names, in turns."""
    commands = _control_as_ranks(scene)
    return [frame for join in _spoofed_joins(scene) for frame in (join, scene.random.choice(commands))]


def _is_open_during_a_flood(scene: Scene) -> list[str]:
    """Sends without a pause; meanwhile workers of a new job join, sum and leave, one after the other."""
    file = scene.files / "flood"
    sender.write(file, _all_at_once(scene))
    words = [file, file, "eth1", _FLOOD_RATE, _FLOOD_SECONDS, 1]
    command = [sys.executable, "-B", sender.__file__, *(str(word) for word in words)]
    child = Child("flood", command, scene.files, scene.bed.attacker)
    times: list[float] = []
    try:
        if not scene.stop.wait_for(lambda: bool(child.out.read_text()), _START_SECONDS):
            raise Failure("the flood does not begin", child.tail())
        while child.exit_code() is None:
            began = time.monotonic()
            if problems := _is_open_to_others(scene):
                return problems
            times.append(time.monotonic() - began)
        if child.exit_code():
            raise Failure("the attacker cannot send", child.tail())
        sent = sum(int(word) for word in child.out.read_text().split()[1:])
    finally:
        child.stop(1.0)
    longest, rate = max(times, default=0.0), sent / _FLOOD_SECONDS
    told = f"    {rate:,.0f} frames/s; {len(times)} jobs, {longest:.1f} s at most"
    print(told, file=sys.stderr, flush=True)
    if not times or longest > _MEANWHILE_SECONDS:
        return [f"in a flood of {rate:.0f} frames/s a job of one worker takes {longest:.1f} s"]
    return []


def _is_open_to_others(scene: Scene) -> list[str]:
    """Another host gets a job of its own while the attacker has what he could get."""
    words = ["worker", "allreduce", "--appliance", APPLIANCE_ADDRESS, "--job", "1500", "--rank", "0"]
    words += ["--ranks", "1", "--bytes", "4KiB", "--iterations", "1", "--join-deadline", "5s"]
    inside = ("ip", "netns", "exec", scene.bed.workers[0], str(scene.binary))
    done = run(*inside, *words, check=False, timeout=_LEGITIMATE_SECONDS)
    return [] if done.returncode == 0 else [f"a job of another host is refused: {done.stderr.strip()}"]


CASES = [
    Case("joins", "Joins for the ranks of live workers, any session, no proof", _joins, _JOINS),
    Case("joins-few", "the same, but only a few: no limit of a rate", _joins, _JOINS, rate=_FEW),
    Case("joins-listed", "the same for a job with `members`", _joins, _JOINS, job=beds.LISTED),
    Case("joins-as-ranks", "Joins from the ranks' own addresses", _joins_as_ranks, _JOINS),
    Case("joins-as-ranks-listed", "the same with `members`", _joins_as_ranks, _JOINS, job=beds.LISTED),
    Case("joins-proven", "a stranger proves his address, and wants a live rank", _proven_joins, _JOINS),
    Case("join-flood", "Joins from a thousand made-up addresses", _spoofed_joins, _JOINS),
    Case("cookies-replayed", "cookies sent from where they were not given", _replayed_cookies, _JOINS),
    Case("cookies-forged", "Joins of the ranks with random cookies", _forged_cookies, _JOINS),
    Case("commands-as-ranks", "Leave, Reset, SetH, Halt in the ranks' names", _control_as_ranks, _JOINS),
    Case(
        "queries",
        "strangers ask who is missing",
        _queries,
        _JOINS,
        prepare=_note_bytes,
        judge=_is_no_amplifier,
    ),
    Case(
        "gradients-of-strangers",
        "gradients from no rank's address",
        _strange_gradients,
        (*REFUSED, *TOLD, *WINDOW),
    ),
    Case(
        "kinds-of-strangers", "every other kind", _strange_kinds, (*REFUSED, *TOLD, *WINDOW, "unhandled_kind")
    ),
    Case(
        "amplifier",
        "1,024 Joins in somebody's name, then Reminders and Results",
        _wide_joins,
        (*_JOINS, "payload_length"),
        prepare=_note_bytes,
        judge=_is_no_amplifier,
    ),
    Case(
        "amplifier-proven",
        "the same from an address that is proven for each rank",
        _own_wide_joins,
        (*_JOINS, *TOLD, *WINDOW),
        prepare=_note_bytes,
        judge=_is_no_amplifier,
    ),
    Case(
        "flood-without-a-pause",
        "100,000 control packets/s for 10 s, in which workers of another job come and go",
        _all_at_once,
        _JOINS,
        judge=_is_open_during_a_flood,
        long=True,
    ),
    Case(
        "jobs-of-one-host",
        "one host wants all the jobs that Joins may form",
        _many_jobs,
        _JOINS,
        judge=_is_open_to_others,
    ),
]
