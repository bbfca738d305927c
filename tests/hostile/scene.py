"""A case, and the means to make its frames."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process import Failure, Stop

from ..bed import api
from ..bed.appliance import Appliance
from ..bed.metrics import Metrics
from ..bed.network import Host
from ..bed.process import Process
from . import bed as beds
from . import sender
from .bed import APPLIANCE_ADDRESS, Bed, worker_address, worker_port
from .frames import HEADERS, PORT, Packet, Way, header, parse_control

_ANSWER_SECONDS = 0.25
_ETHERTYPE_ALL = 3
_LONGEST_SECONDS = 2.0


@dataclass
class Scene:
    """The attacker's view of the bed, and a little more than an attacker knows: jobs' generations."""

    bed: Bed
    appliance: Appliance
    binary: Path
    files: Path
    stop: Stop
    job: int = beds.OPEN
    seed: int = 1
    # The generation when the frames of a round are made, which an attacker has to guess.
    now: int = 0
    # Bytes on the attacker's wire before a case, and open connections of a case.
    before: tuple[int, int] = (0, 0)
    sockets: list[socket.socket] = field(default_factory=list)
    # The asynchronous job that a case attacks from within.
    cluster: Any = None
    # What the workers' packets are sealed with, and the file with their key.
    security: str = "none"
    key: Path | None = None
    # Requests of workers that a case has recorded in its rounds.
    sealed_requests: list[Any] = field(default_factory=list)
    # Has the workers go on: called while a case records their packets.
    work: Callable[[], None] = field(default=lambda: None)
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        ports = {"eth0": "pas0", "eth1": "pas1"}
        self.appliance_mac = {wire: self.bed.at_appliance.mac(port) for wire, port in ports.items()}
        self.own_mac = {wire: self.bed.attacker.mac(wire) for wire in ports}
        self.worker_mac = [worker.mac() for worker in self.bed.workers]

    def way(self, wire: str = "eth1", *, source: str = beds.ATTACKER_ADDRESS, port: int = 49152) -> Way:
        """From the attacker's MAC address to the appliance, by default with its own IP address too."""
        return Way(self.own_mac[wire], self.appliance_mac[wire], source, APPLIANCE_ADDRESS, port)

    def as_rank(self, rank: int) -> Way:
        return self.way(source=worker_address(rank), port=worker_port(self.job, rank))

    def to_worker(self, rank: int) -> Way:
        """To a worker, in the name of the appliance."""
        ends = APPLIANCE_ADDRESS, worker_address(rank), PORT, worker_port(self.job, rank)
        return Way(self.own_mac["eth0"], self.worker_mac[rank], *ends)

    def gradient(self, rank: int = 1, *, length: int = 512, **fields: Any) -> bytes:
        """A contribution as the rank would send it by default in the present generation.

        No longer than what ranks agree on, whatever their path takes.
        """
        usual: dict[str, Any] = {
            "kind": "gradient",
            "count": 1,
            "epoch": self.now,
            "psn": self.random.getrandbits(32),
        }
        return header(job=self.job, rank=rank, **(usual | fields)) + bytes(length)

    def look(self) -> None:
        self.now = self.appliance.scrape().by_label("pascaline_job_epoch", "job_id").get(str(self.job), 0)

    def bytes_on_wire(self) -> tuple[int, int]:
        """Bytes that the attacker has sent and received on its wire."""
        counted = self.bed.attacker.counted("eth1")
        return counted["tx_bytes"], counted["rx_bytes"]

    def server_metrics(self) -> Metrics:
        host, port = beds.SERVER_TELEMETRY
        return Metrics(api.inside(self.bed.server.name, f"http://{host}:{port}/metrics").text)

    def child(self, name: str, command: Sequence[str], host: Host) -> Process:
        return Process(name, command, self.files, host.name)

    @contextmanager
    def flood(
        self, both: Sequence[list[bytes]], wire: str, rate: float, slot: float, slots: int
    ) -> Iterator[Process]:
        """The sender of the control's and the attack's frames; it must end well."""
        words = sender.command(self.files / "frames", both, wire, rate, slot, slots)
        child = self.child("sender", words, self.bed.attacker)
        try:
            yield child
            if child.exit_code() != 0:
                raise Failure("the attacker cannot send", child.tail())
        finally:
            child.stop(1.0)

    def ask(
        self, frames: Iterable[bytes], wire: str = "eth1", seconds: float = _ANSWER_SECONDS
    ) -> list[Packet]:
        """Sends frames and returns the Acks to control packets that come back, to whatever address."""
        heard = self.bed.attacker.inside(lambda: exchange(list(frames), wire, seconds))
        return [answer for frame in heard if (answer := parse_control(frame[HEADERS:])) is not None]


def exchange(frames: list[bytes], wire: str, seconds: float) -> list[bytes]:
    """Sends frames, and returns those of IPv4 that arrive until none has arrived for this time."""
    heard = []
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_ALL)) as raw:
        raw.bind((wire, 0))
        for frame in frames:
            raw.send(frame)
        last, quiet = time.monotonic() + _LONGEST_SECONDS, time.monotonic() + seconds
        while (left := min(last, quiet) - time.monotonic()) > 0:
            raw.settimeout(left)
            try:
                frame, address = raw.recvfrom(65536)
            except TimeoutError:
                break
            if address[2] != socket.PACKET_OUTGOING and frame[12:14] == b"\x08\x00":
                heard.append(frame)
                quiet = time.monotonic() + seconds
    return heard


@dataclass(frozen=True)
class Case:
    """One attack.

    `make` returns the frames that are sent repeatedly. `named` are the drop reasons, or metrics, of which
    one has to grow by at least half of the frames: none of them where a case itself says what names it, or
    where the appliance never sees the frames. `prepare` comes before the first turn; `judge` after the last
    one returns what did not hold.
    """

    name: str
    about: str
    make: Callable[[Scene], list[bytes]]
    named: tuple[str, ...] = ()
    job: int = beds.OPEN
    wire: str = "eth1"
    rate: float = 20_000.0
    prepare: Callable[[Scene], None] | None = None
    judge: Callable[[Scene], list[str]] | None = None
    # Its judgement takes long: not with --quick.
    long: bool = False
    # The same as `named` where the workers' packets are sealed, if it differs.
    sealed: tuple[str, ...] | None = None
    # Why it makes no sense there.
    plain_only: str = ""
    # Whether it makes sense only there.
    only_sealed: bool = False

    def __str__(self) -> str:
        return self.name

    def names(self, security: str) -> tuple[str, ...]:
        """The drop reasons, or metrics, of which one has to grow."""
        return self.named if security == "none" or self.sealed is None else self.sealed


# The fixture with which a test runs a case.
Attack = Callable[[Case], None]
