"""A guest with cards, workers of the host's around it, and what cases do with both."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from process import Failure, Stop

from ..bed.metrics import Metrics
from ..bed.workers import Load, Workers
from . import chapter, wires
from .cards import Card
from .guest import Guest
from .image import Image
from .wires import RANKS, Wires

FILE = "/etc/pascaline/appliance.toml"
PORT = 16420
# From the start of the service to ports that are polled, beside other work.
READY_SECONDS = 90.0
_INSTALL_SECONDS = 600.0
_END_SECONDS = 30.0
_DEADLINE_SECONDS = 90.0
_TOLD_SECONDS = 10.0
SMALL, ALLREDUCES = 64 << 10, 4
_PAYLOAD = "/dev/vdb"
# True of the guest, and nothing that an appliance lacks: its processors have other work, too, and it
# is a virtual machine.
_TRUE_FINDINGS = {"isolation", "governor", "clock", "mtu"}


def _is_true(finding: dict[str, Any]) -> bool:
    """Some cards verify no UDP checksums, and software does not by itself at those of virtual machines."""
    without = [card.address for card in Card if not card.model.offers]
    unverified = finding["check"] == "checksums" and any(at in finding["detail"] for at in without)
    return unverified or finding["check"] in _TRUE_FINDINGS


@dataclass(frozen=True)
class Site:
    """For `Workers`: in which namespace each rank runs."""

    workers: list[str]


class Bench:
    def __init__(
        self,
        image: Image,
        package: Path,
        binary: Path,
        cards: list[Card],
        files: Path,
        stop: Stop,
        *,
        iommu: bool,
    ) -> None:
        """Boots a guest with these cards; `close` ends it."""
        self.binary, self.files, self.stop, self.cards = binary, files, stop, cards
        self.iommu = iommu
        self._cleanup = ExitStack()
        try:
            self.wires = self._cleanup.enter_context(Wires(cards))
            devices = [word for card in cards for word in card.backend(self.wires.tap(card))]
            devices += [word for card in cards for word in card.frontend()]
            payload = _archive(package, files)
            host = self.wires.switch.name
            self.guest = Guest(image, files, stop, host, devices, payload=payload, iommu=iommu)
            self._cleanup.callback(self.guest.close)
            self.boot_seconds = self.guest.wait_booted()
            self._install()
        except BaseException:
            self.close()
            raise
        self.site = Site([self.wires.workers[rank % 2].name for rank in range(RANKS)])
        # The card whose appliance the service is, and what ended the attempt to make it so.
        self.card: Card | None = None
        self._failed: dict[Card, str] = {}

    def close(self) -> None:
        self._cleanup.close()

    def _install(self) -> None:
        """By apt, as docs/operating.md has it; what it depends on is there, so that it needs no network."""
        self.guest.run(f"mkdir /root/package && tar -C /root/package -xf {_PAYLOAD}")
        self.guest.run(
            "apt-get -q -y install --no-install-recommends /root/package/*.deb", seconds=_INSTALL_SECONDS
        )

    # ---- the appliance ----

    def addresses(self, card: Card) -> list[str]:
        return [wires.appliance(card), wires.appliance_ipv6(card), wires.appliance_in_vlan(card)]

    def take(self, card: Card) -> dict[str, Any]:
        """Makes the service the appliance of a card, by the lines of docs/operating.md."""
        if self.card:
            self.release()
        self.guest.run(f"rm -f {FILE}")
        for line in (*chapter.prepare(), *chapter.bind(card.address), *chapter.start(self.addresses(card))):
            if line.startswith("systemctl"):
                # The last line: what it says of the machine before.
                self.judge_doctor("before the start")
            self.guest.run(line, seconds=READY_SECONDS)
        self.card = card
        self.wait_ready()
        return {"written": FILE}

    def ready(self, card: Card) -> None:
        """The appliance of this card is the service, and polls its port."""
        if card in self._failed:
            raise Failure(f"the card has no appliance: {self._failed[card]}")
        if self.card is not card:
            try:
                self.take(card)
            except Failure as failure:
                self._failed[card] = str(failure)
                self.card = card
                raise
        if self.guest.run("systemctl is-active pascaline", code=None).code != 0:
            self.restart()

    def release(self) -> None:
        """Stops the service, and gives its card back to the kernel."""
        assert self.card
        self.guest.run("systemctl disable --now pascaline", seconds=READY_SECONDS)
        self.guest.run(f"driverctl unset-override {self.card.address}", code=None)
        self.card = None

    def restart(self) -> None:
        # A process that has just ended may still hold the card: then the unit tries again.
        command = "systemctl reset-failed pascaline; systemctl restart pascaline"
        self.guest.run(command, code=None, seconds=READY_SECONDS)
        self.wait_ready()

    def told(self, *words: str, since: str = "today") -> None:
        """Returns once the journal has these words: it comes a moment after what it tells of."""

        def lacking() -> list[str]:
            journal = self.guest.journal(200, since).replace('"', "")
            return [word for word in words if word not in journal]

        if not self.stop.wait_for(lambda: not lacking(), _TOLD_SECONDS):
            raise Failure(f"the journal does not say: {', '.join(lacking())}", self.guest.journal(60, since))

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        if not self.stop.wait_for(lambda: self.guest.page("/healthz")[0] == 200, seconds):
            raise Failure(f"the appliance is not ready in {seconds:.0f} s", self.guest.journal())

    @contextmanager
    def changed(self, *edits: tuple[str, str]) -> Iterator[None]:
        """The file with other lines, by sed's expressions, until the end; the service is not restarted."""
        self.guest.run(f"cp {FILE} {FILE}.kept")
        try:
            for pattern, text in edits:
                expression = shlex.quote(f"s|^{pattern}.*|{text}|")
                self.guest.run(f"sed -i {expression} {FILE}")
            yield
        finally:
            self.guest.run(f"mv {FILE}.kept {FILE}")

    def judge_doctor(self, when: str) -> None:
        """What `doctor` finds has to be true."""
        done = self.guest.run(f"pascaline doctor --json -c {FILE}", code=None)
        try:
            findings = json.loads(done.out)["findings"]
        except (ValueError, KeyError) as error:
            raise Failure("doctor says no JSON", done.text) from error
        odd = [one for one in findings if one["status"] != "ok" and not _is_true(one)]
        if odd or done.code != 0:
            words = "; ".join(f"{one['check']} {one['status']}: {one['detail']}" for one in odd)
            raise Failure(f"doctor, {when}, exit code {done.code}: {words}")

    # ---- sums ----

    def load(
        self, address: str, *, allreduces: int = ALLREDUCES, size: int = SMALL, payload: int = 0
    ) -> Load:
        where = f"[{address}]:{PORT}" if ":" in address else f"{address}:{PORT}"
        return Load(
            allreduces=allreduces, bytes=size, dtype="i32", payload=payload, in_flight=0, seed=1,
            deadline=_DEADLINE_SECONDS, appliance=where, job=1,
        )  # fmt: skip

    def sums(self, address: str, **options: Any) -> dict[str, Any]:
        """Has all ranks allreduce over a card; every sum is exact, or this fails."""
        with self.summing(address, **options) as work:
            pass
        return work.figures

    @contextmanager
    def summing(self, address: str, **options: Any) -> Iterator[Work]:
        """The ranks sum meanwhile, and have to end well."""
        load = self.load(address, **options)
        workers = Workers(self.binary, self.site, self.files)  # type: ignore[arg-type]
        work = Work(self, load, workers)
        try:
            workers.start(load)
            yield work
            work.finish()
        finally:
            workers.stop()

    def metrics(self) -> Metrics:
        return self.guest.metrics()

    def settled(self) -> Metrics:
        """Once no packet is on its way."""
        before = self.metrics()
        while True:
            self.stop.sleep(1.0)
            now = self.metrics()
            if now.total("pascaline_received_packets_total") == before.total(
                "pascaline_received_packets_total"
            ):
                return now
            before = now

    def wait_for(self, condition: Callable[[], object], seconds: float, otherwise: str) -> None:
        if not self.stop.wait_for(lambda: bool(condition()), seconds):
            raise Failure(f"{otherwise} in {seconds:.0f} s", self.guest.journal())


class Work:
    """Ranks that sum."""

    def __init__(self, bench: Bench, load: Load, workers: Workers) -> None:
        self._bench, self._load, self._workers = bench, load, workers
        self.figures: dict[str, Any] = {}

    @property
    def done(self) -> int:
        """Allreduces of all ranks so far."""
        return self._workers.done()

    def wait_more(self, count: int = RANKS, seconds: float = 60.0) -> None:
        """Returns once this many more allreduces of ranks are through."""
        wanted = self.done + count

        def through() -> bool:
            if self._workers.failed():
                self._workers.results()
            return self.done >= wanted or self._workers.ended()

        if not self._bench.stop.wait_for(through, seconds):
            raise Failure(f"no allreduce in {seconds:.0f} s", self._bench.guest.journal())

    def finish(self) -> None:
        end = _DEADLINE_SECONDS + _END_SECONDS
        if not self._bench.stop.wait_for(lambda: self._workers.ended() or self._workers.failed(), end):
            raise Failure(f"the workers do not end in {end:.0f} s", self._bench.guest.journal())
        said = self._workers.results()
        wanted = self._load.allreduces
        wrong = [one for one in said if one["verified"] != wanted or one["mismatches"]]
        if wrong:
            raise Failure(f"sums are wrong or missing at {len(wrong)} of {len(said)} ranks: {wrong[0]}")
        if len({one["checksum"] for one in said}) != 1:
            raise Failure("the ranks have different bits")
        seconds = sorted(second for one in said for second in one["seconds"])
        self.figures = {
            "sums": wanted * len(said),
            "payload": said[0]["payload"],
            "median_ms": round(1000 * seconds[len(seconds) // 2], 1),
            "retransmissions": sum(one["retransmissions"] for one in said),
        }


def _archive(package: Path, files: Path) -> Path:
    """A disk that holds the package."""
    place = files / "payload"
    place.mkdir()
    shutil.copy2(package, place)
    return Path(shutil.make_archive(str(files / "payload"), "tar", place))
