"""There is an answer to everything that the dashboard and the alert rules ask of Prometheus.

An appliance, workers that allreduce without end, others that send updates, and a real Prometheus with the
rules of conf/prometheus; every expression of every panel and rule is evaluated over its HTTP API. A panel
whose every value is 0 has no data, unless it asks for what does not happen in this run. Alerts compare; that
they fire, promtool tests.
"""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.bed.api import inside
from tests.bed.appliance import JOB, Appliance, Settings
from tests.bed.network import Star
from tests.bed.process import Deadline
from tests.bed.workers import Load, Workers
from tests.ports import expressions
from tests.ports.conftest import SERVER_PAGES, WORKERS, update_tables, updating
from tests.ports.expressions import Dashboard, Expression, level
from tests.ports.prometheus import Prometheus, QueryError, programs
from tests.runner.shell import ROOT, Shell

pytestmark = pytest.mark.all
_CONF = ROOT / "conf"
# Enough scrapes that every rate has two; then it may take a while until everything has happened once.
_WARM_UP_SECONDS = 8.0
_PATIENCE_SECONDS = 30.0
_BETWEEN_LOOKS = 2.0
_RATE_INTERVAL, _SPAN = "10s", "1m"
_ENDLESS = Load(
    allreduces=10**6, bytes=1 << 20, dtype="f32", payload=1024, in_flight=64, seed=1, deadline=600
)


@pytest.fixture(scope="module")
def prometheus_path(target: Path, environment: dict[str, str]) -> Path:
    return programs(target / "prometheus", environment)


def test_files(shell: Shell, prometheus_path: Path) -> None:
    """Promtool accepts configuration and rules; each alert fires and stays silent as tested."""
    for words in ("check config prometheus.yml", "check rules rules.yml", "test rules rules_test.yml"):
        *command, file = words.split()
        shell(prometheus_path / "promtool", *command, _CONF / "prometheus" / file, seconds=180)
    alerts = set(re.findall(r'"alert": "(\w+)"', (_CONF / "prometheus/rules.yml").read_text()))
    tests = (_CONF / "prometheus/rules_test.yml").read_text()
    silent = set(re.findall(r"alertname: (\w+), eval_time: \w+, exp_alerts: \[\]", tests))
    fired = set(re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n +- exp_labels", tests))
    assert alerts
    assert not alerts - (silent & fired), "rules_test.yml does not show these both firing and silent"


def test_dashboard() -> None:
    """Grafana accepts it, and a reader finds a description of each panel."""
    assert Dashboard(_CONF / "grafana/dashboards/pascaline.json").problems() == []


@dataclass(frozen=True)
class Watched:
    """A Prometheus, and what it scrapes."""

    prometheus: Prometheus
    appliance: Appliance
    star: Star


@pytest.fixture(scope="module")
def watched(
    pascaline: Path, prometheus_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    tmp_path = tmp_path_factory.mktemp("watched")
    stop = Deadline(120)
    with ExitStack() as cleanup:
        star = cleanup.enter_context(Star(WORKERS))
        settings = Settings("af_packet", pool_slots=4096, window=512, more=update_tables(star))
        appliance = cleanup.enter_context(Appliance(pascaline, star, settings, tmp_path))
        appliance.wait_ready(stop)
        prometheus = Prometheus(prometheus_path, _CONF / "prometheus", tmp_path, star.appliance)
        cleanup.callback(prometheus.stop)
        prometheus.wait_ready()
        workers = Workers(pascaline, star, tmp_path)  # type: ignore[arg-type] # it has what workers need
        cleanup.callback(workers.stop)
        workers.start(_ENDLESS)
        cleanup.enter_context(updating(pascaline, star, tmp_path))
        stop.sleep(_WARM_UP_SECONDS)
        yield Watched(prometheus, appliance, star)
        appliance.check_running()
        # Raises, with the workers' own words, unless they have done it all.
        assert workers.running() or workers.results()


@pytest.mark.root
def test_every_expression_has_data(watched: Watched) -> None:
    """Panels and rules, and the dashboard's variables."""
    prometheus = watched.prometheus
    dashboard = Dashboard(_CONF / "grafana/dashboards/pascaline.json")
    asked = dashboard.expressions(_RATE_INTERVAL, _SPAN)
    asked += [expressions.of_rule(rule) for rule in prometheus.rules()]
    assert asked
    unanswered = asked
    end = time.monotonic() + _PATIENCE_SECONDS
    while unanswered := [expression for expression in unanswered if not _answered(prometheus, expression)]:
        if time.monotonic() > end:
            break
        time.sleep(_BETWEEN_LOOKS)
    assert not [f"{e.asked_by}: {e.text} = {prometheus.values(e.text)}" for e in unanswered]
    unlabelled = [name for name in dashboard.variables() if not prometheus.label_values(*name)]
    assert not unlabelled
    assert not [
        f"{rule['name']}: {rule['lastError']}" for rule in prometheus.rules() if rule["health"] == "err"
    ]
    unused = sorted(set(prometheus.metrics()) - expressions.metrics_in(asked))
    print(f"{len(asked)} expressions; metrics that neither panel nor rule asks for: {', '.join(unused)}")


@pytest.mark.root
def test_levels_are_the_labels_of_recorded_series(watched: Watched) -> None:
    """`instance_slo:…` has the labels instance and slo, and no others."""
    recorded = [rule["name"] for rule in watched.prometheus.rules() if rule["type"] == "recording"]
    assert recorded
    for name in recorded:
        # A label without a value is none: the name of the job "other".
        labels = {label for series in watched.prometheus.labels(name) for label in series}
        assert labels, f"{name} has no series"
        assert level(labels).fullmatch(name), f"{name} has the labels {', '.join(sorted(labels))}"


@pytest.mark.root
def test_metrics_follow_the_conventions(watched: Watched, prometheus_path: Path) -> None:
    """Names, units, suffixes and help of all metrics: `promtool check metrics`."""
    server = inside(watched.star.workers[WORKERS - 1], f"http://{SERVER_PAGES}/metrics")
    for page in (watched.appliance.get("/metrics"), server):
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "\npascaline_build_info{" in page.text
        command = (prometheus_path / "promtool", "check", "metrics")
        done = subprocess.run(command, input=page.text, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.root
def test_exemplars_name_job_and_rank(watched: Watched) -> None:
    """Where OpenMetrics is asked for, as Prometheus does, and nowhere else."""
    asked = {"accept": "application/openmetrics-text; version=1.0.0, text/plain;q=0.5"}
    page = watched.appliance.get("/metrics", headers=asked)
    assert page.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    # Raises where it is not in OpenMetrics' form.
    families = list(text_string_to_metric_families(page.text))  # type: ignore[no-untyped-call]
    assert {"pascaline_build_info", "pascaline_results"} <= {family.name for family in families}
    assert " # {" not in watched.appliance.get("/metrics").text
    metric = "pascaline_contribution_spread_seconds_bucket"
    exemplars = watched.prometheus.exemplars(metric, _PATIENCE_SECONDS)
    assert exemplars
    for exemplar in exemplars:
        assert exemplar["labels"]["job_id"] == str(JOB)
        assert int(exemplar["labels"]["rank"]) < WORKERS
        assert 0 < float(exemplar["value"]) < 60


def _answered(prometheus: Prometheus, expression: Expression) -> bool:
    try:
        values = prometheus.values(expression.text)
        if values and not any(values) and not expressions.may_be_zero(expression):
            # A state that passes quickly, such as open slots, may be 0 whenever one looks.
            values = prometheus.values(f"max_over_time(({expression.text})[{_SPAN}:1s])")
    except QueryError as error:
        raise AssertionError(f"{expression.asked_by}: {error}: {expression.text}") from error
    return any(values) or (bool(values) and expressions.may_be_zero(expression))
