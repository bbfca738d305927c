"""A Prometheus of our own: its configuration, its process, its HTTP API."""

from __future__ import annotations

import http.client
import json
import math
import re
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

from netns import in_namespace
from process import Child, Failure, Stop, run

_ADDRESS = ("127.0.0.1", 9491)
_READY_SECONDS = 30.0
_EXIT_SECONDS = 10.0
_INTERVAL = "1s"


def check_files(directory: Path) -> str:
    """Has promtool check configuration and rules and test each alert; returns what it says."""
    said = ""
    for words in (
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "rules.yml"),
        ("test", "rules", "rules_test.yml"),
    ):
        done = run("promtool", *words[:2], str(directory / words[2]), check=False, timeout=60)
        said += done.stdout + done.stderr
        if done.returncode:
            raise Failure(f"promtool {words[0]} {words[1]} rejects {words[2]}", said)
    alerts = set(re.findall(r"- alert: (\w+)", (directory / "rules.yml").read_text()))
    tests = (directory / "rules_test.yml").read_text()
    silent = set(re.findall(r"alertname: (\w+), eval_time: \w+, exp_alerts: \[\]", tests))
    fired = set(re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels", tests))
    if untested := alerts - (silent & fired):
        raise Failure(f"rules_test.yml does not show both firing and silent: {', '.join(sorted(untested))}")
    found = re.findall(r"SUCCESS: (.*)", said)
    shown = f"{len(alerts)} alerts fire and stay silent as tested"
    return "; ".join([*dict.fromkeys(line.replace(f"{directory}/", "") for line in found), shown])


class Prometheus:
    """One `prometheus`, in a namespace."""

    def __init__(self, shipped: Path, files: Path, namespace: str) -> None:
        self._namespace = namespace
        config = files / "prometheus.yml"
        # As shipped, only faster: what takes minutes in operation has to be seen in seconds.
        text = (shipped / "prometheus.yml").read_text()
        config.write_text(re.sub(r"(scrape|evaluation)_interval: \w+", rf"\1_interval: {_INTERVAL}", text))
        shutil.copy(shipped / "rules.yml", files)
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={files / 'tsdb'}",
            f"--web.listen-address={_ADDRESS[0]}:{_ADDRESS[1]}",
            "--log.level=warn",
        ]
        self._child = Child("prometheus", command, files, namespace)

    def wait_ready(self, stop: Stop) -> None:
        """Returns once it answers."""
        if not stop.wait_for(self._ready, _READY_SECONDS):
            raise Failure(f"prometheus is not ready after {_READY_SECONDS:.0f} s", self._child.tail())

    def stop(self) -> None:
        """Ends it."""
        self._child.stop(_EXIT_SECONDS)

    def values(self, expression: str) -> list[float]:
        """The values that an expression has now, without those that are no numbers. Raises if it is wrong."""
        result = self._api("query", query=expression)["result"]
        samples = (
            [result] if result and not isinstance(result[0], dict) else [series["value"] for series in result]
        )
        return [value for _, text in samples if not math.isnan(value := float(text))]

    def label_values(self, metric: str, label: str) -> list[str]:
        """All values of a label: Grafana's function of this name."""
        series = self._api("series", **{"match[]": metric})
        return sorted({found[label] for found in series if label in found})

    def metrics(self) -> list[str]:
        """Names of all metrics that the appliance exports."""
        return [name for name in self._api("label/__name__/values") if name.startswith("pascaline_")]

    def rules(self) -> list[dict[str, Any]]:
        """All rules, with their health."""
        return [rule for group in self._api("rules")["groups"] for rule in group["rules"]]

    def _ready(self) -> bool:
        if self._child.exit_code() is not None:
            raise Failure("prometheus ended by itself", self._child.tail())
        try:
            return self._get("/-/ready")[0] == 200
        except OSError:
            return False

    def _api(self, path: str, **parameters: str) -> Any:
        status, body = self._get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters)}")
        answer = (
            json.loads(body) if body.startswith("{") else {"status": "error", "error": f"{status}: {body}"}
        )
        if answer["status"] != "success":
            raise QueryError(answer["error"])
        return answer["data"]

    def _get(self, path: str) -> tuple[int, str]:
        def request() -> tuple[int, str]:
            connection = http.client.HTTPConnection(*_ADDRESS, timeout=10)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        return in_namespace(self._namespace, request)


class QueryError(Exception):
    """Prometheus cannot evaluate an expression; its own words."""
