"""The installed files for Prometheus and Grafana are made from conf/mixin, by the rules of mixins."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.runner.shell import ROOT, Shell, repository_files

_MIXIN = ROOT / "conf/mixin"
_HEADINGS = ("What it means", "What to look at", "What to do")
_RECORD = re.compile(r"[a-z]\w*:pascaline_[a-z_]+:[a-z0-9_]+")


@pytest.fixture
def jsonnet(shell: Shell) -> Shell:
    if shell("sh", "-c", "command -v jsonnet && command -v jsonnetfmt", code=None).code:
        pytest.skip("no jsonnet in PATH: apt-get install jsonnet")
    return shell


def test_installed_files_are_made_from_it(jsonnet: Shell, tmp_path: Path) -> None:
    """The commands of conf/mixin/README.md change nothing."""
    commands = re.findall(r"^jsonnet (.*?)-m (\S+) (\S+)$", (_MIXIN / "README.md").read_text(), re.MULTILINE)
    assert len(commands) == 2
    for options, folder, source in commands:
        made = jsonnet("jsonnet", *options.split(), "-m", tmp_path, ROOT / source).out.split()
        assert made, source
        for file in map(Path, made):
            installed = ROOT / folder / file.name
            assert file.read_text() == installed.read_text(), f"{installed} is another one: make it anew"


def test_form(jsonnet: Shell) -> None:
    files = [name for name in repository_files("conf/mixin") if name.endswith("sonnet")]
    assert len(files) > 5
    for name in files:
        jsonnet("jsonnetfmt", "--test", ROOT / name)


def test_every_alert_is_explained(jsonnet: Shell) -> None:
    """Summary, description, severity, and a page with what it means, what to look at and what to do."""
    alerts = [rule for rule in _rules(jsonnet) if "alert" in rule]
    assert len(alerts) > 20
    for alert in alerts:
        name, annotations = alert["alert"], alert["annotations"]
        assert alert["labels"]["severity"] in ("critical", "warning", "info"), name
        assert annotations["summary"].startswith("{{ $labels.instance }}"), name
        assert annotations["description"].endswith("."), name
        assert annotations["runbook_url"].endswith(f"/runbooks/{name}.md"), name
        page = (ROOT / f"docs/runbooks/{name}.md").read_text()
        assert page.startswith(f"# {name}\n")
        assert tuple(re.findall(r"^## (.*)$", page, re.MULTILINE)) == _HEADINGS, name
    index = (ROOT / "docs/runbooks/README.md").read_text()
    named = {alert["alert"] for alert in alerts}
    pages = {path.stem for path in (ROOT / "docs/runbooks").glob("*.md")}
    assert pages - {"README"} == named
    assert set(re.findall(r"\[(\w+)\]\(\1\.md\)", index)) == named


def test_recording_rules_are_named_by_level_metric_and_operation(jsonnet: Shell) -> None:
    """Which labels a level stands for, tests/ports/test_observe.py asks Prometheus."""
    names = [rule["record"] for rule in _rules(jsonnet) if "record" in rule]
    assert names
    assert not [name for name in names if not _RECORD.fullmatch(name)]


def test_a_site_can_change_it(jsonnet: Shell) -> None:
    """Another address of the pages, another job of the scrapes, another limit."""
    change = "{ _config+:: { runbookUrl: 'https://wiki/%s', selector: 'job=\"ina\"', poolFull: 0.5 } }"
    alerts = {rule["alert"]: rule for rule in _rules(jsonnet, change) if "alert" in rule}
    assert alerts["PascalineDown"]["expr"] == 'up{job="ina"} == 0'
    assert alerts["PascalinePoolFull"]["expr"].endswith("> 0.5\n")
    for name, alert in alerts.items():
        assert alert["annotations"]["runbook_url"] == f"https://wiki/{name}"


def _rules(jsonnet: Shell, change: str = "{}") -> list[dict[str, Any]]:
    """All rules, of the mixin or of what a site makes of it."""
    groups = f"local made = (import 'mixin.libsonnet') + {change}; "
    groups += "made.prometheusRules.groups + made.prometheusAlerts.groups"
    said = json.loads(jsonnet("jsonnet", "-J", _MIXIN, "-e", groups).out)
    return [rule for group in said for rule in group["rules"]]
