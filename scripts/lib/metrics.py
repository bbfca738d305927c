"""The appliance's metrics page, read and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+\S+)?")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')

RECEIVED = "pascaline_received_packets_total"
FORWARDED = "pascaline_forwarded_packets_total"
ABSORBED = "pascaline_absorbed_packets_total"
ANSWERED = "pascaline_answered_packets_total"
DROPPED = "pascaline_dropped_packets_total"
RESULTS = "pascaline_results_total"
RESULTS_SENT = "pascaline_results_sent_packets_total"
SENT = "pascaline_sent_packets_total"
NO_BUFFER = "pascaline_no_buffer_total"
TX_DROPPED = "pascaline_tx_dropped_packets_total"
PREEMPTIONS = "pascaline_preemptions_total"
SENT_UP_AGAIN = "pascaline_job_sums_sent_up_again_total"
SPILLED = "pascaline_contributions_spilled_total"
EVICTED = "pascaline_partials_evicted_total"
PS_ENTRIES_ENDED = "pascaline_ps_entries_ended_total"
SPREAD = "pascaline_contribution_spread_seconds"
SERVICE = "pascaline_packet_service_seconds"


class Metrics:
    def __init__(self, text: str) -> None:
        self._samples = list(_parse(text))

    def total(self, name: str) -> int:
        """A counter summed over all its labels."""
        return int(sum(value for found, _, value in self._samples if found == name))

    def values(self, name: str) -> list[float]:
        return [value for found, _, value in self._samples if found == name]

    def names(self, prefix: str) -> set[str]:
        """The metrics whose names begin like this."""
        return {found for found, _, _ in self._samples if found.startswith(prefix)}

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """A counter by one label, summed over the others, without zeros."""
        sums: dict[str, float] = {}
        for found, labels, value in self._samples:
            if found == name and label in labels:
                sums[labels[label]] = sums.get(labels[label], 0.0) + value
        return {key: int(value) for key, value in sorted(sums.items()) if value}

    def quantile(self, name: str, q: float) -> float | None:
        """An estimate from a histogram's buckets, linear in each as in Prometheus; none without data."""
        buckets: dict[float, float] = {}
        for found, labels, value in self._samples:
            if found == f"{name}_bucket" and "le" in labels:
                bound = float(labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + value
        total = max(buckets.values(), default=0.0)
        if not total:
            return None
        below_bound, below_count = 0.0, 0.0
        for bound, count in sorted(buckets.items()):
            if count >= q * total:
                if math.isinf(bound):
                    return below_bound
                return below_bound + (bound - below_bound) * (q * total - below_count) / (count - below_count)
            below_bound, below_count = bound, count
        return below_bound


@dataclass(frozen=True)
class Accounting:
    """The accounts of received packets."""

    received: int
    forwarded: int
    absorbed: int
    answered: int
    dropped: int

    @classmethod
    def of(cls, metrics: Metrics) -> Accounting:
        names = (RECEIVED, FORWARDED, ABSORBED, ANSWERED, DROPPED)
        return cls(*(metrics.total(name) for name in names))

    @property
    def holds(self) -> bool:
        """The appliance's promise: every packet is accounted for. False without any packet."""
        return self.received > 0 and not self.missing

    @property
    def missing(self) -> int:
        """Received, and not accounted for."""
        return self.received - self.forwarded - self.absorbed - self.answered - self.dropped


def _parse(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line.strip())
        if match:
            labels = dict(_LABEL.findall(match.group("labels") or ""))
            yield match.group("name"), labels, float(match.group("value"))
