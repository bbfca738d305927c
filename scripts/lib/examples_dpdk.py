"""Ranks over DPDK ports: two of the example in one process, over IPv4 and IPv6; one with jumbo frames."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from configuration import UDP_PORT, Settings, device
from netns import Network
from process import Failure, Stop
from stage import Stage

_RANKS = 2
_SECONDS = 60.0
_WANTED = "all sums are right"
_JUMBO = 9000
_SUMS = 4


def both_families(binary: Path, example: Path, stop: Stop) -> Iterator[str]:
    """Runs them; yields what each rank said last."""
    for ip6 in (False, True):
        yield from _run(binary, example, stop, ip6=ip6)


def jumbo(binary: Path, stop: Stop) -> str:
    """`pascaline worker allreduce` over a DPDK port, told no payload; says which one it took."""
    network = Network(1, _JUMBO, middle=False)
    with Stage(binary, stop, network) as stage:
        stage.appliance(network, Settings("af_packet", 1024, 256, fan_in=1, name="jumbo"))
        words = (
            f"worker allreduce --appliance {network.appliance_address}:{UDP_PORT} --job 1 --rank 0 --ranks 1"
        )
        words += f" --bytes 1MiB --iterations {_SUMS} --address {network.address(0)} --mtu {_JUMBO}"
        words += f" --driver dpdk --port {device('af_packet', 0, _JUMBO).replace('pas0', 'eth0')} --json"
        child = stage.pascaline("jumbo-dpdk", words, network.workers[0])
        stage.wait([child], _SECONDS, "the ranks with jumbo frames")
        said = child.said()
        if said.get("verified") != _SUMS or said["payload"] <= _JUMBO - 200:
            what = "the sums over a DPDK port with jumbo frames are not right, or not in jumbo frames"
            raise Failure(what, child.tail())
        return f"over a DPDK port, MTU {_JUMBO}: {_SUMS} sums right, {said['payload']} bytes to a packet"


def _run(binary: Path, example: Path, stop: Stop, *, ip6: bool) -> list[str]:
    network = Network(_RANKS, 1500, middle=False, ip6=ip6)
    with Stage(binary, stop, network) as stage:
        stage.appliance(network, Settings("af_packet", 1024, 256, fan_in=_RANKS, name="examples"))
        at = f"[{network.appliance_address}]" if ip6 else network.appliance_address
        # An interface for each: the driver's ports of one process on one interface share what arrives.
        network.lend(1, 0, "eth1")
        ports = [(f"net_af_packet{rank},iface=eth{rank}", network.address(rank)) for rank in range(_RANKS)]
        command = [example, f"{at}:{UDP_PORT}", _RANKS, 0, *(word for port in ports for word in port)]
        child = stage.child("example-dpdk", command, network.workers[0], seconds=0.0)
        stage.wait([child], _SECONDS, "the ranks over DPDK")
        said = [line for line in child.out.read_text().splitlines() if _WANTED in line]
        if child.exit_code() != 0 or len(said) != _RANKS:
            raise Failure("the example allreduce_dpdk failed", child.tail())
        return [f"over DPDK ports, {'IPv6' if ip6 else 'IPv4'}: {line}" for line in said]
