"""docs/reproducible.md at one appliance: what may happen, and the bits of a sum stay.

Real ranks over DPDK ports. Inputs are such that every other order of additions gives other bits, which the
first test makes sure of; expected bits are computed here.
"""

from __future__ import annotations

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from metrics import PREEMPTIONS, RECEIVED
from tests.bed import arithmetic
from tests.bed.appliance import JOB, Appliance
from tests.bed.library import DType, allreduce
from tests.bed.process import wait_for
from tests.bed.summing import SETTINGS, Bed

pytestmark = [pytest.mark.root, pytest.mark.all]
_RANKS = 3
# Neither a multiple of a packet's elements nor of a register's.
_ELEMENTS = 20_011
_INPUTS = arithmetic.uneven(_RANKS, _ELEMENTS, seed=1)
_BY_RANK = arithmetic.f32(_INPUTS)
# Seconds after which a rank comes behind all packets of those before it.
_LATE = 0.25
# The last rank comes before both others in the latter two: the first addition is not that of ranks 0 and 1.
_TOGETHER, _IN_TURN, _BACKWARDS = [0, 0, 0], [_LATE, 2 * _LATE, 0], [2 * _LATE, _LATE, 0]
# Its contributions are added as they come.
_ARRIVAL_JOB = 2
_TWO_JOBS = replace(SETTINGS, more=f"[[jobs]]\nid = {_ARRIVAL_JOB}\nfan_in = {_RANKS}\n")


def test_inputs_tell_orders_apart() -> None:
    """Of three addends there are three sums, since two commute."""
    sums = {arithmetic.f32([_INPUTS[rank] for rank in order]) for order in itertools.permutations(range(3))}
    assert len(sums) == 3
    assert _BY_RANK in sums


def test_arrival(bed: Bed) -> None:
    """Ranks come in every order. A job that adds as they come shows that they do."""
    star = bed.star(_RANKS)
    bed.appliance(star, _TWO_JOBS)
    steady, arriving = (bed.ranks(star, job) for job in (JOB, _ARRIVAL_JOB))
    as_they_came = set()
    for order in itertools.permutations(range(_RANKS)):
        late = [order.index(rank) * _LATE for rank in range(_RANKS)]
        assert allreduce(steady, _INPUTS, late=late) == _BY_RANK, order
        as_they_came.add(allreduce(arriving, _INPUTS, late=late))
    assert len(as_they_came) > 1, "the order of arrival was the same each time"


def test_loss(bed: Bed, lab: Path) -> None:
    """Wires that lose, double and reorder two in a hundred frames, each way."""
    star = bed.middle(_RANKS)
    wires = [
        bed.wire(lab, star, rank, loss=2, duplicate=2, reorder=2, seed=rank + 1) for rank in range(_RANKS)
    ]
    bed.appliance(star)
    ranks = bed.ranks(star, payload=256)
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        assert allreduce(ranks, _INPUTS, late=late) == _BY_RANK
    assert sum(rank.report().retransmissions for rank in ranks) > 0
    for wire in wires:
        wire.stop(5.0)
    ways = [way for wire in wires for way in json.loads(wire.out.read_text()).values()]
    for what in ("lost", "duplicated", "reordered"):
        assert sum(way[what] for way in ways) > 0, what


@pytest.mark.parametrize("payload", [256, 1408])
def test_payload(bed: Bed, payload: int) -> None:
    star = bed.star(_RANKS)
    bed.appliance(star)
    ranks = bed.ranks(star, payload=payload)
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        assert allreduce(ranks, _INPUTS, late=late) == _BY_RANK
    assert ranks[0].report().packets == -(-len(_BY_RANK) // payload)


@pytest.mark.parametrize(("lcores", "udp_ports"), [(1, 1), (2, 1), (2, 2)])
def test_lcores(bed: Bed, lcores: int, udp_ports: int) -> None:
    """One adds all; of two, one hands the other what is not its own; two know their PSNs by UDP port."""
    star = bed.star(_RANKS)
    appliance = bed.appliance(star, replace(SETTINGS, lcores=lcores, udp_ports=udp_ports))
    ranks = bed.ranks(star, udp_ports=udp_ports)
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        assert allreduce(ranks, _INPUTS, late=late) == _BY_RANK
    found = appliance.scrape()
    assert len(found.by_label("pascaline_results_total", "lcore")) == lcores
    handed_off = found.total("pascaline_handed_off_packets_total")
    assert handed_off > 0 if (lcores, udp_ports) == (2, 1) else lcores > 1 or handed_off == 0


def test_parameter_server(bed: Bed) -> None:
    """Two jobs contend for few slots: the server in the appliance completes sums."""
    star = bed.star(_RANKS)
    appliance = bed.appliance(star, replace(SETTINGS, policy="dsa", pool_slots=64, jobs=2))
    both = [bed.ranks(star, job) for job in (JOB, JOB + 1)]
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        with ThreadPoolExecutor(len(both)) as threads:
            summing = [threads.submit(allreduce, ranks, _INPUTS, late=late) for ranks in both]
            assert [done.result() for done in summing] == [_BY_RANK] * 2
    found = appliance.scrape()
    assert found.total(PREEMPTIONS) > 0
    assert found.total("pascaline_server_results_total") > 0


@pytest.mark.parametrize("absent", range(_RANKS))
def test_restart(bed: Bed, absent: int) -> None:
    """The appliance is killed when it has two of three contributions, and another one begins anew."""
    star = bed.star(_RANKS)
    appliance = bed.appliance(star)
    ranks = bed.ranks(star)
    assert allreduce(ranks, _INPUTS) == _BY_RANK
    before = appliance.scrape().total(RECEIVED)
    late = [4.0 if rank == absent else 0 for rank in range(_RANKS)]
    with ThreadPoolExecutor(1) as thread:
        summing = thread.submit(allreduce, ranks, _INPUTS, late=late)
        # Both have sent the whole tensor by then.
        both = 2 * (-(-len(_BY_RANK) // 1448))
        wait_for(partial(_has_received, appliance, before + both), 3.0, "nothing arrives")
        appliance.kill_and_restart(bed.stop)
        assert summing.result() == _BY_RANK


def _has_received(appliance: Appliance, packets: int) -> bool:
    return appliance.scrape().total(RECEIVED) >= packets


@pytest.mark.parametrize("pieces", [1, 2, 7, 100])
def test_calls(bed: Bed, pieces: int) -> None:
    """A tensor in one call, or cut into several that are not equally long."""
    star = bed.star(_RANKS)
    bed.appliance(star)
    ranks = bed.ranks(star)
    for late in (_TOGETHER, _IN_TURN):
        assert allreduce(ranks, _INPUTS, late=late, pieces=pieces) == _BY_RANK


def test_f64(bed: Bed) -> None:
    star = bed.star(_RANKS)
    bed.appliance(star)
    inputs = arithmetic.uneven(_RANKS, _ELEMENTS, seed=2, code="d")
    assert len({arithmetic.f64(order) for order in itertools.permutations(inputs)}) == 3
    ranks = bed.ranks(star)
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        assert allreduce(ranks, inputs, DType.F64, late=late) == arithmetic.f64(inputs)


@pytest.mark.parametrize("job", [JOB, _ARRIVAL_JOB])
def test_narrow(bed: Bed, job: int) -> None:
    """Every job adds bf16 in the order of ranks, in binary32, and rounds once."""
    star = bed.star(_RANKS)
    bed.appliance(star, _TWO_JOBS)
    large, _, small = (arithmetic.narrowed(values) for values in _INPUTS)
    # What the sum of the others has lost shows when the large ones have gone.
    inputs = [large, arithmetic.negated(large), small]
    assert len({arithmetic.bf16(order) for order in itertools.permutations(inputs)}) == 3
    ranks = bed.ranks(star, job)
    for late in (_TOGETHER, _IN_TURN, _BACKWARDS):
        assert allreduce(ranks, inputs, DType.BF16, late=late) == arithmetic.bf16(inputs)
