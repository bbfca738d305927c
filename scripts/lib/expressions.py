"""What a dashboard and alert rules ask of Prometheus."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMPARISON = re.compile(r"^(.*)\s(==|!=|>=|<=|>|<)\s(-?[\d.e+-]+)$", re.DOTALL)
_LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")
_COLUMNS = 24
_METRIC = re.compile(r"\bpascaline_\w+")


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


def metrics_in(expressions: list[Expression]) -> set[str]:
    """Names of the appliance's metrics that are asked for."""
    return {name for expression in expressions for name in _METRIC.findall(expression.text)}
