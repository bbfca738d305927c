"""The result of a run: for people a table, for programs one JSON object."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import metrics as m
from options import Options
from reload import LEAST
from verdict import Verdict


@dataclass
class Outcome(Verdict):
    options: Options
    workers: list[dict[str, Any]]
    metrics: m.Metrics
    impairment: dict[str, Any]
    pings: list[str]
    appliance_exit: int
    restarts: int = 0
    reloaded: dict[str, Any] = field(default_factory=dict)
    by_hand: dict[str, Any] = field(default_factory=dict)
    # What the same workers did with nothing that protects tensors, where the first ones had that.
    reference: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.accounting = m.Accounting.of(self.metrics)
        self.drops = self.metrics.by_label(m.DROPPED, "reason")
        jobs: dict[int, list[dict[str, Any]]] = {}
        for worker in self.workers:
            jobs.setdefault(worker["job"], []).append(worker)
        self.wanted = self.options.allreduces * self.options.jobs
        self.equal = self.verified = 0
        self.seconds: list[float] = []
        for ranks in jobs.values():
            per_allreduce = zip(*(worker["checksums"] for worker in ranks), strict=False)
            # Others keep their part, or get another.
            alike = self.options.collective not in ("reduce", "reduce_scatter")
            equal = sum(len(set(checksums)) == 1 or not alike for checksums in per_allreduce)
            self.equal += equal
            # Good are those that each worker has verified and that have the same bits everywhere.
            self.verified += min([equal, *(worker["verified"] for worker in ranks)])
            # An allreduce is done when the last rank has its result.
            self.seconds += [max(times) for times in zip(*(w["seconds"] for w in ranks), strict=False)]
        # Of all jobs' results: what rank 0 of each has is what all have, where they agree.
        self.checksum = "-".join(ranks[0]["checksum"] for _, ranks in sorted(jobs.items()))
        self.mismatches = self.sum("mismatches")
        self._judge()

    def _judge(self) -> None:
        wanted, hand, reloaded = self.wanted, self.by_hand, self.reloaded
        self.require_sums(self.verified, wanted, self.mismatches)
        equal = f"the workers' checksums agree for {self.equal} of {wanted} allreduces"
        self.require((self.equal == wanted, equal))
        self.require_order(self.accounting, self.appliance_exit)
        if self.options.restart_appliance:
            late = "the workers were done before the restart: give them more --allreduces"
            self.require((self.restarts, late))
        if hand:
            told = f"{hand['told_of_halt']} workers named what ends a Halt"
            self.require(
                (
                    hand["told_of_halt"] >= self.options.workers,
                    f"{told}: one that is done before it needs more --allreduces",
                ),
                (hand["explained"], "`pascaline explain` did not name what ends a Halt"),
            )
        if reloaded:
            done = reloaded["reloads"] + reloaded["reloads_refused"]
            lost = f"frames were lost while the configuration changed: {reloaded['frames']}"
            late = f"the workers were done before {LEAST} reloads: give them more --allreduces"
            self.require((not reloaded["lost"], lost), (done >= LEAST, late))
            early = "the workers were done before all of them used another key: give them more --allreduces"
            self.require((reloaded.get("rekeyed", 1), early))

    @property
    def packets_per_result(self) -> float:
        """The number of packets that left the appliance for each result."""
        return self.metrics.total(m.RESULTS_SENT) / max(self.metrics.total(m.RESULTS), 1)

    @property
    def cost(self) -> dict[str, float]:
        """The medians of seconds until the slowest has its result, with what protects tensors and without."""
        jobs: dict[int, list[list[float]]] = {}
        for worker in self.reference:
            jobs.setdefault(worker["job"], []).append(worker["seconds"])
        without = [max(times) for ranks in jobs.values() for times in zip(*ranks, strict=False)]
        hidden, plain = statistics.median(self.seconds), statistics.median(without)
        return {"seconds": round(hidden, 6), "without": round(plain, 6), "ratio": round(hidden / plain, 3)}

    def sum(self, key: str) -> int:
        return sum(int(worker.get(key, 0)) for worker in self.workers)

    def told(self) -> dict[str, Any]:
        options, total = self.options, self.metrics.total
        goodputs = [worker["goodput_gbps"] for worker in self.workers]
        return {
            **options.named("workers", "jobs", "policy", "order", "bytes", "dtype", "collective", "ip6"),
            **options.named("multicast", "driver", "security"),
            "allreduces": self.wanted,
            "verified": self.verified,
            "mismatches": self.mismatches,
            "checksums_equal": self.equal == self.wanted,
            "checksum": self.checksum,
            "restarts": self.restarts,
            "resumed": self.sum("resumed"),
            **self.reloaded,
            **self.by_hand,
            **({"cost": self.cost} if self.reference else {}),
            "preemptions": total(m.PREEMPTIONS),
            "ps_completions": self.metrics.by_label(m.PS_ENTRIES_ENDED, "how").get("finished", 0),
            "spilled": total(m.SPILLED),
            "evicted": total(m.EVICTED),
            "payload": self.workers[0]["payload"],
            "packets_per_result": round(self.packets_per_result, 3),
            "goodput_gbps_per_worker": round(statistics.fmean(goodputs), 4),
            "seconds_per_allreduce": {
                "median": round(statistics.median(self.seconds), 6),
                "min": round(min(self.seconds), 6),
                "max": round(max(self.seconds), 6),
            },
            "packets_sent": self.sum("packets_sent"),
            "retransmissions": self.sum("retransmissions"),
            "drops": self.drops,
            "identity_holds": self.accounting.holds,
            "accounting": vars(self.accounting),
            "impairment": self.impairment,
            "appliance_exit": self.appliance_exit,
        }

    def text(self) -> str:
        parts = [_workers(self), _totals(self), _appliance(self)]
        if self.impairment["by"] != "none":
            parts.insert(2, _impairment(self.impairment))
        return "\n\n".join(parts)


def _workers(outcome: Outcome) -> str:
    several = outcome.options.jobs > 1
    rows = []
    for worker in outcome.workers:
        exact = worker["verified"] == worker["iterations"] and not worker["mismatches"]
        row = [
            worker["rank"], f"{worker['goodput_gbps']:.3f}", *_spread(worker["seconds"]),
            worker["packets_sent"], worker["retransmissions"],
            f"{worker['verified']}/{worker['iterations']} {_mark(exact)}", outcome.pings[worker["rank"]],
        ]  # fmt: skip
        rows.append([worker["job"], *row] if several else row)
    head = ["rank", "goodput Gbit/s", "median ms", "min ms", "max ms", "packets", "resent", "exact", "ping"]
    return table(["job", *head] if several else head, rows)


def _totals(outcome: Outcome) -> str:
    options, wanted = outcome.options, outcome.wanted
    jobs = f" in each of {options.jobs} jobs" if options.jobs > 1 else ""
    median, least, most = _spread(outcome.seconds)
    return "\n".join(
        [
            f"{wanted} allreduces of {options.bytes / (1 << 20):g} MiB {options.dtype} by "
            f"{options.workers} workers{jobs}; until the slowest has its result: median {median} ms, "
            f"min {least} ms, max {most} ms",
            f"{_mark(outcome.verified == wanted)} {outcome.verified} verified by every worker, "
            f"{outcome.mismatches} mismatches",
            f"{_mark(outcome.equal == wanted)} every worker has the same bits in {outcome.equal} of {wanted}",
        ]
    )


def _impairment(done: dict[str, Any]) -> str:
    counts = ", ".join(
        f"{'unknown' if done[key] is None else done[key]} {key}"
        for key in ("lost", "duplicated", "reordered", "overflow")
        if key in done
    )
    asked = done["asked"]
    return (
        f"bad network made by {done['by']}, asked for loss {asked['loss']:g} %, duplicates "
        f"{asked['duplicate']:g} %, "
        f"reordering {asked['reorder']:g} %:\n  of {done['received']} frames really {counts}"
    )


def _appliance(outcome: Outcome) -> str:
    options, found, a = outcome.options, outcome.metrics, outcome.accounting
    lines = [
        f"/metrics of the appliance ({options.driver} ports):",
        f"{_mark(a.holds)} received {a.received} = forwarded {a.forwarded} + absorbed {a.absorbed} + "
        f"answered {a.answered} + dropped {a.dropped}",
        f"  results {found.total(m.RESULTS)}, sent as {found.total(m.RESULTS_SENT)} packets, "
        f"{found.total(m.TX_DROPPED)} not accepted by a port",
    ]
    if options.policy != "default":
        said = outcome.told()
        lines.append(
            f"  policy {options.policy}: {said['preemptions']} preemptions, {said['spilled']} contributions "
            f"and {said['evicted']} partials to the parameter server, which completed "
            f"{said['ps_completions']} PSNs"
        )
    for name, meaning in ((m.SPREAD, "first to last contribution"), (m.SERVICE, "packet service time")):
        median, most = (_microseconds(found.quantile(name, q)) for q in (0.5, 0.99))
        lines.append(f"  {meaning}: median {median}, 99 % below {most}")
    if outcome.by_hand:
        told, explained = outcome.by_hand["told_of_halt"], outcome.by_hand["explained"]
        also = "and so did `pascaline explain`" if explained else "and `pascaline explain` did not"
        lines.append(
            f"{_mark(told == options.workers and explained)} {told} workers named "
            f"`pascaline job reset` when the job was halted, {also}; after it they began anew"
        )
    if outcome.reference:
        cost, hidden = outcome.cost, options.security
        lines.append(
            f"  {hidden}: median {cost['seconds'] * 1e3:.1f} ms, {cost['without'] * 1e3:.1f} ms without "
            f"({cost['ratio']:.2f} times as long)"
        )
    if outcome.reloaded:
        r = outcome.reloaded
        lines.append(
            f"{_mark(not r['lost'])} {r['reloads']} reloads, {r['reloads_refused']} refused: {r['lost']} "
            f"frames lost ({r['frames']['dropped_by_kernel']} dropped by the kernel)"
            + (f"; {r['rekeyed']} times all ranks got another key" if "rekeyed" in r else "")
        )
    return "\n".join([*lines, drops(outcome.metrics)])


def drops(found: m.Metrics) -> str:
    """Why packets were dropped, in a line."""
    reasons = found.by_label(m.DROPPED, "reason")
    return (
        f"  drops by reason: {', '.join(f'{reason} {count}' for reason, count in reasons.items()) or 'none'}"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be, numbers to the right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.rjust(n) for cell, n in zip(row, widths, strict=True)) for row in cells]
    return "\n".join([lines[0], "─" * len(lines[0]), *lines[1:]])


def dump(found: dict[str, Any]) -> str:
    return json.dumps(found, separators=(",", ":"))


def _mark(good: bool) -> str:
    return "✓" if good else "✗"


def _spread(seconds: Sequence[float]) -> list[str]:
    """Median, least and most, in milliseconds."""
    return [f"{value * 1e3:.1f}" for value in (statistics.median(seconds), min(seconds), max(seconds))]


def _microseconds(seconds: float | None) -> str:
    return "unknown" if seconds is None else f"{seconds * 1e6:.1f} µs"
