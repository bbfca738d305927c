"""An appliance from its settings to its end, asked by httpx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

import appliance as demo
from appliance import JOB, TELEMETRY, UDP_PORT, Settings, configuration
from process import Failure

from . import api
from .metrics import Metrics

__all__ = ["JOB", "TELEMETRY", "UDP_PORT", "Appliance", "Settings", "configuration"]


class Appliance(demo.Appliance):
    """The demo's `pascaline run`, with clients of its APIs by httpx."""

    def __init__(
        self, binary: Path, network: Any, settings: Settings | str, files: Path, *, realtime: bool = False
    ) -> None:
        """`network` has the names and addresses that scripts/lib/appliance.py reads, as `Star` does."""
        if not isinstance(settings, str):
            settings = configuration(network, settings, files / "admin.sock")
        super().__init__(binary, network, settings, files, realtime=realtime)

    def __enter__(self) -> Appliance:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def client(self) -> httpx.Client:
        return api.over_unix(self.socket)

    def admin(self, path: str, method: str = "GET", **options: Any) -> Any:
        """The JSON that its admin API answers with."""
        try:
            with self.client() as client:
                answer = client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise Failure(f"the admin API does not answer: {error!r}", self.tail()) from error
        if answer.status_code != 200:
            raise Failure(f"{path} answers with status {answer.status_code}: {answer.text}", self.tail())
        return answer.json()

    def scrape(self) -> Metrics:
        status, text = self._get("/metrics")
        if status != 200:
            raise Failure(f"/metrics answers with status {status}", self.tail())
        return Metrics(text)

    def get(self, path: str, **options: Any) -> httpx.Response:
        host, port = TELEMETRY
        return api.inside(self._network.appliance, f"http://{host}:{port}{path}", **options)

    def _get(self, path: str) -> tuple[int, str]:
        try:
            answer = self.get(path)
        except httpx.HTTPError as error:
            raise ConnectionError(str(error)) from error
        return answer.status_code, answer.text
