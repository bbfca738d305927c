"""Paths that do not lead there: wrong addresses, filters, MTUs."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from netns import APPLIANCE_ADDRESS, worker_address

from .bed import RANKS, SHORT, SOON, Bed, address_of, within
from .test_ranks import LATE

_ODD = RANKS - 1
_NAMED = rf"rank {_ODD}\b"


@pytest.mark.parametrize(
    ("what", "address", "deadline", "patterns"),
    [
        pytest.param(
            "The workers have an address that no host has.",
            "10.77.0.200:16420",
            "5s",
            (r"10\.77\.0\.200:16420", "address", "running|started"),
            id="no-such-host",
            marks=within(6.0, quick=False),
        ),
        pytest.param(
            "The workers have the address of a host that is no appliance, which says so by ICMP.",
            f"{worker_address(0)}:16420",
            "",
            (rf"{address_of(0)}:16420", "refuse|nothing listens|unreachable", "port"),
            id="other-host",
            marks=within(SOON),
        ),
        pytest.param(
            "The workers have the right address and another port.",
            f"{APPLIANCE_ADDRESS}:16500",
            "3s",
            (rf"{APPLIANCE_ADDRESS}:16500", "port"),
            id="other-port",
            marks=within(4.0),
        ),
    ],
)
def test_wrong_address(bed: Bed, address: str, deadline: str, patterns: tuple[str, ...]) -> None:
    """The workers have another address than the appliance's."""
    bed.appliance()
    options = {"join_deadline": deadline} if deadline else {}
    bed.fails([bed.worker(0, appliance=address, **options)], *patterns)


@within(SOON)
def test_own_route_prohibits(bed: Bed) -> None:
    """A route of one rank's own host comes to prohibit the way to the appliance, which goes on sending."""
    bed.appliance()
    children = bed.at_work(iterations=100_000)
    route = {"dst": f"{APPLIANCE_ADDRESS}/32", "type": "prohibit"}
    ip = bed.hosts[_ODD].ip
    ip.route("add", **route)
    bed.undo(partial(ip.route, "del", **route))
    bed.mark()
    bed.fails(children[-1:], rf"{APPLIANCE_ADDRESS}:16420", "firewall or a route of this host", r"\b16420\b")


def _drop_long(bed: Bed, rank: int, direction: str) -> None:
    """From now on a rank's long packets go nowhere, in one direction: its heartbeats get through."""
    host = bed.hosts[rank]
    host.ip.link("add", ifname="hole", kind="veth", peer="ground")
    bed.undo(lambda: host.ip.link("del", index=host.index("hole")))
    host.run("tc", "qdisc", "add", "dev", "eth0", "clsact")
    bed.undo(host.run, "tc", "qdisc", "del", "dev", "eth0", "clsact", check=False)
    match = ("u32", "match", "u16", "0x0400", "0xfc00", "at", "2")
    drop = ("action", "mirred", "egress", "redirect", "dev", "hole")
    host.run("tc", "filter", "add", "dev", "eth0", direction, "protocol", "ip", "prio", "1", *match, *drop)


@within(5.0 + LATE)
@pytest.mark.parametrize(
    ("what", "direction", "options", "others", "patterns"),
    [
        pytest.param(
            "Something drops the results on their way to one rank.",
            "ingress",
            {"deadline": "5s"} | SHORT,
            "behind",
            ("result", "firewall|MTU"),
            id="results-filtered",
        ),
        pytest.param(
            "Something drops one rank's long packets on their way to the appliance.",
            "egress",
            {},
            "left",
            (r"\b1408\b", "firewall|MTU"),
            id="gradients-filtered",
        ),
    ],
)
def test_filtered(
    bed: Bed, direction: str, options: dict[str, Any], others: str, patterns: tuple[str, ...]
) -> None:
    """Something drops the long packets of one rank in one direction."""
    bed.appliance()
    children = bed.at_work(**options)
    _drop_long(bed, _ODD, direction)
    bed.mark()
    bed.fails(children[:-1], _NAMED, others)
    bed.fails(children[-1:], *patterns)


@within(SOON)
def test_filtered_from_the_start(bed: Bed) -> None:
    """Something drops the long packets to one rank, and those from another, before they join."""
    bed.appliance()
    _drop_long(bed, 0, "egress")
    _drop_long(bed, _ODD, "ingress")
    bed.succeeds(children := bed.workers(iterations=3))
    for child in (children[0], children[-1]):
        bed.says(child.name, child.err.read_text(), r"\b1448 payload bytes do not get through", r"with 512\b")


@pytest.mark.parametrize(
    ("what", "at_worker"),
    [
        pytest.param(
            "The MTU of a rank's interface becomes smaller than its packets.",
            True,
            id="mtu",
            marks=within(SOON),
        ),
        pytest.param(
            "The MTU at the other end of a rank's link becomes smaller than its packets: nothing says so.",
            False,
            id="mtu-of-the-path",
            marks=within(5.0 + LATE, quick=False),
        ),
    ],
)
def test_mtu(bed: Bed, at_worker: bool) -> None:
    """An MTU becomes smaller than a rank's packets, at either end of its link."""
    bed.appliance()
    host, interface = (bed.hosts[_ODD], "eth0") if at_worker else (bed.network.at_appliance, f"pas{_ODD}")
    children = bed.at_work()
    bed.undo(host.set, interface, mtu=1500)
    host.set(interface, mtu=1000)
    bed.mark()
    if at_worker:
        bed.fails(children[-1:], r"\b1000\b", r"\b944\b|payload")
        bed.fails(children[:-1], _NAMED)
    else:
        bed.fails(children[-1:], r"MTU", r"payload")
