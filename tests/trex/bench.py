"""The bed of replays: an appliance with one port in a namespace, a sender, and streams as pcap files."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path

from scapy.utils import RawPcapReader, RawPcapWriter

from configuration import cores, dumps, telemetry
from generators import Interface, Sent
from metrics import RECEIVED
from pascaline_streams import Stream, frames
from process import Failure, Stop
from runner import Appliance as Seen

from .. import command
from ..bed.appliance import TELEMETRY, Appliance
from ..bed.network import Star

_CATCH_UP_SECONDS = 60.0
# Frames between two looks at the appliance's counter: far less than the port's ring holds.
_AHEAD = 32
RANKS = 4
APPLIANCE = "10.77.0.254"
APPLIANCE_IPV6 = "2001:db8::fe"


class Bench(Star):
    """An appliance with one port in a namespace of its own, and a namespace for the sender."""

    def __init__(self, binary: Path, stop: Stop, cleanup: contextlib.ExitStack) -> None:
        self.files = command.files(cleanup)
        super().__init__(1, "pastrex")
        cleanup.callback(self.close)
        self._binary, self._stop, self._cleanup = binary, stop, cleanup
        self.sender = self.at_workers[0]

    def start(self, device: str) -> None:
        """Starts the appliance on a DPDK device and waits until it is ready."""
        self._started = Appliance(self._binary, self, _configuration(device), self.files)
        self._cleanup.callback(self._started.stop)
        self._started.wait_ready(self._stop)

    def reachable(self) -> str:
        """Gives the sender a link to the appliance's metrics, apart from the port; returns their URL."""
        self.pair(self.at_appliance, "m0", self.sender, "m0")
        for host, address in ((self.at_appliance, "192.0.2.1/30"), (self.sender, "192.0.2.2/30")):
            host.address("m0", address)
        return f"http://192.0.2.1:{TELEMETRY[1]}/metrics"

    def end(self) -> None:
        """Ends it; it must say that every packet is accounted for."""
        if (code := self._started.stop()) != 0:
            raise Failure(f"the appliance ended with exit code {code}", self._started.tail())

    def mac(self) -> str:
        """The MAC address of its port, as it logs it."""
        found = re.search(r"mac=([0-9a-f:]{17})", re.sub(r"\x1b\[[0-9;]*m", "", self._started.log()))
        return found.group(1) if found else "none"

    def seen(self) -> Seen:
        """Its metrics, as scripts/trex/run reads them."""

        def fetch() -> str:
            # Every wait calls this: it checks for a signal, too.
            self._stop.check()
            return self._started.get("/metrics").text

        return Seen(fetch)

    def received(self) -> int:
        return self.seen().scrape().total(RECEIVED)

    def catch_up(self, received: int) -> None:
        """Waits until it has received this many packets."""
        if not self._stop.wait_for(lambda: self.received() >= received, _CATCH_UP_SECONDS):
            raise Failure(f"of {received} frames only {self.received()} have arrived", self._started.tail())


@contextlib.contextmanager
def running(binary: Path, stop: Stop) -> Iterator[Bench]:
    """A bench that is removed afterwards, and whose appliance has to end well."""
    with contextlib.ExitStack() as cleanup:
        bench = Bench(binary, stop, cleanup)
        yield bench
        bench.end()


def _configuration(device: str) -> str:
    main, dataplane = cores()
    return dumps(
        {
            "appliance": {"name": "trex", "addresses": [APPLIANCE, APPLIANCE_IPV6]},
            "dataplane": {
                "main_core": main,
                "cores": [dataplane],
                "float": True,
                "hugepages": "no",
                "memory_mb": 96,
            },
            "ports": [{"name": "p0", "device": device}],
            # No partial is given up, however late the next packet is.
            "pool": {"slots": 4096, "age_limit": "60s"},
            "jobs": [{"id": job, "fan_in": RANKS} for job in (1, 2)],
            "telemetry": telemetry(("0.0.0.0", TELEMETRY[1])),
        }
    )


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

    def send(self, streams: list[Stream], seconds: float | None, patience: float = math.inf) -> Sent:
        count = write_pcap(streams, self._file)
        replayed = _read(self._file)
        if len(replayed) != count:
            raise Failure(f"the pcap file holds {len(replayed)} frames of {count}")
        self._before = self._bench.received()
        return self.replay(((0.0, frame) for frame in replayed), seconds, patience)

    def _keep_step(self, sent: int) -> None:
        if sent % _AHEAD:
            return
        self._bench.catch_up(self._before + sent)
