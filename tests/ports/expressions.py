"""What a dashboard and alert rules ask of Prometheus."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

_COMPARISON = re.compile(r"^(.*)\s(==|!=|>=|<=|>|<)\s(-?[\d.e+-]+)$", re.DOTALL)
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
_COLUMNS = 24
_METRIC = re.compile(r"\bpascaline_\w+")

# What need not happen while workers sum over a network without faults, on one lcore.
_NOT_HERE = """
    combined_refused_total contributions_combined_total contributions_spilled_total
    dropped_packets_total handed_off_packets_total job_behind_packets job_collisions_total
    job_contended_total job_contributions_bypassed_total job_contributions_evicted_total
    job_contributions_spilled_total job_dropped_packets_total job_epoch job_lost_ranks
    job_given_back_total job_over_quota_total job_over_share_total job_partials_given_up_total
    job_preemptions_total job_rank_behind_packets
    job_rank_retransmissions_total job_results_installed_total job_results_nonfinite_total
    job_results_overflowed_total job_results_released_total job_results_replayed_total
    job_server_full_total job_server_lacking no_buffer_total olaf_aggregated_total olaf_dropped_total
    olaf_queue_depth olaf_replaced_total partials_displaced_total partials_evicted_total payload_copies_total
    pool_oldest_partial_seconds port_missed_packets_total port_no_buffer_total port_receive_errors_total
    port_send_errors_total preemptions_total refusals_sent_packets_total reminders_received_total
    reminders_sent_packets_total results_installed_total results_nonfinite_total
    results_overflowed_total results_passed_on_total results_released_total results_replayed_total
    server_results_total slo_errors_per_packets slot_conflicts_total tx_dropped_packets_total
    """
# An expression may be 0 if the first metric that it names is one of these.
MAY_BE_ZERO = frozenset(f"pascaline_{name}" for name in _NOT_HERE.split())
# The identity of the counters: 0 is the good answer.
_IS_ZERO = ("panel Unaccounted A", "recording rule instance:pascaline_unaccounted_packets:sum")
# Shares of the packets that missed an objective.
_MISSED = "recording rule instance_slo:"


@dataclass(frozen=True)
class Expression:
    """One question, and who asks it."""

    asked_by: str
    text: str


class Dashboard:
    """A dashboard file of Grafana's."""

    def __init__(self, file: Path) -> None:
        self._board: dict[str, Any] = json.loads(file.read_text())
        self._panels = [panel for panel in self._board["panels"] if panel["type"] != "row"]

    def problems(self) -> list[str]:
        """What Grafana would stumble over, or a person."""
        found = []
        numbers = [panel["id"] for panel in self._board["panels"]]
        if len(set(numbers)) != len(numbers):
            found.append("two panels have the same id")
        taken: set[tuple[int, int]] = set()
        for panel in self._board["panels"]:
            x, y, width, height = (panel["gridPos"][key] for key in "xywh")
            cells = {(column, line) for column in range(x, x + width) for line in range(y, y + height)}
            if cells & taken or x + width > _COLUMNS:
                found.append(f"{panel['title']}: lies on another panel or beyond the edge")
            taken |= cells
        for panel in self._panels:
            if not panel.get("description"):
                found.append(f"{panel['title']}: has no description")
            if not panel.get("targets"):
                found.append(f"{panel['title']}: asks nothing")
        return found

    def expressions(self, rate_interval: str, span: str) -> list[Expression]:
        """All questions of all panels, with Grafana's variables filled in as for "all appliances"."""
        values = {"$__rate_interval": rate_interval, "$__range": span}
        for variable in self._board["templating"]["list"]:
            values[f"${variable['name']}"] = variable.get("allValue", "")
        found = []
        for panel in self._panels:
            for target in panel["targets"]:
                text = target["expr"]
                for name, value in values.items():
                    text = text.replace(name, value)
                found.append(Expression(f"panel {panel['title']} {target['refId']}", text))
        return found

    def variables(self) -> list[tuple[str, str]]:
        """Metric and label of each variable that Grafana asks Prometheus for."""
        queries = [v["query"]["query"] for v in self._board["templating"]["list"] if v["type"] == "query"]
        return [(match[1], match[2]) for query in queries if (match := _LABEL_VALUES.fullmatch(query))]


def of_rule(rule: dict[str, Any]) -> Expression:
    """What an alert compares, as a question that has an answer whether the alert fires or not."""
    text = rule["query"]
    match = _COMPARISON.match(text)
    if rule["type"] == "alerting" and match:
        text = f"{match.group(1)} {match.group(2)} bool {match.group(3)}"
    return Expression(f"{rule['type']} rule {rule['name']}", text)


def may_be_zero(expression: Expression) -> bool:
    """Whether 0 is an answer: an alert that is silent, or what does not happen here."""
    asked_by = expression.asked_by
    if asked_by.startswith(("alerting ", _MISSED)) or asked_by in _IS_ZERO:
        return True
    first = _METRIC.search(expression.text)
    return first is not None and first.group() in MAY_BE_ZERO


def level(labels: Iterable[str]) -> re.Pattern[str]:
    """Names of recording rules whose series have these labels: level:metric:operation."""
    orders = ("_".join(order) for order in permutations(labels))
    return re.compile(f"({'|'.join(orders)}):.*:.*")


def metrics_in(expressions: list[Expression]) -> set[str]:
    """Names of the appliance's metrics that are asked for."""
    return {name for expression in expressions for name in _METRIC.findall(expression.text)}
