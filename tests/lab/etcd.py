"""Several controllers of a lab, and the members of etcd that they share."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from process import Failure, Stop

from ..bed.process import Process
from .controller import Controller, Shared, free_port
from .fabric import Fabric

PROGRAM = "etcd"
LEASE_SECONDS = 2
_MEMBERS = 3
_SECONDS = 20.0
_ASK_SECONDS = 1.0


class Cluster:
    """Three members of etcd on this machine's loopback."""

    def __init__(self, files: Path) -> None:
        if not shutil.which(PROGRAM):
            raise Failure("etcd is not installed: run scripts/setup --tests")
        peers, clients = ([f"http://127.0.0.1:{free_port()}" for _ in range(_MEMBERS)] for _ in range(2))
        everybody = ",".join(f"m{at}={peer}" for at, peer in enumerate(peers))
        self.endpoints = clients
        self._members = {
            client: Process(
                f"etcd{at}",
                [
                    *(PROGRAM, "--name", f"m{at}", "--initial-cluster", everybody),
                    *("--listen-peer-urls", peers[at], "--initial-advertise-peer-urls", peers[at]),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--data-dir", str(files / f"etcd{at}.data"), "--unsafe-no-fsync"),
                ],
                files,
            )
            for at, client in enumerate(clients)
        }

    def _leads(self, client: str) -> bool:
        try:
            said = httpx.post(f"{client}/v3/maintenance/status", json={}, timeout=_ASK_SECONDS).json()
        except httpx.HTTPError:
            return False
        return bool(said.get("leader", "0") == said["header"]["member_id"])

    def leader(self, stop: Stop) -> str:
        """The member that leads, once there is one."""
        found: list[str] = []

        def there() -> bool:
            found[:] = [client for client in self._members if self._leads(client)]
            return bool(found)

        if not stop.wait_for(there, _SECONDS):
            raise Failure("etcd has no leader", self._members[self.endpoints[0]].tail())
        return found[0]

    def kill(self, client: str) -> None:
        self._members.pop(client).kill()

    def end(self) -> None:
        for member in self._members.values():
            member.kill()


@contextmanager
def several(
    binary: Path, fabric: Fabric, files: Path, stop: Stop
) -> Iterator[tuple[Cluster, Controller, Controller]]:
    """Etcd, the controller that leads and has given all appliances their parts, and the one that follows."""
    with ExitStack() as cleanup:
        cluster = Cluster(files)
        cleanup.callback(cluster.end)
        cluster.leader(stop)
        both: list[Controller] = []
        for name in ("a", "b"):
            shared = Shared(name, cluster.endpoints, LEASE_SECONDS)
            both.append(Controller(binary, fabric, files, shared=shared))
            cleanup.callback(both[-1].end)
        if not stop.wait_for(lambda: any(one.leads() for one in both), _SECONDS):
            raise Failure(f"no controller leads: {[one.status() for one in both]}")
        first, second = sorted(both, key=lambda one: not one.leads())
        first.wait_in_force(stop)
        yield cluster, first, second


class Killing:
    """Ends something half way through an allreduce, and measures how long there was no leader."""

    def __init__(self, what: Callable[[], None]) -> None:
        self._what = what
        self._at = 0.0

    def __call__(self) -> None:
        self._at = time.monotonic()
        self._what()

    def seconds_until(self, controller: Controller, stop: Stop) -> float:
        """How long it was until a controller led; 0 if it had led all the while."""
        if not stop.wait_for(controller.leads, _SECONDS):
            raise Failure(f"it does not come to lead: {controller.status()}", controller.tail())
        return max(0.0, round(controller.when(f"controller {controller.member} leads") - self._at, 3))
