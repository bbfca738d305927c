"""Runs a load: joins the ranks, sends, and compares TRex's counters with the appliance's."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

from scapy.layers.l2 import Ether

from generators import PATIENCE_SECONDS, Generator, Sent, despite
from metrics import (
    ABSORBED,
    ANSWERED,
    DROPPED,
    FORWARDED,
    RECEIVED,
    RESULTS,
    RESULTS_SENT,
    Accounting,
    Metrics,
)
from pascaline_layers import STATUSES, Pascaline, PascalineControl
from pascaline_loads import Load, fits, requests
from pascaline_streams import Stream

_JOIN_SECONDS = 20.0
# For a cookie, for a new generation, and to be a member of it. A rank that is held from another address or
# port is neither given nor refused to a session that asks less than once a second.
_QUICK_ROUNDS, _TIMES = 4, 20
_MOST_JOINS = 20
_ACK, _JOIN = 8, 1
# Answers to a Join after which a rank asks again.
_NOT_YET = ("pending", "wrong_epoch", "too_many")
_REMEDIES = {
    "rank_taken": "end the worker that holds it; of one that is gone, `pascaline job reset`",
    "source_refused": "the job's `members` have to admit --first-address and the next ones",
    "payload_mismatch": "give the job's payload as --payload",
    "halted": "the job is suspended: `pascaline job reset`",
}
_SETTLE_SECONDS = 5.0
_BETWEEN_LOOKS = 0.1
_MISSED = "pascaline_port_missed_packets_total"


class RunError(Exception):
    """The load cannot be run; the message says why and what to do."""


class Appliance:
    """The appliance, as seen by its metrics."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    @classmethod
    def at(cls, url: str) -> Appliance:
        """The appliance with metrics at this URL."""

        def fetch() -> str:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()

        return cls(fetch)

    def scrape(self) -> Metrics:
        try:
            return Metrics(self._fetch())
        except (urllib.error.URLError, OSError) as error:
            remedy = "see --metrics and the configuration's [telemetry] listen"
            raise RunError(f"the appliance's metrics cannot be read: {error}; {remedy}") from error

    def settled(self) -> Metrics:
        """The metrics once two readings agree and the books balance, or the last ones after a while."""
        end = time.monotonic() + _SETTLE_SECONDS
        before = self.scrape()
        while True:
            time.sleep(_BETWEEN_LOOKS)
            now = self.scrape()
            if (
                Accounting.of(now) == Accounting.of(before) and Accounting.of(now).holds
            ) or time.monotonic() > end:
                return now
            before = now


@dataclass(frozen=True)
class Report:
    """One run in numbers; all are packets, and differences between before and after."""

    offered: int
    lost_before: int
    missed_by_port: int
    received: int
    aggregated: int
    answered: int
    forwarded: int
    dropped: dict[str, int]
    results: int
    results_sent: int
    heard_by_generator: int
    seconds: float
    generator_errors: int
    accounted: bool
    # Of a load that has to be refused: packets that are not counted under their reason.
    uncounted: dict[str, int] = field(default_factory=dict)
    # Why this is no result; empty if it is one.
    problem: str = ""

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"dropped_total": sum(self.dropped.values())}

    def text(self) -> str:
        share = 100 * self.received / self.offered if self.offered else 0.0
        rows = [
            (
                "offered",
                self.offered,
                f"{self.offered / self.seconds:,.0f} packets/s" if self.seconds else "",
            ),
            ("received", self.received, f"{share:.2f} % of offered; the port missed {self.missed_by_port}"),
            ("  aggregated", self.aggregated, "went into an aggregate"),
            ("  answered", self.answered, "results given again, ARP, control"),
            ("  forwarded", self.forwarded, "to the peer port"),
            ("  dropped", sum(self.dropped.values()), ""),
            *((f"    {reason}", count, "") for reason, count in self.dropped.items()),
            ("results", self.results, f"sent as {self.results_sent} packets"),
            ("heard by the generator", self.heard_by_generator, ""),
        ]
        rows += [
            (f"not counted as {reason}", count, _why(reason)) for reason, count in self.uncounted.items()
        ]
        lines = [f"{name:<24}{count:>12}  {remark}".rstrip() for name, count, remark in rows]
        balance = (
            "every received packet is accounted for"
            if self.accounted
            else "RECEIVED PACKETS ARE UNACCOUNTED FOR"
        )
        return "\n".join([*lines, balance, *([f"NO RESULT: {self.problem}"] if self.problem else [])])


def _why(reason: str) -> str:
    if reason == "ip_fragment":
        return "net_af_packet has the kernel keep fragments until they are whole: these never arrive"
    return "lost on the way, or counted under another reason"


def join(appliance: Appliance, generator: Generator, load: Load) -> Load:
    """Has all ranks of all jobs join; returns the load with the generations that this began."""
    ranks = appliance.scrape().by_label("pascaline_job_ranks", "job_id")
    for job in load.jobs:
        found = ranks.get(str(job))
        if found != load.ranks:
            what = f"has {found} ranks" if found else "is not configured there"
            raise RunError(
                f"job {job} {what}, the load has {load.ranks} ranks: give --jobs and --ranks as in [[jobs]]"
            )
    for _ in range(_MOST_JOINS):
        load = _joined(generator, replace(load, session=_session(), epochs={}, bases={}, cookies={}))
        if fits(load):
            return load
        # A generation begins at a random PSN; the next one's is another.
        leave(generator, load)
    raise RunError(f"{load.psns} PSNs do not fit behind the first one of a generation: give fewer --psns")


@contextmanager
def joined(appliance: Appliance, generator: Generator, load: Load) -> Iterator[Load]:
    """The load whose ranks have joined; they leave in any case at the end."""
    load = join(appliance, generator, load)
    try:
        yield load
    except BaseException:
        despite(leave, generator, load)
        raise
    leave(generator, load)


def _joined(generator: Generator, load: Load) -> Load:
    """Asks for cookies and joins with them until every rank is a member, in one generation of its job."""
    everybody = [(job, rank) for job in load.jobs for rank in range(load.ranks)]
    members: dict[tuple[int, int], int] = {}
    end, rounds = time.monotonic() + _JOIN_SECONDS, 0
    try:
        while True:
            # Requests are repeated until all ranks are members: any packet may be lost.
            times = 1 if rounds < _QUICK_ROUNDS else _TIMES
            load = _told(load, generator.ask(requests(load, "join", times)), members)
            rounds += 1
            missing = [one for one in everybody if members.get(one, -1) != load.epochs.get(one[0])]
            if not missing:
                return load
            if time.monotonic() > end:
                job, rank = missing[0]
                raise RunError(
                    f"{len(missing)} of {len(everybody)} ranks have not joined after {_JOIN_SECONDS:.0f} s, "
                    f"rank {rank} of job {job} among them. Do the packets arrive (--destination-mac), and do "
                    "the jobs' `members` admit --first-address and the next ones?"
                )
    except BaseException:
        despite(leave, generator, load)
        raise


def _told(load: Load, heard: list[bytes], members: dict[tuple[int, int], int]) -> Load:
    """The load with values from the Acks of this session's Joins; `members` keeps the ranks' generations."""
    epochs, bases, cookies = dict(load.epochs), dict(load.bases), dict(load.cookies)
    for frame in heard:
        packet = Ether(frame)
        if PascalineControl not in packet:
            continue
        header, body = packet[Pascaline], packet[PascalineControl]
        if (body.action, body.answered, body.session) != (_ACK, _JOIN, load.session):
            continue
        status = STATUSES.get(body.status, str(body.status))
        if status not in ("ok", *_NOT_YET):
            raise RunError(
                f"the appliance refuses rank {header.rank} of job {header.job}: {status}; "
                f"{_REMEDIES.get(status, 'docs/errors.md says what that means')}"
            )
        epochs[header.job], cookies[header.job, header.rank] = header.epoch, body.cookie
        if status == "ok":
            bases[header.job], members[header.job, header.rank] = body.psn, header.epoch
    return replace(load, epochs=epochs, bases=bases, cookies=cookies)


def _session() -> int:
    """A different one for each run."""
    return time.time_ns()


def leave(generator: Generator, load: Load) -> None:
    """Has all ranks leave. They keep no results that another rank could need."""
    generator.send(requests(load, "leave"), None)


def run(
    appliance: Appliance,
    generator: Generator,
    streams: list[Stream],
    seconds: float | None,
    reasons: Mapping[str, str] | None = None,
    *,
    aggregates: bool = False,
    patience: float = PATIENCE_SECONDS,
) -> Report:
    """Sends the streams and returns the report.

    `reasons` tells under which reason the packets of a stream, by its name, have to be counted; `aggregates`
    that it is no result if nothing is; `patience` for how long a generator may be late.
    """
    before = appliance.settled()
    sent = generator.send(streams, seconds, patience)
    report = _difference(before, appliance.settled(), sent)
    if sent.cut:
        wanted_pps = sum(stream.pps for stream in streams)
        problem = (
            f"the generator was stopped after {sent.seconds:.1f} s, before it had sent all: "
            f"it cannot send {wanted_pps:,.0f} packets/s"
        )
        report = replace(report, problem=problem)
    elif aggregates and not report.aggregated + report.forwarded:
        report = replace(report, problem=_nothing(report))
    wanted = Counter[str]()
    for stream in streams:
        if reasons and stream.name in reasons and seconds is None:
            wanted[reasons[stream.name]] += stream.count or 0
    missing = {reason: count - report.dropped.get(reason, 0) for reason, count in wanted.items()}
    return replace(report, uncounted={reason: count for reason, count in missing.items() if count > 0})


def _nothing(report: Report) -> str:
    if not report.received:
        return "the appliance has received nothing: do the packets arrive there (--destination-mac)?"
    if not report.dropped:
        return "nothing was aggregated: all packets were answered, with results that there were already"
    most = max(report.dropped, key=lambda reason: report.dropped[reason])
    return (
        f"nothing was aggregated: {report.dropped[most]} packets were dropped as {most} "
        "(docs/drop-reasons.md)"
    )


def _difference(before: Metrics, after: Metrics, sent: Sent) -> Report:
    def grown(name: str) -> int:
        return after.total(name) - before.total(name)

    old, new = (metrics.by_label(DROPPED, "reason") for metrics in (before, after))
    dropped = {
        reason: count - old.get(reason, 0) for reason, count in new.items() if count != old.get(reason, 0)
    }
    received, missed = grown(RECEIVED), grown(_MISSED)
    return Report(
        offered=sent.offered,
        lost_before=sent.offered - received,
        missed_by_port=missed,
        received=received,
        aggregated=grown(ABSORBED),
        answered=grown(ANSWERED),
        forwarded=grown(FORWARDED),
        dropped=dropped,
        results=grown(RESULTS),
        results_sent=grown(RESULTS_SENT),
        heard_by_generator=sent.heard,
        seconds=sent.seconds,
        generator_errors=sent.errors,
        accounted=Accounting.of(after).holds,
    )
