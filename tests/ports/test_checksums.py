"""Who verifies UDP checksums: a bit that flips behind Ethernet's check is summed, or its packet dropped."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from metrics import DROPPED
from tests.bed import arithmetic
from tests.bed.flipping import FlippingWire
from tests.bed.library import allreduce
from tests.bed.summing import SETTINGS, Bed

pytestmark = [pytest.mark.root, pytest.mark.all]
_RANKS = 3
_INPUTS = arithmetic.uneven(_RANKS, 20_011, seed=5)
_SUM = arithmetic.f32(_INPUTS)
_EVERY = 20


@pytest.mark.parametrize("verify", ["card", "software"])
def test_flipped_bits(bed: Bed, verify: str) -> None:
    """The card of a veth pair verifies nothing: there, each bit that has flipped is in the sum.

    Holds R3.3 of protocol.md.
    """
    star = bed.middle(_RANKS)
    for worker in star.at_workers:
        # Otherwise the kernel leaves sums to a card.
        worker.run("ethtool", "-K", "eth0", "tx", "off")
    appliance = bed.appliance(star, replace(SETTINGS, verify=verify))
    with ExitStack() as wires:
        each = [
            wires.enter_context(FlippingWire(star.middle, f"w{rank}", f"a{rank}", _EVERY))
            for rank in range(_RANKS)
        ]
        ranks = bed.ranks(star, payload=1024)
        found = allreduce(ranks, _INPUTS)
        bed.leave(ranks)
        flipped = sum(wire.flipped for wire in each)
    drops = appliance.settled(bed.stop).by_label(DROPPED, "reason")
    assert flipped > 0
    assert (found == _SUM, drops.get("checksum", 0)) == (
        (True, flipped) if verify == "software" else (False, 0)
    )
    assert f"udp={'software' if verify == 'software' else 'neither'}" in appliance.log().replace('"', "")


def test_unfinished_checksums(bed: Bed) -> None:
    """Over net_kernel the kernel says whose sum it has left to a card: those are right."""
    star = bed.star(_RANKS)
    appliance = bed.appliance(star, replace(SETTINGS, driver="kernel", verify="software"))
    assert allreduce(bed.ranks(star), _INPUTS) == _SUM
    assert "checksum" not in appliance.scrape().by_label(DROPPED, "reason")
