"""Ranks over DPDK ports: two of the example in one process, over IPv4 and IPv6; one with jumbo frames."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import netns
from appliance import UDP_PORT, Appliance, Settings, device
from netns import Network
from process import Child, Failure, Stop

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
    """`pascaline worker allreduce` over a DPDK port of its own, told no payload; says which one it took."""
    netns.remove_leftovers()
    network = Network(1, _JUMBO, middle=False)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        appliance = Appliance(
            binary, network, Settings("af_packet", 1024, 256, fan_in=1, name="jumbo"), files
        )
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        options = {
            "--appliance": f"{network.appliance_address}:{UDP_PORT}",
            "--job": 1,
            "--rank": 0,
            "--ranks": 1,
            "--bytes": "1MiB",
            "--iterations": _SUMS,
            "--driver": "dpdk",
            "--port": device("af_packet", 0, _JUMBO).replace("pas0", "eth0"),
            "--address": network.address(0),
            "--mtu": _JUMBO,
        }
        words = [str(word) for option in options.items() for word in option]
        command = [str(binary), "worker", "allreduce", *words, "--json"]
        child = Child("jumbo-dpdk", command, files, network.workers[0])
        cleanup.callback(child.kill)
        if not stop.wait_for(lambda: child.exit_code() is not None, _SECONDS):
            raise Failure(f"the rank with jumbo frames is not done after {_SECONDS:.0f} s", child.tail())
        said = json.loads(child.out.read_text() or "{}")
        if said.get("verified") != _SUMS or said["payload"] <= _JUMBO - 200:
            what = "the sums over a DPDK port with jumbo frames are not right, or not in jumbo frames"
            raise Failure(what, child.tail())
        return f"over a DPDK port, MTU {_JUMBO}: {_SUMS} sums right, {said['payload']} bytes to a packet"


def _run(binary: Path, example: Path, stop: Stop, *, ip6: bool) -> list[str]:
    netns.remove_leftovers()
    network = Network(_RANKS, 1500, middle=False, ip6=ip6)
    files = netns.work_directory(os.getpid())
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, files, ignore_errors=True)
        cleanup.callback(network.destroy)
        files.mkdir(mode=0o700)
        network.create()
        settings = Settings("af_packet", 1024, 256, fan_in=_RANKS, name="examples")
        appliance = Appliance(binary, network, settings, files)
        cleanup.callback(appliance.stop)
        appliance.wait_ready(stop)
        at = f"[{network.appliance_address}]" if ip6 else network.appliance_address
        # An interface for each: the driver's ports of one process on one interface share what arrives.
        network.lend(1, 0, "eth1")
        ports = [(f"net_af_packet{rank},iface=eth{rank}", network.address(rank)) for rank in range(_RANKS)]
        words = [word for port in ports for word in port]
        command = [str(example), f"{at}:{UDP_PORT}", str(_RANKS), "0", *words]
        child = Child("example-dpdk", command, files, network.workers[0])
        cleanup.callback(child.kill)
        if not stop.wait_for(lambda: child.exit_code() is not None, _SECONDS):
            raise Failure(f"the ranks over DPDK are not done after {_SECONDS:.0f} s", child.tail())
        said = [line for line in child.out.read_text().splitlines() if _WANTED in line]
        if child.exit_code() != 0 or len(said) != _RANKS:
            raise Failure("the example allreduce_dpdk failed", child.tail())
        return [f"over DPDK ports, {'IPv6' if ip6 else 'IPv4'}: {line}" for line in said]
