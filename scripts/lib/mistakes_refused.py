"""Packets that are refused in mid-run."""

from __future__ import annotations

import os
import signal
from functools import partial

from mistakes_bed import RANKS, Bed
from mistakes_sync import case
from netns import APPLIANCE_ADDRESS, worker_address
from process import run

_AT = rf"{APPLIANCE_ADDRESS}:16420"


@case("host-refuses")
def _host_refuses(bed: Bed) -> None:
    """The appliance dies while the workers are at it, and its host says by ICMP that nothing listens."""
    appliance = bed.appliance()
    children = bed.workers(iterations=100_000)
    bed.await_work()
    here = bed.network.appliance
    run("ip", "netns", "exec", here, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0")
    os.kill(appliance.pid, signal.SIGKILL)
    # From now on the kernel is whom the address leads to.
    for rank in range(RANKS):
        link, whom = f"pas{rank}", worker_address(rank)
        bed.undo(partial(bed.ip, here, "addr", "flush", "dev", link, "scope", "global"))
        bed.ip(here, "addr", "add", f"{APPLIANCE_ADDRESS}/32", "dev", link)
        bed.ip(here, "route", "add", whom, "dev", link)
    bed.mark()
    bed.fails(children, _AT, "nothing listens", "running")


@case("own-route-prohibits")
def _own_route_prohibits(bed: Bed) -> None:
    """A route of one rank's own host comes to prohibit the way to the appliance, which goes on talking."""
    bed.appliance()
    children = bed.workers(iterations=100_000)
    bed.await_work()
    where = bed.network.workers[RANKS - 1]
    bed.undo(partial(bed.ip, where, "route", "del", "prohibit", APPLIANCE_ADDRESS))
    bed.ip(where, "route", "add", "prohibit", APPLIANCE_ADDRESS)
    bed.mark()
    bed.fails(children[-1:], _AT, "firewall or a route of this host", r"\b16420\b")
