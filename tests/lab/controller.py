"""The controller of a lab: its file, its process, and its API."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import build
from configuration import LINES, Tables, dumps
from process import Failure, Stop

from ..bed import api
from ..bed.process import Process
from .fabric import Fabric, Site

JOB = 3
_SECONDS = 30.0
_END_SECONDS = 5.0
_DOWN_AFTER = "800ms"


@dataclass(frozen=True)
class Shared:
    """The settings of one of several controllers."""

    member: str
    # Of etcd.
    endpoints: list[str]
    lease_seconds: int


class Controller:
    """One `pascaline-fleet controller`, and its successor if it is killed."""

    def __init__(
        self,
        binary: Path,
        fabric: Fabric,
        files: Path,
        job: str = "",
        shared: Shared | None = None,
        *,
        trees: int = 1,
        roots: int = 0,
        keys: str = "",
    ) -> None:
        """With the lab's job over this many trees, or with this one as TOML; alone, or one of several.

        `roots` spines have appliances, at least one for each tree; `keys` are further ones of the lab's job.
        """
        self._files = files
        self._lives = 0
        self.seconds = 0.0
        self.member = shared.member if shared else ""
        self._name = f"controller-{shared.member}" if shared else "controller"
        self._socket = files / f"{self._name}.sock"
        file = files / f"{self._name}.toml"
        self._page = f"127.0.0.1:{free_port()}"
        controller = {"interval": "100ms", "down_after": _DOWN_AFTER, "page": self._page}
        controller["listen"] = f"unix:{self._socket}"
        if shared:
            lease = f"{shared.lease_seconds}s"
            etcd = {"endpoints": shared.endpoints, "member": shared.member, "lease": lease}
            own: Tables = {"controller": controller, "etcd": etcd}
        else:
            own = {"controller": controller | {"store": f"{files}/controller.sqlite"}}
        job = job or _job(fabric, trees, keys)
        file.write_text(_configuration(fabric, files, own, job, fabric.spines[: max(trees, roots)]))
        self._command = [str(fleet(binary)), "controller", "-c", str(file)]
        # Each case of the lab begins with a controller without state.
        for old in files.glob("controller.sqlite*"):
            old.unlink()
        self._child = self._start()

    @property
    def where(self) -> str:
        return f"unix:{self._socket}"

    def _start(self) -> Process:
        self._lives += 1
        self._begun = time.monotonic()
        return Process(f"{self._name}{self._lives}", self._command, self._files)

    def kill_and_restart(self, stop: Stop) -> None:
        """Kills it, and starts another with the same database."""
        self._child.kill()
        self._child = self._start()
        self.wait_in_force(stop)

    def kill(self) -> None:
        self._child.kill()

    def tail(self) -> str:
        return self._child.tail()

    def leads(self) -> bool:
        """Whether it leads, and its store is there."""
        leadership = self.status().get("leadership", {})
        return bool(leadership.get("leads")) and not leadership["problem"]

    def end(self) -> None:
        self._child.stop(_END_SECONDS)

    def told(self) -> int:
        """How often the running one has configured an appliance."""
        return len(re.findall(r"appliance \S+ .*\bits part\b", self._child.err.read_text()))

    def status(self) -> dict[str, Any]:
        """Its whole status; empty while it does not answer."""
        if self._child.exit_code() is not None:
            raise Failure("the controller has ended", self._child.tail())
        try:
            with api.over_unix(self._socket) as client:
                said: dict[str, Any] = client.get("/api/v1/status").json()
        except httpx.HTTPError:
            return {}
        return said

    def moves(self) -> list[str]:
        """Its events, the oldest first."""
        return [moved["text"] for moved in reversed(self.status().get("moves", []))]

    def when(self, what: str) -> float:
        """The time of the last such event, on the monotonic clock; 0 if it never did."""
        status, now = self.status(), time.monotonic()
        ago = [moved["seconds_ago"] for moved in status.get("moves", []) if moved["text"] == what]
        return now - min(ago) if ago else 0.0

    def picture(self) -> bytes:
        return httpx.get(f"http://{self._page}/topology.svg", timeout=_END_SECONDS).content

    def wait_in_force(self, stop: Stop) -> None:
        """Returns once all appliances have their parts."""

        def whole() -> bool:
            jobs = self.status().get("jobs", [])
            return bool(jobs) and all(job["in_force"] for job in jobs)

        if not stop.wait_for(whole, _SECONDS):
            raise Failure(
                f"not all appliances have their parts: {json.dumps(self.status())}", self._child.tail()
            )
        self.seconds = round(time.monotonic() - self._begun, 3)

    def wait_for_part(self, name: str, stop: Stop) -> float:
        """Returns once an appliance has a part and everything is in force again: after how many seconds."""
        begun = time.monotonic()

        def there() -> bool:
            return any(
                node["appliance"] == name for job in self.status().get("jobs", []) for node in job["tree"]
            )

        if not stop.wait_for(there, _SECONDS):
            raise Failure(f"{name} was given no part: {self.moves()}", self._child.tail())
        self.wait_in_force(stop)
        return round(time.monotonic() - begun, 3)

    def wait_for_backup(self, name: str, stop: Stop) -> None:
        """Returns once an appliance answers, stands by for a part, and everything is in force."""

        def ready() -> bool:
            status = self.status()
            up = {at["name"] for at in status.get("appliances", []) if at["health"] == "up"}
            jobs = status.get("jobs", [])
            stands_by = any(name in node["backups"] for job in jobs for node in job["tree"])
            return name in up and stands_by and all(job["in_force"] for job in jobs)

        if not stop.wait_for(ready, _SECONDS):
            raise Failure(f"{name} does not stand by: {self.moves()}", self._child.tail())


@contextmanager
def in_force(control: Controller, stop: Stop) -> Iterator[Controller]:
    """A controller once all its appliances have their parts; it is ended afterwards."""
    try:
        control.wait_in_force(stop)
        yield control
    finally:
        control.end()


def fleet(binary: Path) -> Path:
    """The program of what concerns many appliances, beside the other."""
    return build.fleet(binary)


def free_port() -> int:
    """A TCP port of the loopback that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _configuration(fabric: Fabric, files: Path, own: Tables, job: str, roots: list[Site]) -> str:
    """The controller's TOML: the whole network, with appliances at all leaves and at these spines."""
    above = [spine.name for spine in fabric.spines]
    switches: list[Tables] = [{"name": name} for name in above]
    switches += [{"name": leaf.name, "links": above} for leaf in fabric.leaves]
    places = [(leaf.name, address) for leaf in fabric.leaves for address in leaf.members]
    hosts = [
        {"name": f"w{number}", "at": at, "address": address} for number, (at, address) in enumerate(places)
    ]
    appliances = [_appliance(site, site.name, files) for site in [*fabric.leaves, *roots]]
    appliances.append(_appliance(fabric.spare, fabric.leaves[0].name, files) | {"spare": True})
    return dumps(own | {"switches": switches, "hosts": hosts, "appliances": appliances, LINES: job})


def _appliance(site: Site, at: str, files: Path) -> Tables:
    return {
        "name": site.name,
        "at": at,
        "address": site.appliance_address,
        "admin": f"unix:{files / site.name}/admin.sock",
        "router": site.router,
    }


def _job(fabric: Fabric, trees: int, keys: str) -> str:
    ranks = [f"w{number}" for number in range(fabric.shape.workers)]
    job = {"id": JOB, "name": "controlled", "ranks": ranks, LINES: keys or f"trees = {trees}"}
    return dumps({"jobs": [job | {"terms": {"window": 512}}]})
