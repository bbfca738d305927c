"""The appliance of a run: its configuration, its process, its health and its metrics."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from metrics import Accounting, Metrics
from netns import Network, in_namespace
from process import Child, Failure, Stop, run

UDP_PORT = 16420
JOB = 1
TELEMETRY = ("127.0.0.1", 9464)
_READY_SECONDS = 30.0
_SETTLE_SECONDS = 3.0
_DRAIN_SECONDS = 1.0
# Beyond the drain time: closing ports, releasing memory, on a busy machine.
_EXIT_SECONDS = _DRAIN_SECONDS + 5.0
# What the kernel puts before the frame in a slot of an af_packet ring.
_RING_HEADER = 128
# What is enough for frames of 1,500 bytes.
_MEMORY_MB = 512
_MEMORY = f"memory_mb = {_MEMORY_MB}\n"
# As `pascaline check` says it, both of what fits and of what does not.
_LEAST_MB = re.compile(r"at least (\d+) (?:of \d+ )?MB")
# Beside the packets, for rings, tables and what DPDK needs itself.
_MEMORY_BESIDE_MB = 64


@dataclass(frozen=True)
class Settings:
    """What a run wants of its appliance."""

    driver: str
    pool_slots: int
    window: int
    policy: str = "default"
    order: str = "arrival"
    jobs: int = 1
    # Further keys of each job, and tables of the configuration.
    job_keys: str = ""
    more: str = ""
    # Ranks of each job; 0: one in each worker's namespace.
    fan_in: int = 0
    # Packet buffers for jobs to come; 0 for the default.
    spare_packets: int = 0
    # Frames that the kernel keeps for a port that is not polled; 0 for the driver's default.
    ring: int = 0
    udp_ports: int = 1
    lcores: int = 1
    name: str = "demo"
    # With a job's number behind it, the multicast group of its results.
    group: str = ""


class Site(Protocol):
    """Where an appliance runs."""

    # Its namespace.
    appliance: str


class Appliance:
    """One `pascaline run`, and what comes after it if it is killed."""

    def __init__(
        self,
        binary: Path,
        network: Site,
        settings: Settings | str,
        files: Path,
        *,
        realtime: bool = False,
    ) -> None:
        """With settings, of a Network, or with a whole configuration. `realtime` as for a Child."""
        self._network = network
        self._realtime = realtime
        self._config = files / "appliance.toml"
        self.socket = files / "admin.sock"
        if not isinstance(settings, str):
            assert isinstance(network, Network), "its addresses are the configuration's"
            settings = configuration(network, settings, self.socket)
        self._config.write_text(settings)
        self._find_room(binary)
        self._command = [str(binary), "run", "-c", str(self._config)]
        self._files = files
        self._lives = 0
        self._child = self._start()

    def _find_room(self, binary: Path) -> None:
        """Gives it the memory that its packets take: more than usual with long frames, for many workers."""
        text = self._config.read_text()
        if _MEMORY in text:
            # What is wrong with the file, it says itself when it starts.
            said = run(str(binary), "check", "--elsewhere", str(self._config), check=False)
            self._config.write_text(with_room(text, said.stdout + said.stderr))

    def _start(self) -> Child:
        self._lives += 1
        name = "appliance" if self._lives == 1 else f"appliance{self._lives}"
        return Child(name, self._command, self._files, self._network.appliance, realtime=self._realtime)

    def kill(self) -> None:
        """Ends it without a warning."""
        self._child.kill()

    def kill_and_restart(self, stop: Stop) -> None:
        """Ends it without a warning, and starts another in its place, which knows nothing."""
        self.kill()
        self.restart(stop)

    def restart(self, stop: Stop) -> None:
        """Starts another in the place of one that was killed."""
        self._child = self._start()
        self.wait_ready(stop)

    @property
    def pid(self) -> int:
        """Of the appliance itself, not of something that started it."""
        return self._child.pid

    def configuration(self) -> str:
        """Its file."""
        return self._config.read_text()

    def reload(self, text: str, *, by_api: bool = False) -> Any:
        """Puts another text into its file, at once, and tells it so; returns what the API answers."""
        other = self._config.with_suffix(".new")
        other.write_text(text)
        other.replace(self._config)
        if by_api:
            return self.admin("/api/v1/reload", "POST")
        os.kill(self._child.pid, signal.SIGHUP)
        return None

    def admin(self, path: str, method: str = "GET") -> Any:
        """An answer of its admin API."""
        try:
            status, body = fetch_unix(self.socket, path, method)
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"the admin API does not answer: {error!r}", self._child.tail()) from error
        if status != 200:
            raise Failure(f"{path} answers with status {status}: {body}", self._child.tail())
        return json.loads(body)

    def wait_ready(self, stop: Stop) -> None:
        """Returns once it says that it is healthy."""
        if not stop.wait_for(self._healthy, _READY_SECONDS):
            raise Failure(f"the appliance is not ready after {_READY_SECONDS:.0f} s", self._child.tail())

    def check_running(self) -> None:
        """Raises if it ended by itself."""
        code = self._child.exit_code()
        if code is not None:
            tail = self._child.tail()
            raise Failure(f"the appliance ended by itself with exit code {code}: {last_error(tail)}", tail)

    def scrape(self) -> Metrics:
        """Its metrics as they are now."""
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
        """The end of its log."""
        return self._child.tail()

    def log(self) -> str:
        """All of its log."""
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
    """A configuration with as much memory as `pascaline check` says that its packets take, or the usual."""
    found = _LEAST_MB.search(checked)
    least = int(found[1]) if found else 0
    wanted = least + max(least // 8, _MEMORY_BESIDE_MB)
    return text.replace(_MEMORY, f"memory_mb = {wanted}\n", 1) if wanted > _MEMORY_MB else text


def last_error(log: str) -> str:
    """The error that a log ends with, in one line: the program's last words, or the last line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    words = [place for place, line in enumerate(lines) if line.startswith("pascaline: ")]
    last = lines[words[-1] :] if words else lines[-1:]
    return "; ".join(last) or "it said nothing"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=5)
        self._path = path

    def connect(self) -> None:
        """As for TCP, but there is nobody to resolve."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def fetch_unix(socket: Path, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body of what is served at a Unix socket."""
    connection = _UnixConnection(socket)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def fetch(namespace: str, address: tuple[str, int], path: str) -> tuple[int, str]:
    """Status and body of a page that is served inside a namespace."""

    def request() -> tuple[int, str]:
        connection = http.client.HTTPConnection(*address, timeout=2)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    return in_namespace(namespace, request)


def ring_slot(mtu: int) -> int:
    """Bytes of a slot of an af_packet ring that holds whole frames; 2 KiB unless the driver is told more."""
    slot = 2048
    while slot < mtu + _RING_HEADER:
        slot *= 2
    return slot


def device(driver: str, port: int, mtu: int, ring: int = 0, queues: int = 1) -> str:
    """The DPDK device on one end of a veth pair."""
    text = f"net_{driver}{port},iface=pas{port}"
    slot = ring_slot(mtu)
    if driver == "af_packet" and slot > ring_slot(0):
        # A block holds at least one slot.
        text += f",framesz={slot},blocksz={slot}"
    if driver == "af_packet" and ring:
        text += f",framecnt={ring}"
    if queues > 1 and driver != "kernel":
        text += f",{'qpairs' if driver == 'af_packet' else 'queue_count'}={queues}"
    return text


def policy_keys(settings: Settings) -> str:
    """The keys of a job that say how it uses the pool."""
    if settings.policy == "default":
        lines = []
    elif settings.policy in ("always", "coin"):
        # DSA's strawmen: everything else as in DSA.
        lines = ['profile = "dsa"', f'conflict = "{settings.policy}"']
    else:
        lines = [f'profile = "{settings.policy}"']
    if settings.order != "arrival":
        lines.append(f'order = "{settings.order}"')
    if settings.job_keys:
        lines.append(settings.job_keys)
    return "".join(f"{line}\n" for line in lines)


def _multicast(settings: Settings, job: int) -> str:
    return f'multicast = "{settings.group}{job}"\n' if settings.group else ""


def cores() -> tuple[int, int]:
    """The cores of control and of packets: different ones, where there are two."""
    main, *lcores = _cores(1)
    return main, lcores[0]


def _cores(lcores: int) -> list[int]:
    """The core of control, and one for each lcore: different ones, as long as there are any."""
    usable = sorted(os.sched_getaffinity(0))
    return [usable[place % len(usable)] for place in range(1 + lcores)]


def tables(name: str, address: str, more: str, udp_ports: int = 1, lcores: int = 1) -> str:
    """The tables [appliance] and [dataplane]; `more` are further keys of the latter."""
    main, *dataplane = places = _cores(lcores)
    floats = "" if len(set(places)) == len(places) else "float = true\n"
    memory = "" if "memory_mb" in more else _MEMORY
    pages = "" if "hugepages" in more else 'hugepages = "auto"\n'
    return f"""\
[appliance]
name = "{name}"
addresses = ["{address}"]
udp_port = {UDP_PORT}
udp_ports = {udp_ports}

[dataplane]
main_core = {main}
cores = {dataplane}
{floats}idle = "backoff"
{pages}{memory}{more}
"""


def configuration(network: Network, settings: Settings, admin: Path) -> str:
    """The appliance's TOML."""
    fan_in = settings.fan_in or len(network.workers)
    members = ", ".join(f'"{network.address(rank)}"' for rank in range(fan_in))
    ports = "\n".join(
        f'[[ports]]\nname = "p{port}"\n'
        f'device = "{device(settings.driver, port, network.mtu, settings.ring, settings.lcores)}"\n'
        f"mtu = {network.mtu}\n"
        for port in range(network.ports)
    )
    policy = policy_keys(settings)
    jobs = "\n".join(
        f'[[jobs]]\nid = {JOB + job}\nname = "{settings.name}{job}"\n'
        f"fan_in = {fan_in}\nwindow = {settings.window}\n"
        f"members = [{members}]\n{policy}{_multicast(settings, JOB + job)}"
        for job in range(settings.jobs)
    )
    spare = f"spare_packets = {settings.spare_packets}\n" if settings.spare_packets else ""
    drain = f'drain = "{_DRAIN_SECONDS:.0f}s"'
    whole = tables("demo", network.appliance_address, drain, settings.udp_ports, settings.lcores)
    return f"""\
{whole}
{ports}
[pool]
slots = {settings.pool_slots}
ways = 4
age_limit = "500ms"
{spare}
{jobs}
{settings.more}
[telemetry]
listen = "{TELEMETRY[0]}:{TELEMETRY[1]}"

[admin]
listen = "unix:{admin}"
"""
