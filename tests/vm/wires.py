"""What the cards are plugged into, in namespaces of this machine.

Each card has a segment of its own, a bridge with a link to each of two workers:

    guest's card c: tap{c} ── seg{c} :switch ── s{c}w{i} ── eth{c} :worker i

and two hosts stand on either side of two cards in line:

    host left: eth0 ── seg{a} :switch, card a ═ guest ═ card b, switch: seg{b} ── eth0 :host right
"""

from __future__ import annotations

from pathlib import Path

from ..bed.network import Host, Network
from .cards import Card
from .vlan import Tagged

PREFIX = "pasvm"
RANKS = 4
_WORKERS = 2
# More than any card takes; a worker's own end is set to what a case is about.
_LONGEST = 16_200
VLAN = 77


def subnet(card: Card) -> int:
    return list(Card).index(card)


def appliance(card: Card) -> str:
    return f"10.77.{subnet(card)}.254"


def appliance_ipv6(card: Card) -> str:
    return f"fd77:{subnet(card)}::254"


def appliance_in_vlan(card: Card) -> str:
    return f"10.78.{subnet(card)}.254"


class Wires(Network):
    def __init__(self, cards: list[Card]) -> None:
        self.cards = cards
        super().__init__(PREFIX, mtu=_LONGEST)

    def _build(self) -> None:
        self._tagged: list[Tagged] = []
        self.switch = self.host("sw")
        self.workers = [self.host(f"w{number}") for number in range(_WORKERS)]
        for card in self.cards:
            self._segment(card)

    def _segment(self, card: Card) -> None:
        number = subnet(card)
        tap, bridge = self.tap(card), f"seg{number}"
        self.switch.run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
        self.switch.set(tap, mtu=_LONGEST)
        self.switch.up(tap)
        ends = [f"s{number}w{at}" for at in range(_WORKERS)]
        tagged = [f"s{number}v{at}" for at in range(_WORKERS)]
        for at, (worker, end) in enumerate(zip(self.workers, ends, strict=True)):
            interface = self.interface(card)
            self.pair(worker, interface, self.switch, end)
            worker.set(interface, mtu=1500)
            with_ipv6(worker, interface)
            worker.address(interface, f"10.77.{number}.{at + 1}/24")
            worker.address(interface, f"fd77:{number}::{at + 1:x}/64")
            self._tagged.append(Tagged(worker, f"vlan{number}", self.switch, tagged[at], VLAN))
            worker.address(f"vlan{number}", f"10.78.{number}.{at + 1}/24")
        self.switch.bridge(bridge, tap, *ends, *tagged, br_mcast_snooping=0)
        self.switch.set(bridge, mtu=_LONGEST)

    def tap(self, card: Card) -> str:
        return f"tap{subnet(card)}"

    def interface(self, card: Card) -> str:
        """Of a worker in a card's segment."""
        return f"eth{subnet(card)}"

    def workers_mtu(self, card: Card, mtu: int) -> None:
        for worker in self.workers:
            worker.set(self.interface(card), mtu=mtu)

    def counted(self, card: Card) -> tuple[int, int]:
        """Packets that the card has been given, and that it has sent, by the kernel's count."""
        counted = self.switch.counted(self.tap(card))
        return counted["tx_packets"], counted["rx_packets"]

    def beside(self, name: str, card: Card, address: str, interface: str = "eth0") -> Host:
        """A further host in a card's segment, whose kernel leaves checksums to its card."""
        host = self.host(name)
        far = f"s{subnet(card)}{name}"
        self.pair(host, interface, self.switch, far)
        self.switch.set(far, master=f"seg{subnet(card)}")
        host.set(interface, mtu=1500)
        if address:
            host.address(interface, f"{address}/24")
        return host

    def close(self) -> None:
        while self._tagged:
            self._tagged.pop().close()
        super().close()

    def remove(self, host: Host) -> None:
        self.hosts.remove(host)
        host.close()


def with_ipv6(host: Host, interface: str) -> None:
    """Addresses that are given to it are there at once."""

    def allow() -> None:
        for name, value in (("accept_dad", "0"), ("disable_ipv6", "0")):
            Path(f"/proc/sys/net/ipv6/conf/{interface}/{name}").write_text(value)

    host.inside(allow)
