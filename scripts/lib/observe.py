"""Is there an answer to everything that the dashboard and the alert rules ask? This is scripts/observe.

Starts an appliance, workers that allreduce without end, as the demo does, others that send updates, and a
real Prometheus with the rules of conf/prometheus beside them; then evaluates every expression of every panel
and every rule over Prometheus' HTTP API. A panel whose every value is 0 has no data, unless it asks for what
does not happen in this run: `expressions.MAY_BE_ZERO`. Alerts compare; that they fire, promtool tests.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import asynchronous
import build
import expressions
import private
from appliance import Appliance, Settings
from expressions import Dashboard, Expression
from netns import Network
from process import Failure, Interrupted, Stop, say
from prometheus import Prometheus, QueryError, check_files
from workers import Load, Workers

_PREFIX = "pasobs"
_WORKERS = 4
_MTU = 1500
_BUILD_SECONDS = 3600.0
_TIMEOUT_SECONDS = 120.0
# Enough scrapes that every rate has two; then it may take a while until everything has happened once.
_WARM_UP_SECONDS = 8.0
_PATIENCE_SECONDS = 30.0
_BETWEEN_LOOKS = 2.0
_RATE_INTERVAL, _SPAN = "10s", "1m"
_ENDLESS = Load(
    allreduces=10**6, bytes=1 << 20, dtype="f32", payload=1024, in_flight=64, seed=1, deadline=600
)


@dataclass
class _Findings:
    asked: int = 0
    without_data: list[str] = field(default_factory=list)
    only_zeros: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    firing: list[str] = field(default_factory=list)
    nobody_asks: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return self.asked > 0 and not self.without_data and not self.only_zeros and not self.errors


def main(arguments: list[str]) -> int:
    """Runs it and returns the exit code."""
    options = _parse(arguments)
    try:
        promtool = check_files(options.conf / "prometheus")
        binary = build.ready(Stop(_BUILD_SECONDS), options.binary)
        build.become_root(Path(__file__).resolve(), arguments, binary)
        found = _observe(options.conf, binary, Stop(options.timeout, "--timeout"))
    except Interrupted as interrupted:
        say(f"observe: {interrupted}; everything is cleaned up")
        return interrupted.exit_code
    except Failure as failure:
        say(f"observe: {failure.whole}")
        if options.json:
            print(json.dumps({"ok": False, "error": str(failure)}))
        return 1
    report = sys.stderr if options.json else sys.stdout
    print(f"promtool: {promtool}", file=report)
    for text in found.errors:
        print(f"✗ error: {text}", file=report)
    for text in found.without_data:
        print(f"✗ no data: {text}", file=report)
    for text in found.only_zeros:
        print(f"✗ nothing but 0: {text}", file=report)
    print(f"alerts that fire: {', '.join(found.firing) or 'none'}", file=report)
    print(
        f"metrics that neither panel nor rule asks for: {', '.join(found.nobody_asks) or 'none'}", file=report
    )
    with_data = found.asked - len(found.without_data) - len(found.only_zeros) - len(found.errors)
    print(
        f"{'✓' if found.good else '✗'} {with_data} of {found.asked} expressions answered with data",
        file=report,
    )
    if options.json:
        print(json.dumps({"ok": found.good, **vars(found)}))
    return 0 if found.good else 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/observe", description=__doc__, allow_abbrev=False)
    add = parser.add_argument
    add("--binary", type=Path, help="use this pascaline instead of building it")
    add(
        "--conf", type=Path, default=build.ROOT / "conf", metavar="DIR", help="what to check (default: conf/)"
    )
    add("--timeout", type=float, default=_TIMEOUT_SECONDS, metavar="S", help="give up after (120)")
    add("--json", action="store_true", help="one JSON object as the last line of standard output")
    return parser.parse_args(arguments)


def _observe(conf: Path, binary: Path, stop: Stop) -> _Findings:
    dashboard = Dashboard(conf / "grafana/dashboards/pascaline.json")
    found = _Findings(errors=dashboard.problems())
    private.remove_leftovers(_PREFIX, "observe.py")
    network = Network(_WORKERS, _MTU, middle=False)
    private.rename(network, _PREFIX)
    files = private.directory(_PREFIX)
    with ExitStack() as cleanup:
        # Registered before they exist: whatever happens from here on, they are removed.
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        settings = Settings("af_packet", pool_slots=4096, window=512, more=asynchronous.TABLES)
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        prometheus = Prometheus(conf / "prometheus", files, network.appliance)
        cleanup.callback(prometheus.stop)
        prometheus.wait_ready(stop)
        workers = Workers(binary, network, files)
        cleanup.callback(workers.stop)
        workers.start(_ENDLESS)
        updates = asynchronous.Updates(binary, network, files)
        cleanup.callback(updates.stop)
        say(f"appliance, {_WORKERS} workers and Prometheus are up; waiting for samples")
        stop.sleep(_WARM_UP_SECONDS)
        _ask(prometheus, dashboard, found, stop)
        appliance.check_running()
        updates.check_running()
        if not workers.running():
            # Raises, with the workers' own words, unless they have done it all.
            workers.results()
            raise Failure("the workers ended before the end", appliance.tail())
    return found


def _ask(prometheus: Prometheus, dashboard: Dashboard, found: _Findings, stop: Stop) -> None:
    """Evaluates everything until all of it has had data once, or patience is over."""
    rules = prometheus.rules()
    asked = dashboard.expressions(_RATE_INTERVAL, _SPAN) + [expressions.of_rule(rule) for rule in rules]
    found.asked = len(asked)
    open_questions = asked
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        open_questions = [
            expression for expression in open_questions if not _answered(prometheus, expression, found)
        ]
        if not open_questions or time.monotonic() > end:
            break
        stop.sleep(_BETWEEN_LOOKS)
    for expression in open_questions:
        zeros = prometheus.values(expression.text)
        place = found.only_zeros if zeros else found.without_data
        place.append(f"{expression.asked_by}: {expression.text}")
    for metric, label in dashboard.variables():
        if not prometheus.label_values(metric, label):
            found.errors.append(f"the dashboard's variable: {metric} has no label {label}")
    rules = prometheus.rules()
    found.errors += [f"rule {rule['name']}: {rule['lastError']}" for rule in rules if rule["health"] == "err"]
    found.firing = [rule["name"] for rule in rules if rule.get("state") in ("firing", "pending")]
    used = expressions.metrics_in(asked)
    found.nobody_asks = sorted(name for name in prometheus.metrics() if name not in used)


def _answered(prometheus: Prometheus, expression: Expression, found: _Findings) -> bool:
    try:
        values = prometheus.values(expression.text)
        return any(values) or (bool(values) and expressions.may_be_zero(expression))
    except QueryError as error:
        found.errors.append(f"{expression.asked_by}: {error}: {expression.text}")
        return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
