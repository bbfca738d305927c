"""What a case is, and what it may use to make its frames."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bed as beds
from appliance import Appliance
from bed import Bed, worker_port
from frames import BROADCAST, Answer, Way, parse_control
from metrics import Metrics
from netns import APPLIANCE_ADDRESS, in_namespace, worker_address
from process import Stop

_ANSWER_SECONDS = 0.25
_ETHERTYPE_ALL = 3
_HEADERS = 42
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
    # Bytes on the attacker's wire before a case, and what a case holds open.
    said_before: int = 0
    heard_before: int = 0
    sockets: list[socket.socket] = field(default_factory=list)
    # The asynchronous job that a case attacks from within.
    cluster: Any = None
    random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Reads addresses once."""
        self.random = random.Random(self.seed)
        self.appliance_mac = {"eth0": self.bed.mac(self.bed.appliance, "pas0")}
        self.appliance_mac["eth1"] = self.bed.mac(self.bed.appliance, "pas1")
        self.own_mac = {name: self.bed.mac(self.bed.attacker, name) for name in ("eth0", "eth1")}
        self.worker_mac = [self.bed.mac(name) for name in self.bed.workers]

    def way(self, wire: str = "eth1", *, source: str | None = None, port: int = 49152) -> Way:
        """From the attacker's MAC address to the appliance, by default with its own IP address too."""
        own = beds.ATTACKER_ADDRESS
        return Way(self.own_mac[wire], self.appliance_mac[wire], source or own, APPLIANCE_ADDRESS, port)

    def as_rank(self, rank: int, wire: str = "eth1") -> Way:
        """With a rank's IP address and UDP port."""
        return self.way(wire, source=worker_address(rank), port=worker_port(self.job, rank))

    def to_worker(self, rank: int, source: str = APPLIANCE_ADDRESS, port: int = 16420) -> Way:
        """To a worker, in the name of the appliance or of somebody else."""
        target = worker_address(rank), port, worker_port(self.job, rank)
        return Way(self.own_mac["eth0"], self.worker_mac[rank], source, *target)

    def everybody(self) -> Way:
        """A broadcast from the rack."""
        return Way(self.own_mac["eth0"], BROADCAST, beds.ATTACKER_ADDRESS, APPLIANCE_ADDRESS)

    def look(self) -> None:
        """Reads the present generation of the case's job."""
        self.now = self.metrics().by_label("pascaline_job_epoch", "job").get(str(self.job), 0)

    def said(self) -> int:
        """Bytes that the attacker has sent on his wire."""
        return int(self.bed.link(self.bed.attacker, "eth1")["tx"]["bytes"])

    def heard(self) -> int:
        """Bytes that have come back on it."""
        return int(self.bed.link(self.bed.attacker, "eth1")["rx"]["bytes"])

    def metrics(self) -> Metrics:
        """The appliance's."""
        return self.appliance.scrape()

    def ask(
        self, frames: Iterable[bytes], wire: str = "eth1", seconds: float = _ANSWER_SECONDS
    ) -> list[Answer]:
        """Sends frames and returns the Acks to control packets that come back, to whatever address."""
        heard = in_namespace(self.bed.attacker, lambda: exchange(list(frames), wire, seconds))
        answers = (parse_control(frame[_HEADERS:]) for frame in heard)
        return [answer for answer in answers if answer]


def exchange(frames: list[bytes], wire: str, seconds: float) -> list[bytes]:
    """Sends frames, and returns those of IPv4 that arrive until it has been quiet for so long."""
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

    `make` returns the frames that are sent over and over. `named` are the drop reasons, or metrics, of which
    one has to grow by at least half of what is sent: none of them where a case says itself what names it.
    `prepare` comes before the first turn; `judge` after the last one returns what did not hold.
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
    # Frames that the appliance does not see at all (sent to a worker, or filtered) cannot be counted there.
    share: float = 0.5
    # Its judgement takes long: not with --quick.
    long: bool = False
