"""Two cards in line, and hosts on either side that leave checksums to theirs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from process import Failure
from untouched import echoes, pass_untouched

from ..bed.network import Host
from . import frames, wires
from .bench import FILE, READY_SECONDS, Bench
from .cards import Card
from .chapter import bind
from .scene import IN_LINE, Case, Figures

_LEFT, _RIGHT = "10.79.0.1", "10.79.0.2"
_PORT, _DATAGRAMS, _LENGTH = 7007, 200, 1200
_JUMBO = 4000
# Pairs of different drivers, so that each meets another.
_PAIRS = ((Card.VIRTIO, Card.VMXNET3), (Card.E1000E, Card.E1000))
# IEEE 802.1AB's group, which bridges of this machine keep to themselves unless told.
_LLDP = 1 << 14


@dataclass(frozen=True)
class Ends:
    """As scripts/lib/untouched.py names them."""

    left: Host
    right: Host
    mtu: int = 1500

    @property
    def rack(self) -> str:
        return self.left.name

    @property
    def workers(self) -> list[str]:
        return [self.left.name]

    @property
    def server(self) -> str:
        return self.right.name


@contextmanager
def _between(bench: Bench, pair: tuple[Card, Card]) -> Iterator[Ends]:
    """The service forwards between two cards, with a host at each."""
    if bench.card:
        bench.release()
    one, other = pair
    guest = bench.guest
    hosts: list[Host] = []
    for card in pair:
        for line in bind(card.address):
            guest.run(line)
    addresses = " ".join(f"--address {address}" for address in bench.addresses(one))
    guest.run(f"rm -f {FILE}; pascaline init {addresses} -o {FILE}")
    # Both cards are ports of the file; in line is what the operator says.
    guest.run(
        f'sed -i \'/^name = "p0"/a peer = "p1"\' {FILE} && sed -i \'/^name = "p1"/a peer = "p0"\' {FILE}'
    )
    guest.run(f"sed -i 's/^mtu = .*/mtu = {_JUMBO}/' {FILE}")
    try:
        guest.run(f"pascaline check {FILE}")
        guest.run("systemctl reset-failed pascaline; systemctl start pascaline", seconds=READY_SECONDS)
        bench.wait_ready()
        for name, card, address in (("left", one, _LEFT), ("right", other, _RIGHT)):
            hosts.append(bench.wires.beside(name, card, address, "uplink" if name == "left" else "eth0"))
            bridge = ("ip", "link", "set", f"seg{wires.subnet(card)}", "type", "bridge")
            bench.wires.switch.run(*bridge, "group_fwd_mask", hex(_LLDP))
        yield Ends(hosts[0], hosts[1])
        bench.guest.run("systemctl stop pascaline", seconds=READY_SECONDS)
        said = guest.run("systemctl show -p ExecMainStatus pascaline").out
        if "ExecMainStatus=0" not in said:
            raise Failure(f"after SIGTERM: {said}", guest.journal())
    finally:
        for host in hosts:
            bench.wires.remove(host)
        guest.run("systemctl stop pascaline", code=None, seconds=READY_SECONDS)
        for card in pair:
            guest.run(f"driverctl unset-override {card.address}", code=None)


def _passes(bench: Bench, pair: tuple[Card, Card]) -> Figures:
    """All of it between the same two hosts: a start takes seconds."""
    with _between(bench, pair) as ends:
        lost, kinds = pass_untouched(ends, "kernel")  # type: ignore[arg-type]
        if lost:
            raise Failure(f"frames that did not arrive as they left: {', '.join(lost)}")
        _tcp(ends, _RIGHT)
        datagrams = _udp(ends)
        if not frames.ping(ends.left, _RIGHT, 1500):
            raise Failure("no echo of 1,500 bytes")
        if " 0% packet loss" not in ends.left.run(
            "ping", "-c", "3", "-s", "4000", "-W", "3", _RIGHT, check=False
        ):
            raise Failure("echoes in fragments are lost")
        for host, interface in ((ends.left, "uplink"), (ends.right, "eth0")):
            host.set(interface, mtu=_JUMBO)
        if not frames.ping(ends.left, _RIGHT, _JUMBO):
            raise Failure(f"no echo of {_JUMBO} bytes")
        _tcp(ends, _RIGHT)
        sums = bench.sums(wires.appliance(pair[0]))
    return {"kinds_of_frames": kinds, "datagrams": datagrams, **sums}


def _tcp(ends: Ends, address: str) -> None:
    """A stream there and back, with the same bytes."""
    if not echoes(ends, address):  # type: ignore[arg-type]
        raise Failure(f"TCP to {address} does not work, or not with the same bytes")


def _udp(ends: Ends) -> int:
    """Datagrams whose checksum the sender's kernel leaves to its card; the receiver's drops wrong ones."""
    with ends.right.inside(partial(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)) as there:
        there.bind((_RIGHT, _PORT))
        there.settimeout(2.0)
        with ends.left.inside(partial(socket.socket, socket.AF_INET, socket.SOCK_DGRAM)) as here:
            for number in range(_DATAGRAMS):
                sent = number.to_bytes(2) * (_LENGTH // 2)
                here.sendto(sent, (_RIGHT, _PORT))
                try:
                    if there.recv(65536) != sent:
                        raise Failure(f"datagram {number} has other bytes")
                except TimeoutError as error:
                    raise Failure(f"datagram {number} of {_DATAGRAMS} does not arrive") from error
    return _DATAGRAMS


CASES = [
    Case(IN_LINE, f"{one}+{other}", "frames, TCP, UDP, VLAN, jumbo, fragments pass as they are; sums too",
         partial(_passes, pair=(one, other)), (one, other))
    for one, other in _PAIRS
]  # fmt: skip
