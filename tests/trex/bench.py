"""What replays need: an appliance with one port in a namespace, a sender, and streams as pcap files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
from scapy.utils import RawPcapReader, RawPcapWriter

from generators import Interface, Sent
from metrics import RECEIVED
from pascaline_streams import Stream, frames
from process import Failure, Stop
from runner import Appliance

from ..bed import api
from ..bed.network import Network
from ..bed.process import Process

_PREFIX = "pastrex"
METRICS = ("127.0.0.1", 9464)
_READY_SECONDS = 30.0
_EXIT_SECONDS = 8.0
_CATCH_UP_SECONDS = 10.0
# Frames between two looks at the appliance's counter: far less than the port's ring holds.
_AHEAD = 32
RANKS = 4
APPLIANCE = "10.77.0.254"
APPLIANCE_IPV6 = "2001:db8::fe"


class Bench:
    """An appliance with one port in a namespace of its own, and a namespace for the sender."""

    def __init__(self, binary: Path, stop: Stop, files: Path, network: Network) -> None:
        self._binary, self._stop, self._files = binary, stop, files
        self._network = network
        self.host, self.sender = network.host("app"), network.host("w0")
        network.pair(self.sender, "eth0", self.host, "pas0")
        self.sender.address("eth0", "10.77.0.1/24")
        self._child: Process | None = None

    def start(self, device: str) -> None:
        """Starts the appliance on a DPDK device and waits until it is ready."""
        config = self._files / "appliance.toml"
        config.write_text(_configuration(device))
        command = [str(self._binary), "run", "-c", str(config)]
        self._child = Process("appliance", command, self._files, self.host.name)
        if not self._stop.wait_for(self._healthy, _READY_SECONDS):
            raise Failure(f"the appliance is not ready after {_READY_SECONDS:.0f} s", self.log())

    def reachable(self) -> str:
        """Gives the sender a link to the appliance's metrics, apart from the port; returns the address."""
        self._network.pair(self.host, "m0", self.sender, "m0")
        for host, address in ((self.host, "192.0.2.1/30"), (self.sender, "192.0.2.2/30")):
            host.address("m0", address)
        return "192.0.2.1"

    def end(self) -> None:
        """Ends it; it must say that every packet is accounted for."""
        if self._child:
            code, log = self._child.stop(_EXIT_SECONDS), self.log()
            self._child = None
            if code != 0:
                raise Failure(f"the appliance ended with exit code {code}", log)

    def kill(self) -> None:
        """Whatever happened, nothing stays behind."""
        if self._child:
            self._child.stop(_EXIT_SECONDS)

    def log(self) -> str:
        """The end of the appliance's log."""
        return self._child.tail() if self._child else ""

    def mac(self) -> str:
        """The MAC address of its port, as it logs it."""
        found = re.search(r"mac=([0-9a-f:]{17})", re.sub(r"\x1b\[[0-9;]*m", "", self.log()))
        return found.group(1) if found else "none"

    def appliance(self) -> Appliance:
        """Its metrics."""

        def fetch() -> str:
            # Whoever waits for something looks here: also for a signal.
            self._stop.check()
            return self._get("/metrics").text

        return Appliance(fetch)

    def received(self) -> int:
        """Packets that it has received."""
        return self.appliance().scrape().total(RECEIVED)

    def catch_up(self, received: int) -> None:
        """Waits until it has received so many packets."""
        if not self._stop.wait_for(lambda: self.received() >= received, _CATCH_UP_SECONDS):
            raise Failure(f"of {received} frames only {self.received()} have arrived", self.log())

    def _healthy(self) -> bool:
        if self._child and self._child.exit_code() is not None:
            raise Failure("the appliance ended by itself", self.log())
        try:
            return self._get("/healthz").status_code == 200
        except httpx.HTTPError:
            return False

    def _get(self, path: str) -> httpx.Response:
        host, port = METRICS
        return api.inside(self.host.name, f"http://{host}:{port}{path}")


@contextlib.contextmanager
def running(binary: Path, stop: Stop) -> Iterator[tuple[Bench, Path]]:
    """A bench and a directory for files; both are gone afterwards."""
    with contextlib.ExitStack() as cleanup:
        files = Path(tempfile.mkdtemp(prefix=_PREFIX))
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        started = Bench(binary, stop, files, cleanup.enter_context(Network(_PREFIX)))
        cleanup.callback(started.kill)
        yield started, files
        started.end()


def _configuration(device: str) -> str:
    cores = sorted(os.sched_getaffinity(0))
    return f"""\
[appliance]
name = "{_PREFIX}"
addresses = ["{APPLIANCE}", "{APPLIANCE_IPV6}"]

[dataplane]
main_core = {cores[0]}
cores = [{cores[-1]}]
float = true
hugepages = "no"
memory_mb = 96

[[ports]]
name = "p0"
device = "{device}"

[pool]
slots = 4096

[[jobs]]
id = 1
fan_in = {RANKS}

[[jobs]]
id = 2
fan_in = {RANKS}

[telemetry]
listen = "0.0.0.0:{METRICS[1]}"
"""


def write_pcap(streams: list[Stream], file: Path) -> int:
    """Writes what the streams send to a pcap file; returns the number of frames."""
    with contextlib.closing(RawPcapWriter(str(file), linktype=1, sync=True)) as writer:
        count = 0
        for due, frame in frames(streams):
            # Scapy writes the header with the first packet.
            writer.write_header(frame) if count == 0 else None
            writer.write_packet(frame, sec=int(due), usec=round(due % 1 * 1e6) % 1_000_000)
            count += 1
    return count


def _read(file: Path) -> list[bytes]:
    with contextlib.closing(RawPcapReader(str(file))) as reader:
        return [frame for frame, _ in reader]


class Replay(Interface):
    """Sends streams by way of a pcap file, and no faster than the appliance takes them."""

    def __init__(self, bench: Bench, file: Path) -> None:
        super().__init__("eth0", self._keep_step)
        self._bench, self._file = bench, file
        self._before = 0

    def send(self, streams: list[Stream], seconds: float | None) -> Sent:
        """Writes, reads back, sends."""
        count = write_pcap(streams, self._file)
        replayed = _read(self._file)
        if len(replayed) != count:
            raise Failure(f"the pcap file holds {len(replayed)} frames of {count}")
        self._before = self._bench.received()
        return self.replay(((0.0, frame) for frame in replayed), seconds)

    def _keep_step(self, sent: int) -> None:
        if sent % _AHEAD:
            return
        self._bench.catch_up(self._before + sent)
