"""The admin API of an appliance."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from .errors import ApplianceError

_DEFAULT = "unix:/run/pascaline/admin.sock"
_SECONDS = 5.0


class Explanation(dict[str, Any]):
    """Why a job is aggregated in the network, or not: the answer's object. As a string, in plain words."""

    def __str__(self) -> str:
        job, size, reasons = self["job"], self["bytes"], self["reasons"]
        first = reasons[0]["text"] if reasons else ""
        lines = [
            # Its last sentence is the first reason, which follows.
            str(self["summary"]).removesuffix(first).rstrip(),
            f"  {job['state']}: {job['joined']} of {job['ranks']} ranks, generation {job['epoch']}",
            f"  bytes: {size['aggregated']} aggregated here, {size['server']} to the parameter server,"
            f" {size['bypassed']} past the pool",
        ]
        for reason in reasons:
            lines += [f"- {reason['text']}", f"  remedy: {reason['remedy']}"]
        return "\n".join(lines)


def explain(job: int | str = 1, admin: str | None = None, *, token: str | None = None) -> Explanation:
    """Asks an appliance what share of a job's bytes it has summed, and where not, why.

    job: its number or name. admin: where its admin API is, `unix:PATH` or `HOST:PORT`; by default
    PASCALINE_ADMIN, or the socket of the service. token: that of the API, if it requires one. Raises
    ApplianceError if there is no answer or no such job.
    """
    found = get(f"/api/v1/jobs/{quote(str(job), safe='')}/explain", admin, token=token)
    return Explanation(found)


def get(path: str, admin: str | None = None, *, token: str | None = None) -> Mapping[str, Any]:
    """An answer of the admin API."""
    place = admin or os.environ.get("PASCALINE_ADMIN") or _DEFAULT
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with contextlib.closing(_connection(place)) as connection:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise ApplianceError(f"the admin API at {place} does not answer: {error}") from error
    if response.status != 200:
        said = f"{answer.get('error', '?')} Remedy: {answer.get('remedy', '?')}"
        raise ApplianceError(f"the admin API at {place} says: {said}")
    found: Mapping[str, Any] = answer
    return found


def _connection(place: str) -> http.client.HTTPConnection:
    if place.startswith("unix:"):
        return _Unix(place.removeprefix("unix:"))
    if place.startswith("https://"):
        return http.client.HTTPSConnection(place.removeprefix("https://"), timeout=_SECONDS)
    return http.client.HTTPConnection(place.removeprefix("http://"), timeout=_SECONDS)


class _Unix(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
