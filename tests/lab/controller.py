"""The controller of a lab: its file, its process, and what it says."""

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
    """What one of several controllers needs to know."""

    member: str
    # Of etcd.
    endpoints: list[str]
    lease_seconds: int


class Controller:
    """One `pascaline-fleet controller`, and what comes after it if it is killed."""

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
        own = [f'listen = "unix:{self._socket}"', f'page = "{self._page}"', *_store(files, shared)]
        job = job or _job(fabric, trees, keys)
        file.write_text(_configuration(fabric, files, own, job, fabric.spines[: max(trees, roots)]))
        self._command = [str(fleet(binary)), "controller", "-c", str(file)]
        # Each lab case begins with a controller that remembers nothing.
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
        """Ends it without a warning, and starts another, which has the same database."""
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
        """How often the one that runs now has told an appliance its part."""
        return len(re.findall(r"appliance \S+ .*\bits part\b", self._child.err.read_text()))

    def status(self) -> dict[str, Any]:
        """Everything that it says; nothing while it does not answer."""
        if self._child.exit_code() is not None:
            raise Failure("the controller has ended", self._child.tail())
        try:
            with api.over_unix(self._socket) as client:
                said: dict[str, Any] = client.get("/api/v1/status").json()
        except httpx.HTTPError:
            return {}
        return said

    def moves(self) -> list[str]:
        """What has happened, the first first."""
        return [moved["text"] for moved in reversed(self.status().get("moves", []))]

    def when(self, what: str) -> float:
        """When something happened last, on the monotonic clock; 0 if it never did."""
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
    """A controller once all its appliances have their parts; ended in the end."""
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


def _store(files: Path, shared: Shared | None) -> list[str]:
    if not shared:
        return [f'store = "{files}/controller.sqlite"']
    endpoints = ", ".join(f'"{endpoint}"' for endpoint in shared.endpoints)
    member = f'member = "{shared.member}"'
    return ["[etcd]", f"endpoints = [{endpoints}]", member, f'lease = "{shared.lease_seconds}s"']


def _configuration(fabric: Fabric, files: Path, own: list[str], job: str, roots: list[Site]) -> str:
    """The controller's TOML: the whole network, with appliances at all leaves and at these spines."""
    lines = ["[controller]", 'interval = "100ms"', f'down_after = "{_DOWN_AFTER}"', *own]
    for spine in fabric.spines:
        lines += ["[[switches]]", f'name = "{spine.name}"']
    above = ", ".join(f'"{spine.name}"' for spine in fabric.spines)
    number = 0
    for leaf in fabric.leaves:
        lines += ["[[switches]]", f'name = "{leaf.name}"', f"links = [{above}]"]
        for address in leaf.members:
            lines += ["[[hosts]]", f'name = "w{number}"', f'at = "{leaf.name}"', f'address = "{address}"']
            number += 1
    for site in [*fabric.leaves, *roots]:
        lines += _appliance(site, site.name, files)
    lines += [*_appliance(fabric.spare, fabric.leaves[0].name, files), "spare = true"]
    return "\n".join([*lines, job, ""])


def _appliance(site: Site, at: str, files: Path) -> list[str]:
    return [
        "[[appliances]]",
        f'name = "{site.name}"',
        f'at = "{at}"',
        f'address = "{site.appliance_address}"',
        f'admin = "unix:{files / site.name}/admin.sock"',
        f'router = "{site.router}"',
    ]


def _job(fabric: Fabric, trees: int, keys: str) -> str:
    names = ", ".join(f'"w{number}"' for number in range(fabric.shape.workers))
    terms = f"{keys or f'trees = {trees}'}\nterms = {{ window = 512 }}"
    return f'[[jobs]]\nid = {JOB}\nname = "controlled"\nranks = [{names}]\n{terms}'
