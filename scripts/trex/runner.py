"""Runs a load: joins the ranks, sends, and compares TRex's counters with the appliance's."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "lib"))

from scapy.layers.l2 import Ether

from generators import Generator, Sent
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
from pascaline_layers import Pascaline, PascalineControl
from pascaline_loads import Load, fits, requests
from pascaline_streams import Stream

_JOIN_SECONDS = 10.0
_MOST_JOINS = 20
_ACK, _JOIN = 8, 1
_SETTLE_SECONDS = 5.0
_BETWEEN_LOOKS = 0.1
_MISSED = "pascaline_port_missed_packets_total"


class RunError(Exception):
    """The load cannot be run. Says why and what to do."""


class Appliance:
    """What is seen of the appliance: its metrics."""

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    @classmethod
    def at(cls, url: str) -> Appliance:
        """The appliance whose metrics are there."""

        def fetch() -> str:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()

        return cls(fetch)

    def scrape(self) -> Metrics:
        """The metrics now."""
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
    # Of a load that has to be refused: packets that are not counted under the reason for it.
    uncounted: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """All of it, under the same names."""
        return asdict(self) | {"dropped_total": sum(self.dropped.values())}

    def text(self) -> str:
        """A table for people."""
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
        return "\n".join([*lines, balance])


def _why(reason: str) -> str:
    """What is known of packets that are not counted."""
    if reason == "ip_fragment":
        return "net_af_packet has the kernel keep fragments until they are whole: these never arrive"
    return "lost on the way, or counted under another reason"


def join(appliance: Appliance, generator: Generator, load: Load) -> Load:
    """Has all ranks of all jobs join; returns the load with the generations that this began."""
    metrics = appliance.scrape()
    ranks = metrics.by_label("pascaline_job_ranks", "job")
    for job in load.jobs:
        found = ranks.get(str(job))
        if found != load.ranks:
            what = f"has {found} ranks" if found else "is not configured there"
            raise RunError(
                f"job {job} {what}, the load has {load.ranks} ranks: give --jobs and --ranks as in [[jobs]]"
            )
    for _ in range(_MOST_JOINS):
        load = _joined(
            appliance, generator, replace(load, session=_session(), epochs={}, bases={}, cookies={})
        )
        if fits(load):
            return load
        # A generation begins at a random PSN; the next one's is another.
        leave(generator, load)
    raise RunError(f"{load.psns} PSNs do not fit behind the first one of a generation: give fewer --psns")


def _joined(appliance: Appliance, generator: Generator, load: Load) -> Load:
    """Asks for cookies and joins with them until all ranks have joined."""
    wanted = {str(job): load.ranks for job in load.jobs}
    end = time.monotonic() + _JOIN_SECONDS
    while True:
        # Requests are repeated until all are in: any packet may be lost.
        load = _told(load, generator.ask(requests(load, "join")))
        members = appliance.scrape().by_label("pascaline_job_members", "job")
        epochs = appliance.scrape().by_label("pascaline_job_epoch", "job")
        if all(members.get(job) == count for job, count in wanted.items()) and all(
            load.epochs.get(job) == epochs.get(str(job), 0) for job in load.jobs
        ):
            return load
        if time.monotonic() > end:
            raise RunError(
                f"not all ranks have joined after {_JOIN_SECONDS:.0f} s: {members} of {wanted}. Do the "
                f"packets arrive "
                "(--destination-mac), and do the jobs' `members` admit --first-address and the next ones?"
            )


def _told(load: Load, heard: list[bytes]) -> Load:
    """With what the Acks to Joins of this session say."""
    epochs, bases, cookies = dict(load.epochs), dict(load.bases), dict(load.cookies)
    for frame in heard:
        packet = Ether(frame)
        if PascalineControl not in packet:
            continue
        header, body = packet[Pascaline], packet[PascalineControl]
        if (body.action, body.answered, body.session) != (_ACK, _JOIN, load.session):
            continue
        epochs[header.job], bases[header.job] = header.epoch, body.psn
        cookies[header.job, header.rank] = body.cookie
    return replace(load, epochs=epochs, bases=bases, cookies=cookies)


def _session() -> int:
    """Another one for each run."""
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
) -> Report:
    """Sends the streams and says what became of them.

    `reasons` tells under which reason the packets of a stream, by its name, have to be counted.
    """
    before = appliance.settled()
    sent = generator.send(streams, seconds)
    report = _difference(before, appliance.settled(), sent)
    wanted = Counter[str]()
    for stream in streams:
        if reasons and stream.name in reasons and seconds is None:
            wanted[reasons[stream.name]] += stream.count or 0
    missing = {reason: count - report.dropped.get(reason, 0) for reason, count in wanted.items()}
    return replace(report, uncounted={reason: count for reason, count in missing.items() if count > 0})


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
