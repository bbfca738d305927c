"""What the unit does at boot, early or late, and machines without an IOMMU; and a worker over a card."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from process import Failure

from ..bed.appliance import Appliance
from ..bed.process import Process
from . import chapter, wires
from .bench import FILE, READY_SECONDS, Bench
from .cards import Card
from .scene import BARE, SERVICE, Case, Figures

_CARD = Card.E1000E
_LATE_SECONDS = 5.0
_WORKER_SECONDS = 90.0
_HUGEPAGES = "/etc/sysctl.d/50-hugepages.conf"


def _reboots(bench: Bench) -> Figures:
    """The service comes up by itself, with what docs/operating.md made last."""
    bench.ready(_CARD)
    boot = bench.guest.reboot()
    since = time.monotonic()
    bench.wait_ready()
    took = time.monotonic() - since
    bench.judge_doctor("after a reboot")
    return {
        **bench.sums(wires.appliance(_CARD)),
        "boot_seconds": round(boot, 1),
        "ready_seconds": round(took, 1),
    }


def _late(bench: Bench, what: str, before: str, after: str, says: str) -> Figures:
    """Something that the file names is missing when the unit starts: it waits, says so, and goes on then."""
    bench.ready(_CARD)
    guest = bench.guest
    guest.run(f"systemctl stop pascaline; {before}", seconds=READY_SECONDS)
    cursor = guest.run("date +%s.%N").out.strip()
    guest.run("systemctl start --no-block pascaline")
    bench.stop.sleep(_LATE_SECONDS)
    if guest.page("/healthz")[0] == 200:
        raise Failure(f"{what}: the appliance is ready without it")
    state = guest.run("systemctl show -p ActiveState --value pascaline", code=None).out.strip()
    if state not in ("activating", "reloading"):
        raise Failure(f"{what}: the unit is {state}, and does not wait", guest.journal())
    guest.run(after)
    since = time.monotonic()
    bench.wait_ready()
    ready = time.monotonic() - since
    figures = bench.sums(wires.appliance(_CARD))
    journal = guest.run(f"journalctl -u pascaline -o short-monotonic --no-pager --since @{cursor}").out
    if says not in journal:
        raise Failure(f"{what}: the journal does not say {says!r}", journal)
    return {**figures, "sums_after_seconds": round(ready, 1), "journal": _shown(journal)}


def _shown(journal: str) -> list[str]:
    """The lines that tell the story."""
    words = ("pascaline: ", "Started", "Scheduled", "Failed", "ready", "remedy")
    return [line for line in journal.splitlines() if any(word in line for word in words)][:12]


def _late_card(bench: Bench) -> Figures:
    """The card is bound after a reboot, when the unit has been tried for a while."""
    bench.ready(_CARD)
    guest = bench.guest
    guest.run(f"driverctl unset-override {_CARD.address}")
    boot = guest.reboot()
    bench.stop.sleep(_LATE_SECONDS)
    if guest.page("/healthz")[0] == 200:
        raise Failure("the appliance is ready without its card")
    for line in chapter.bind(_CARD.address):
        guest.run(line)
    since = time.monotonic()
    bench.wait_ready()
    figures = bench.sums(wires.appliance(_CARD))
    after = time.monotonic() - since
    journal = guest.run("journalctl -b -u pascaline -o short-monotonic --no-pager").out
    times = {"boot_seconds": round(boot, 1), "sums_after_seconds": round(after, 1)}
    return {**figures, **times, "journal": _shown(journal)}


def _late_hugepages(bench: Bench) -> Figures:
    with bench.changed(("hugepages = ", 'hugepages = "require"')):
        return _late(
            bench,
            "hugepages",
            "sysctl -w vm.nr_hugepages=0",
            f"sysctl -p {_HUGEPAGES}",
            "hugepages are required",
        )


def _late_interface(bench: Bench) -> Figures:
    """The card stays the kernel's, whose interface is given its name after the unit's start."""
    bench.ready(_CARD)
    name = "late0"
    found = f"$(ls /sys/bus/pci/devices/{_CARD.address}/net)"
    up = f"was={found}; ip link set $was down && ip link set $was name {name} && ip link set {name} up"
    kernels = f"driverctl unset-override {_CARD.address}"
    try:
        with bench.changed(("device = ", f'device = "net_kernel0,iface={name}"')):
            figures = _late(bench, "interface", kernels, up, f'interface "{name}"')
            bench.guest.run("systemctl stop pascaline", seconds=READY_SECONDS)
        return figures
    finally:
        for line in chapter.bind(_CARD.address):
            bench.guest.run(line)
        bench.restart()


def _worker(bench: Bench, card: Card) -> Figures:
    """Rank 0 is in the guest, over its card; rank 1 and the appliance are the host's."""
    if bench.card:
        bench.release()
    guest = bench.guest
    for line in (*chapter.prepare(), *chapter.bind(card.address)):
        guest.run(line)
    at, number = wires.appliance(card), wires.subnet(card)
    host = bench.wires.beside("app", card, "")
    files = bench.files / f"worker-{card}"
    files.mkdir()
    try:
        with Appliance(bench.binary, _Place(host.name), _configuration(at), files) as appliance:
            appliance.wait_ready(bench.stop)
            words = f"worker allreduce --appliance {at} --job 1 --ranks 2 --bytes 256KiB --iterations 5"
            words += f" --dtype i32 --join-deadline {_WORKER_SECONDS:.0f}s --json --rank"
            own = f" --driver dpdk --port {card.address} --address 10.77.{number}.100 --core 1"
            line = f"pascaline {words} 0{own}"
            inside = guest.start(line, _WORKER_SECONDS)
            beside = Process(
                "rank1", [str(bench.binary), *words.split(), "1"], files, bench.wires.workers[0].name
            )
            try:
                done = guest.end(line, inside, _WORKER_SECONDS)
                code = beside.wait(30)
            finally:
                beside.stop(1.0)
            if done.code or code:
                raise Failure(
                    f"exit codes {done.code} in the guest, {code} beside it", done.text + beside.tail()
                )
    finally:
        bench.wires.remove(host)
        guest.run(f"driverctl unset-override {card.address}", code=None)
    return {"sums": 5}


class _Place:
    """For `Appliance`: its namespace."""

    def __init__(self, appliance: str) -> None:
        self.appliance = appliance


def _configuration(address: str) -> str:
    return f"""\
[appliance]
addresses = ["{address}"]
[dataplane]
main_core = 0
cores = [1]
float = true
memory_mb = 256
hugepages = "no"
[[ports]]
name = "p0"
device = "net_kernel0,iface=eth0"
mtu = 1500
[pool]
slots = 4096
[[jobs]]
id = 1
fan_in = 2
[telemetry]
listen = "127.0.0.1:9464"
"""


def _without_iommu(bench: Bench) -> Figures:
    """`doctor` names the remedy, which works as it stands in docs/operating.md; the service's user cannot."""
    guest, card = bench.guest, _CARD
    hugepages, driver = chapter.prepare()[:2], chapter.prepare()[2:]
    for line in (*hugepages, *driver):
        guest.run(line)
    guest.run(f"pascaline init --address {wires.appliance(card)} -o {FILE}")
    said = guest.run(f"pascaline doctor -c {FILE}", code=1).out
    if "iommu" not in said or "uio_pci_generic" not in said:
        raise Failure("doctor does not name the remedy", said)
    for line in chapter.without_iommu(card.address):
        guest.run(line)
    guest.run(f"pascaline doctor -c {FILE}")
    guest.run(f"systemd-run --unit by-root pascaline run -c {FILE}")
    try:
        bench.wait_ready()
        figures = bench.sums(wires.appliance(card))
    finally:
        guest.run("systemctl stop by-root", code=None, seconds=READY_SECONDS)
    return figures


_SERVICE: tuple[tuple[str, str, Callable[[Bench], Figures]], ...] = (
    ("reboot", "hugepages, driver and card are there again, and the service polls", _reboots),
    ("late-card", "a reboot, and the card is bound after the unit's start", _late_card),
    ("late-hugepages", "hugepages come after the unit's start", _late_hugepages),
    ("late-interface", "the kernel's interface comes after the unit's start", _late_interface),
)
WORKERS = [
    Case(str(card), "worker", "a worker of the guest's over its card", partial(_worker, card=card), (card,))
    for card in Card
]
CASES = [
    *(Case(SERVICE, name, about, act, (_CARD,)) for name, about, act in _SERVICE),
    Case(
        BARE,
        "uio",
        "a machine without an IOMMU: what doctor and docs/operating.md say works",
        _without_iommu,
        (_CARD,),
    ),
]
