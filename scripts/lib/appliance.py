"""The appliance of a run: its configuration, its process, its health and its metrics."""

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from configuration import (
    DRAIN_SECONDS,
    JOB,
    MEMORY_MB,
    TELEMETRY,
    UDP_PORT,
    Settings,
    Tables,
    configuration,
    cores,
    device,
    dumps,
    tables,
)
from metrics import Accounting, Metrics
from netns import Network, in_namespace
from process import Child, Failure, Stop, run

__all__ = [
    "JOB", "TELEMETRY", "UDP_PORT", "Appliance", "Settings", "configuration", "cores", "device", "fetch",
    "fetch_unix", "tables",
]  # fmt: skip

_READY_SECONDS = 30.0
_SETTLE_SECONDS = 3.0
# Beyond the drain time: closing ports, releasing memory, on a busy machine.
_EXIT_SECONDS = DRAIN_SECONDS + 5.0
_MEMORY = f"memory_mb = {MEMORY_MB}\n"
# The wording of `pascaline check`, for memory that suffices and for memory that does not.
_LEAST_MB = re.compile(r"at least (\d+) (?:of \d+ )?MB")
# Beside the packets, for rings, tables and DPDK itself.
_MEMORY_BESIDE_MB = 64


class Site(Protocol):
    # Its namespace.
    appliance: str


class Appliance:
    """One `pascaline run`, and its successor if it is killed."""

    def __init__(
        self,
        binary: Path,
        network: Site,
        settings: Settings | Tables | str,
        files: Path,
        *,
        realtime: bool = False,
        before: Sequence[str] = (),
    ) -> None:
        """With settings, of a Network, or with a whole configuration. `realtime` as for a Child.

        `before`: a command that replaces itself by the program.
        """
        self._network = network
        self._realtime = realtime
        self.config = files / "appliance.toml"
        self.socket = files / "admin.sock"
        if isinstance(settings, Settings):
            assert isinstance(network, Network), "its addresses are the configuration's"
            settings = configuration(network, settings, self.socket)
        self.config.write_text(settings if isinstance(settings, str) else dumps(settings))
        self._find_room(binary)
        self._command = [*before, str(binary), "run", "-c", str(self.config)]
        self._files = files
        self._lives = 0
        self._child = self._start()

    def _find_room(self, binary: Path) -> None:
        """Configures the memory for its packets: long frames for many workers need more than usual."""
        text = self.config.read_text()
        if _MEMORY in text:
            # The appliance reports errors of the file itself when it starts.
            said = run(str(binary), "check", "--elsewhere", str(self.config), check=False)
            self.config.write_text(with_room(text, said.stdout + said.stderr))

    def _start(self) -> Child:
        self._lives += 1
        name = "appliance" if self._lives == 1 else f"appliance{self._lives}"
        return Child(name, self._command, self._files, self._network.appliance, realtime=self._realtime)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def kill(self) -> None:
        self._child.kill()

    def kill_and_restart(self, stop: Stop) -> None:
        """Kills it, and starts another in its place, without any state."""
        self.kill()
        self.restart(stop)

    def restart(self, stop: Stop) -> None:
        self._child = self._start()
        self.wait_ready(stop)

    @property
    def pid(self) -> int:
        """Of the appliance itself, not of something that started it."""
        return self._child.pid

    def configuration(self) -> str:
        return self.config.read_text()

    def reload(self, text: str, *, by_api: bool = False) -> Any:
        """Replaces its file and has it reload; returns the API's answer."""
        other = self.config.with_suffix(".new")
        other.write_text(text)
        other.replace(self.config)
        if by_api:
            return self.admin("/api/v1/reload", "POST")
        os.kill(self._child.pid, signal.SIGHUP)
        return None

    def admin(self, path: str, method: str = "GET") -> Any:
        try:
            status, body = fetch_unix(self.socket, path, method)
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"the admin API does not answer: {error!r}", self._child.tail()) from error
        if status != 200:
            raise Failure(f"{path} answers with status {status}: {body}", self._child.tail())
        return json.loads(body)

    def wait_ready(self, stop: Stop) -> None:
        """Returns once it reports that it is healthy."""
        if not stop.wait_for(self._healthy, _READY_SECONDS):
            raise Failure(f"the appliance is not ready after {_READY_SECONDS:.0f} s", self._child.tail())

    def check_running(self) -> None:
        code = self._child.exit_code()
        if code is not None:
            tail = self._child.tail()
            raise Failure(f"the appliance ended by itself with exit code {code}: {last_error(tail)}", tail)

    def scrape(self) -> Metrics:
        status, body = self._get("/metrics")
        if status != 200:
            raise Failure(f"/metrics answers with status {status}", self._child.tail())
        return Metrics(body)

    def settled(self, stop: Stop) -> Metrics:
        """Its metrics once no packet is on its way any more; the last ones if that does not happen soon.

        A scrape adds up counters that run on: their sums need not agree before the last packet is through.
        """
        end = time.monotonic() + _SETTLE_SECONDS
        metrics = self.scrape()
        while time.monotonic() < end:
            stop.sleep(0.2)
            before, metrics = Accounting.of(metrics), self.scrape()
            if before == Accounting.of(metrics) and before.holds:
                break
        return metrics

    def stop(self) -> int:
        """Lets it drain; returns its exit code."""
        return self._child.stop(_EXIT_SECONDS)

    def tail(self) -> str:
        return self._child.tail()

    def log(self) -> str:
        return self._child.err.read_text(errors="replace") + self._child.out.read_text(errors="replace")

    def _healthy(self) -> bool:
        self.check_running()
        try:
            return self._get("/healthz")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, str]:
        try:
            return fetch(self._network.appliance, TELEMETRY, path)
        except http.client.HTTPException as error:
            raise Failure(f"{path} does not answer in HTTP: {error!r}", self._child.tail()) from error


def with_room(text: str, checked: str) -> str:
    """A configuration with as much memory as `pascaline check` says that its packets take, or the default."""
    found = _LEAST_MB.search(checked)
    least = int(found[1]) if found else 0
    wanted = least + max(least // 8, _MEMORY_BESIDE_MB)
    return text.replace(_MEMORY, f"memory_mb = {wanted}\n", 1) if wanted > MEMORY_MB else text


def last_error(log: str) -> str:
    """The error that a log ends with, in one line: the program's error line, or the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    words = [place for place, line in enumerate(lines) if line.startswith("pascaline: ")]
    last = lines[words[-1] :] if words else lines[-1:]
    return "; ".join(last) or "it said nothing"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _answer(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> tuple[int, str]:
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def fetch_unix(socket: Path, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body of an answer from a Unix socket."""
    return _answer(_UnixConnection(socket), path, method)


def fetch(namespace: str, address: tuple[str, int], path: str) -> tuple[int, str]:
    """Status and body of a page that is served inside a namespace."""
    return in_namespace(namespace, lambda: _answer(http.client.HTTPConnection(*address, timeout=2), path))
