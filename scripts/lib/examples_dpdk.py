"""Two ranks of the example over DPDK ports, in one process, over IPv4 and over IPv6."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import netns
from appliance import UDP_PORT, Appliance, Settings
from netns import Network
from process import Child, Failure, Stop

_RANKS = 2
_SECONDS = 60.0
_WANTED = "all sums are right"


def both_families(binary: Path, example: Path, stop: Stop) -> Iterator[str]:
    """Runs them; yields what each rank said last."""
    for ip6 in (False, True):
        yield from _run(binary, example, stop, ip6=ip6)


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
