"""What each card has to do, one card after the other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial

from process import Failure, Skipped

from . import frames, wires
from .bench import FILE, READY_SECONDS, Bench
from .cards import Card
from .scene import Case, Figures

# Allreduces: enough that something can happen meanwhile.
_LONG = 60
_OUTAGE_SECONDS = 3.0
# What the configuration takes at most.
_MOST_MTU = 9702
_RANGE = re.compile(r"is out of the device's range \d+\.\.=(\d+)")
_BAD_FRAMES = 100
_GONE_SECONDS = 30.0
_LCORES = ("cores = ", r"cores = [0, 1]\nfloat = true")


def _starts(bench: Bench, card: Card) -> Figures:
    since = time.monotonic()
    figures = bench.take(card)
    bench.judge_doctor("beside the appliance")
    bench.told(f"driver={card.model.driver}")
    return {**figures, "ready_seconds": round(time.monotonic() - since, 1)}


def _sums(bench: Bench, card: Card, address: Callable[[Card], str]) -> Figures:
    bench.ready(card)
    return bench.sums(address(card))


def _in_vlan(bench: Bench, card: Card) -> Figures:
    bench.ready(card)
    before = bench.wires.counted(card)
    figures = bench.sums(wires.appliance_in_vlan(card))
    return {**figures, "packets": bench.wires.counted(card)[0] - before[0]}


def _longest(bench: Bench, card: Card) -> Figures:
    """Sums at the card's largest MTU; a configuration with a byte more is refused."""
    bench.ready(card)
    bench.guest.run("systemctl stop pascaline", seconds=READY_SECONDS)
    most = _refused_above(bench, _MOST_MTU)
    most = most or _MOST_MTU
    try:
        with bench.changed(("mtu = ", f"mtu = {most + 1}")):
            _check_refusal(bench, most)
        with bench.changed(("mtu = ", f"mtu = {most}")):
            bench.restart()
            bench.wires.workers_mtu(card, most)
            figures = bench.sums(wires.appliance(card), size=256 << 10)
            if figures["payload"] < most - 128:
                raise Failure(f"workers found a payload of {figures['payload']} at an MTU of {most}")
            bench.wires.workers_mtu(card, most + 1)
            # Cards leave room for a tag: whether a byte more passes is theirs to say, and must do no harm.
            longer = frames.ping(bench.wires.workers[0], wires.appliance(card), most + 1)
            if not frames.ping(bench.wires.workers[0], wires.appliance(card), most):
                raise Failure(f"no echo of {most} bytes at an MTU of as many")
    finally:
        bench.wires.workers_mtu(card, 1500)
        bench.restart()
    return {**figures, "mtu": most, "a_byte_more_passes": longer}


def _refused_above(bench: Bench, mtu: int) -> int | None:
    """The most that the card takes, if it is less than this: the error names it."""
    with bench.changed(("mtu = ", f"mtu = {mtu}")):
        done = bench.guest.run(f"timeout 20 pascaline run -c {FILE}", code=None)
    found = _RANGE.search(done.text)
    if not found and done.code not in (0, 124):
        raise Failure(f"an MTU of {mtu}: exit code {done.code}", done.text)
    return int(found[1]) if found else None


def _check_refusal(bench: Bench, most: int) -> None:
    done = bench.guest.run(f"timeout 20 pascaline run -c {FILE}", code=None)
    if done.code != 2 or str(most) not in done.text:
        raise Failure(
            f"an MTU of {most + 1}: exit code {done.code}, not 2 with the most that it takes", done.text
        )


def _checksums(bench: Bench, card: Card) -> Figures:
    """Datagrams with a wrong checksum are dropped by the card's word, or taken, as docs/operating.md says."""
    bench.ready(card)
    before = bench.settled()
    sent = frames.bad_checksums(
        bench.wires.workers[0], bench.wires.interface(card), wires.appliance(card), _BAD_FRAMES
    )
    after = bench.settled()

    def dropped(reason: str) -> int:
        name = "pascaline_dropped_packets_total"
        return after.by_label(name, "reason").get(reason, 0) - before.by_label(name, "reason").get(reason, 0)

    by_checksum = dropped("checksum")
    wanted = sent if card.model.verifies else 0
    if by_checksum != wanted:
        raise Failure(f"{by_checksum} of {sent} frames dropped for their checksum, not {wanted}")
    said = re.findall(r"ip_headers=.*? udp=\W*(\w+)", bench.guest.journal(400))
    verifier = "card" if card.model.offers else "neither"
    if said[-1:] != [verifier]:
        raise Failure(f"the journal says that UDP is verified by: {said[-1:]}, not {verifier}")
    return {"sent": sent, "dropped_for_checksum": by_checksum}


def _counts(bench: Bench, card: Card) -> Figures:
    """What the card has counted is what the host has given it, and taken from it."""
    bench.ready(card)

    def counted() -> tuple[tuple[int, int], tuple[int, int]]:
        """By the port, and by the host while nothing moved."""
        while True:
            host = bench.wires.counted(card)
            metrics = bench.settled()
            names = ("pascaline_port_received_packets_total", "pascaline_port_sent_packets_total")
            if bench.wires.counted(card) == host:
                return (metrics.total(names[0]), metrics.total(names[1])), host

    port, host = counted()
    bench.sums(wires.appliance(card))
    port_after, host_after = counted()
    by_port = (port_after[0] - port[0], port_after[1] - port[1])
    by_host = (host_after[0] - host[0], host_after[1] - host[1])
    if by_port != by_host:
        raise Failure(f"the port says {by_port} received and sent, the host's interface {by_host}")
    return {"received": by_port[0], "sent": by_port[1]}


def _link(bench: Bench, card: Card) -> Figures:
    """The cable is pulled while ranks sum, and plugged in again."""
    bench.ready(card)
    with bench.summing(wires.appliance(card), allreduces=_LONG) as work:
        work.wait_more()
        bench.guest.monitor("set_link", name=card.id, up=False)
        try:
            bench.wait_for(lambda: not bench.metrics().total("pascaline_port_up"), 10, "port_up is not 0")
            if bench.guest.page("/readyz")[0] == 200:
                raise Failure("/readyz says ready without a link")
            bench.stop.sleep(_OUTAGE_SECONDS)
        finally:
            bench.guest.monitor("set_link", name=card.id, up=True)
        since = time.monotonic()
        work.wait_more()
        again = time.monotonic() - since
    bench.told("has no link")
    return {**work.figures, "again_seconds": round(again, 1)}


def _killed(bench: Bench, card: Card) -> Figures:
    """SIGKILL while ranks sum: the unit starts it again, and they go on."""
    bench.ready(card)
    with bench.summing(wires.appliance(card), allreduces=_LONG) as work:
        work.wait_more()
        bench.guest.run("systemctl kill --kill-who=main --signal=KILL pascaline")
        since = time.monotonic()
        work.wait_more(8)
        again = time.monotonic() - since
    return {**work.figures, "again_seconds": round(again, 1)}


def _stopped(bench: Bench, card: Card) -> Figures:
    """SIGTERM: it accounts for every packet, ends with 0, and leaves nothing behind."""
    bench.ready(card)
    bench.sums(wires.appliance(card))
    since = time.monotonic()
    bench.guest.run("systemctl stop pascaline", seconds=READY_SECONDS)
    took = time.monotonic() - since
    said = bench.guest.run("systemctl show -p ExecMainStatus -p Result pascaline").out
    if "ExecMainStatus=0" not in said or "Result=success" not in said:
        raise Failure(f"after SIGTERM: {said}", bench.guest.journal())
    left = bench.guest.run("ls -d /run/pascaline/dpdk/* /dev/hugepages/pascaline-*", code=None)
    if left.out:
        raise Failure(f"left behind: {left.out}")
    bench.judge_doctor("after the appliance")
    bench.restart()
    return {"stop_seconds": round(took, 1)}


def _lcores(bench: Bench, card: Card) -> Figures:
    """Two lcores at a card that spreads over fewer queues: refused with the reason, or exact.

    The log says that all packets come to one lcore, unless the driver offers to spread them.
    """
    bench.ready(card)
    try:
        with bench.changed(_LCORES):
            since = bench.guest.run("date +%s.%N").out.strip()
            done = bench.guest.run("systemctl restart pascaline", code=None, seconds=READY_SECONDS)
            if done.code != 0:
                bench.told("offers 1 queue pairs", "list fewer cores", since=f"@{since}")
                return {"refused": "offers 1 queue pairs"}
            bench.wait_ready()
            figures = bench.sums(wires.appliance(card))
            received = bench.metrics().by_label("pascaline_received_packets_total", "lcore")
            journal = bench.guest.journal(60, since=f"@{since}")
            told = "spreads packets over no queues" in journal
            if told == card.model.offers_to_spread or (told and len(received) > 1):
                raise Failure(f"packets by lcore: {received}; the journal warns: {told}", journal)
            return {**figures, "lcores_that_receive": len(received), "warned": told}
    finally:
        bench.restart()


def _unplugged(bench: Bench, card: Card) -> Figures:
    """The card is taken out while ranks sum, and put back: the journal says so, and they go on."""
    bench.ready(card)
    if not bench.iommu:
        raise Skipped("without an IOMMU")
    guest = bench.guest
    guest.monitor.forget()
    with bench.summing(wires.appliance(card), allreduces=_LONG) as work:
        work.wait_more()
        at, since = guest.run("date +%s.%N").out.strip(), time.monotonic()
        guest.monitor("device_del", id=card.id)
        guest.monitor.wait_for("DEVICE_DELETED", device=card.id)
        gone = time.monotonic() - since
        bench.told("removed", since=f"@{at}")
        guest.monitor("device_add", **card.properties())
        work.wait_more(8)
    return {**work.figures, "gone_seconds": round(gone, 1)}


_Act = Callable[[Bench, Card], Figures]
_KINDS: tuple[tuple[str, str, _Act], ...] = (
    ("start", "the lines of docs/operating.md: bound, init, check, doctor, a service that polls", _starts),
    ("ipv4", "exact sums at 1,500 bytes", partial(_sums, address=wires.appliance)),
    ("ipv6", "the same over IPv6", partial(_sums, address=wires.appliance_ipv6)),
    ("vlan", "the same in a VLAN", _in_vlan),
    ("mtu", "the same at the largest MTU; a configuration with a byte more is refused", _longest),
    ("checksums", "wrong UDP checksums: dropped by the card's word, or not looked at", _checksums),
    ("counts", "the card's counters are the host's", _counts),
    ("link", "the link goes down and comes back while ranks sum", _link),
    ("killed", "SIGKILL while ranks sum: the service comes back and they go on", _killed),
    ("stopped", "SIGTERM: exit code 0, nothing left behind", _stopped),
    ("lcores", "more lcores than it spreads to: refused or said, and exact", _lcores),
    ("unplugged", "taken out and put back while ranks sum", _unplugged),
)  # fmt: skip


def _at(act: _Act, card: Card) -> Callable[[Bench], Figures]:
    return lambda bench: act(bench, card)


CASES = [
    Case(str(card), name, about, _at(act, card), (card,)) for card in Card for name, about, act in _KINDS
]
