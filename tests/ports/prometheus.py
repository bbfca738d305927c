"""A Prometheus of our own: its program, its configuration, its process, its HTTP API."""

import math
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from process import Failure
from tests.bed import api
from tests.bed.process import Processes, wait_for

_ADDRESS = "127.0.0.1:9491"
_READY_SECONDS = 30.0
_INTERVAL = "1s"


def programs(unpacked: Path, environment: Mapping[str, str]) -> Path:
    """The directory of prometheus and promtool: those in PATH, or Debian's package unpacked beside the build.

    Installing the package would start a Prometheus of its own, now and at every boot.
    """
    if (found := shutil.which("prometheus")) and shutil.which("promtool"):
        return Path(found).parent
    place = unpacked / "usr/bin"
    if not (place / "promtool").is_file():
        with tempfile.TemporaryDirectory() as scratch:
            # For the user that apt-get downloads as.
            Path(scratch).chmod(0o755)
            command = ("apt-get", "-qq", "download", "prometheus")
            done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, check=False)
            packages = list(Path(scratch).glob("prometheus_*.deb"))
            if done.returncode or not packages:
                pytest.skip("no prometheus in PATH, and apt-get cannot download it: run apt-get update")
            subprocess.run(("dpkg-deb", "-x", packages[0], unpacked), check=True)
    return place


class Prometheus:
    def __init__(self, path: Path, shipped: Path, files: Path, namespace: str) -> None:
        self._namespace = namespace
        config = files / "prometheus.yml"
        # As shipped, only faster: what takes minutes in operation has to be seen in seconds.
        text = (shipped / "prometheus.yml").read_text()
        config.write_text(re.sub(r"(scrape|evaluation)_interval: \w+", rf"\1_interval: {_INTERVAL}", text))
        shutil.copy(shipped / "rules.yml", files)
        storage = f"--storage.tsdb.path={files / 'tsdb'}"
        options = [f"--config.file={config}", storage, f"--web.listen-address={_ADDRESS}", "--log.level=warn"]
        options.append("--enable-feature=exemplar-storage")
        self._processes = Processes(files)
        self._child = self._processes.start("prometheus", (path / "prometheus", *options), namespace)

    def wait_ready(self) -> None:
        wait_for(self._ready, _READY_SECONDS, "prometheus is not ready", self._child.tail())

    def stop(self) -> None:
        self._processes.close(grace=10.0)

    def values(self, expression: str) -> list[float]:
        """The values that an expression has now, without those that are no numbers. Raises if it is wrong."""
        result = self._api("query", query=expression)["result"]
        scalar = bool(result) and not isinstance(result[0], dict)
        samples = [result] if scalar else [series["value"] for series in result]
        return [value for _, text in samples if not math.isnan(value := float(text))]

    def label_values(self, metric: str, label: str) -> list[str]:
        """All values of a label: Grafana's function of this name."""
        series = self._api("series", **{"match[]": metric})
        return sorted({found[label] for found in series if label in found})

    def labels(self, metric: str) -> list[dict[str, str]]:
        """The labels of each series of a metric."""
        return [
            {name: value for name, value in found.items() if name != "__name__"}
            for found in self._api("series", **{"match[]": metric})
        ]

    def exemplars(self, expression: str, seconds: float) -> list[dict[str, Any]]:
        """Those of the last seconds, each with its labels and value."""
        now = time.time()
        found = self._api("query_exemplars", query=expression, start=f"{now - seconds}", end=f"{now}")
        return [exemplar for series in found for exemplar in series["exemplars"]]

    def metrics(self) -> list[str]:
        return [name for name in self._api("label/__name__/values") if name.startswith("pascaline_")]

    def rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._api("rules")["groups"] for rule in group["rules"]]

    def _ready(self) -> bool:
        if self._child.exit_code() is not None:
            raise Failure("prometheus ended by itself", self._child.tail())
        try:
            return self._get("/-/ready").is_success
        except httpx.TransportError:
            return False

    def _api(self, path: str, **parameters: str) -> Any:
        answer = self._get(f"/api/v1/{path}", params=parameters, timeout=10)
        said = answer.json() if answer.text.startswith("{") else {"status": "error", "error": answer.text}
        if said["status"] != "success":
            raise QueryError(said["error"])
        return said["data"]

    def _get(self, path: str, **options: Any) -> httpx.Response:
        return api.inside(self._namespace, f"http://{_ADDRESS}{path}", **options)


class QueryError(Exception):
    """Prometheus cannot evaluate an expression; its own words."""
