"""Pages of metrics, read by Prometheus' own parser; with the queries of scripts/lib/metrics.py."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

import metrics as demo
from metrics import Accounting as Accounting


class Metrics(demo.Metrics):
    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        self._samples = [(s.name, s.labels, s.value) for family in families for s in family.samples]

    def label(self, name: str, label: str) -> str:
        """The value of a label of a metric's only series."""
        (value,) = [labels[label] for found, labels, _ in self._samples if found == name]
        return str(value)
