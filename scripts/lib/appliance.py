"""The appliance of a run: its configuration, its process, its health and its metrics."""

from __future__ import annotations

import http.client
import os
import time
from dataclasses import dataclass
from pathlib import Path

from metrics import Accounting, Metrics
from netns import APPLIANCE_ADDRESS, Network, in_namespace, worker_address
from process import Child, Failure, Stop

UDP_PORT = 16420
JOB = 1
_TELEMETRY = ("127.0.0.1", 9464)
_READY_SECONDS = 30.0
_SETTLE_SECONDS = 3.0
_DRAIN_SECONDS = 1.0
# Beyond the drain time: closing ports, releasing memory, on a busy machine.
_EXIT_SECONDS = _DRAIN_SECONDS + 5.0
# What the kernel puts before the frame in a slot of an af_packet ring.
_RING_HEADER = 128


@dataclass(frozen=True)
class Settings:
    """What a run wants of its appliance."""

    driver: str
    pool_slots: int
    window: int
    policy: str = "default"
    order: str = "arrival"
    jobs: int = 1
    name: str = "demo"


class Appliance:
    """One `pascaline run`, and what comes after it if it is killed."""

    def __init__(self, binary: Path, network: Network, settings: Settings, files: Path) -> None:
        self._network = network
        config = files / "appliance.toml"
        config.write_text(configuration(network, settings))
        self._command = [str(binary), "run", "-c", str(config)]
        self._files = files
        self._lives = 0
        self._child = self._start()

    def _start(self) -> Child:
        self._lives += 1
        name = "appliance" if self._lives == 1 else f"appliance{self._lives}"
        return Child(name, self._command, self._files, self._network.appliance)

    def kill_and_restart(self, stop: Stop) -> None:
        """Ends it without a warning, and starts another in its place, which knows nothing."""
        self._child.kill()
        self._child = self._start()
        self.wait_ready(stop)

    @property
    def pid(self) -> int:
        """Of the appliance itself, not of something that started it."""
        return self._child.pid

    def wait_ready(self, stop: Stop) -> None:
        """Returns once it says that it is healthy."""
        if not stop.wait_for(self._healthy, _READY_SECONDS):
            raise Failure(f"the appliance is not ready after {_READY_SECONDS:.0f} s", self._child.tail())

    def check_running(self) -> None:
        """Raises if it ended by itself."""
        code = self._child.exit_code()
        if code is not None:
            raise Failure(f"the appliance ended by itself with exit code {code}", self._child.tail())

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

    def _healthy(self) -> bool:
        self.check_running()
        try:
            return self._get("/healthz")[0] == 200
        except OSError:
            return False

    def _get(self, path: str) -> tuple[int, str]:
        def request() -> tuple[int, str]:
            connection = http.client.HTTPConnection(*_TELEMETRY, timeout=2)
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                return response.status, response.read().decode()
            finally:
                connection.close()

        try:
            return in_namespace(self._network.appliance, request)
        except http.client.HTTPException as error:
            raise Failure(f"{path} does not answer in HTTP: {error!r}", self._child.tail()) from error


def device(driver: str, port: int, mtu: int) -> str:
    """The DPDK device on one end of a veth pair."""
    text = f"net_{driver}{port},iface=pas{port}"
    slot = 2048
    while slot < mtu + _RING_HEADER:
        slot *= 2
    if driver == "af_packet" and slot > 2048:
        # The driver's slots hold 2 KiB unless told otherwise, and a block holds at least one slot.
        text += f",framesz={slot},blocksz={slot}"
    return text


def _policy(settings: Settings) -> str:
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
    return "".join(f"{line}\n" for line in lines)


def configuration(network: Network, settings: Settings) -> str:
    """The appliance's TOML: one port per worker."""
    cores = sorted(os.sched_getaffinity(0))
    main, dataplane = cores[0], cores[min(1, len(cores) - 1)]
    ranks = range(len(network.workers))
    members = ", ".join(f'"{worker_address(rank)}"' for rank in ranks)
    ports = "\n".join(
        f'[[ports]]\nname = "p{rank}"\ndevice = "{device(settings.driver, rank, network.mtu)}"\n'
        f"mtu = {network.mtu}\n"
        for rank in ranks
    )
    policy = _policy(settings)
    jobs = "\n".join(
        f'[[jobs]]\nid = {JOB + job}\nname = "{settings.name}{job}"\nfan_in = {len(network.workers)}\nwindow = {settings.window}\n'
        f"members = [{members}]\n{policy}"
        for job in range(settings.jobs)
    )
    return f"""\
[appliance]
name = "demo"
addresses = ["{APPLIANCE_ADDRESS}"]
udp_port = {UDP_PORT}

[dataplane]
main_core = {main}
cores = [{dataplane}]
idle = "backoff"
hugepages = "auto"
memory_mb = 512
drain = "{_DRAIN_SECONDS:.0f}s"

{ports}
[pool]
slots = {settings.pool_slots}
ways = 4
age_limit = "500ms"

{jobs}
[telemetry]
listen = "{_TELEMETRY[0]}:{_TELEMETRY[1]}"
"""
