"""The mistakes that are made with asynchronous jobs."""

from __future__ import annotations

import math

import pytest

from netns import worker_address
from process import Child

from .bed import OUTSIDE, PATIENCE, RANKS, SOON, Bed, within
from .member import Member, first_weight, join_together, refusal

_JOB = 2
_FLOATS = 64
# A worker waits this long for a server that applies nothing, and says so within a second more.
_UNAPPLIED = 10.0 + 1.0


def _tables(more: str = "") -> str:
    return f"""\
[[jobs]]
id = {_JOB}
name = "asynchronous"
fan_in = {RANKS}
kind = "updates"

[ps]
mode = "external"
address = "{worker_address(OUTSIDE)}"
{more}
"""


def _workers(bed: Bed, *, ranks: int = RANKS, **options: object) -> list[Child]:
    words: dict[str, object] = {"job": _JOB, "floats": _FLOATS, "interval": "20ms", "updates": 200} | options
    return [bed.updater(rank, **words) for rank in range(ranks)]


@within(30.0)
def test_model_lost(bed: Bed) -> None:
    """The parameter server is killed and started again: the model does not become zeros."""
    first, members = _trained(bed, 'rule = "staleness"\nlearning_rate = 0.01')
    bed.says("before", f"weights {_offered(bed, members, 100.0)}", r"100\.")
    bed.kill(first.pid)
    bed.sleep(0.3)
    bed.server()
    bed.mark()
    # As a worker does when the server asks for the model: it offers what it has.
    answer = _offered(bed, members, 100.0)
    bed.in_time("weights")
    bed.says("after", f"weights {answer}", r"\b(99|100)\.")


@within(_UNAPPLIED, quick=False)
@pytest.mark.parametrize(
    ("what", "starts"),
    [
        pytest.param(
            "The parameter server is never started: the workers end with an error.", False, id="never-served"
        ),
        pytest.param("The parameter server is killed for good in the middle.", True, id="server-killed"),
    ],
)
def test_no_server(bed: Bed, starts: bool) -> None:
    """There is no parameter server, or no longer."""
    appliance = bed.appliance(more=_tables())
    server = bed.server() if starts else None
    if server:
        bed.sleep(0.5)
    workers = _workers(bed, updates=100_000)
    if server:
        bed.sleep(2)
        bed.kill(server.pid)
    bed.fails(workers, "parameter server")
    bed.says("log", appliance.log(), "parameter server")
    if not server:
        bed.says("/readyz", bed.readiness(), "parameter.server")


def _trained(bed: Bed, rule: str) -> tuple[Child, list[Member]]:
    """A server with this rule, and members that have joined."""
    bed.appliance(more=_tables(rule))
    server = bed.server()
    bed.sleep(0.5)
    members = [bed.member(rank, _JOB, payload=4 * _FLOATS) for rank in range(RANKS)]
    join_together(members)
    return server, members


def _offered(bed: Bed, members: list[Member], value: float) -> list[float]:
    """Offers weights until the server answers with the first of its own, or gives up."""
    for _ in range(60):
        for member in members:
            member.ask_to_join()
        members[0].offer([value] * _FLOATS)
        for _ in range(8):
            weight = first_weight(members[0].hear(0.05), _FLOATS)
            if weight is not None:
                return [round(weight, 3)]
    bed.problem("no weights from the server")
    return [math.nan]


@within(SOON)
@pytest.mark.parametrize(
    ("what", "value", "count", "late"),
    [
        pytest.param(
            "Updates with finite values of 3e38: the model stays finite, the sender gets an error.",
            3e38,
            1,
            0.0,
            id="values-too-large",
        ),
        pytest.param(
            "One rank's updates are NaN: it gets an error, and the others' work is not lost with it.",
            math.nan,
            1,
            0.0,
            id="not-a-number",
        ),
        pytest.param("A worker's own update says that it stands for 65,535.", 1.0, 65535, 0.0, id="count"),
        pytest.param("An update was generated an hour from now.", 1.0, 1, -3600.0, id="from-the-future"),
    ],
)
def test_refused(bed: Bed, value: float, count: int, late: float) -> None:
    """An update is refused, its sender gets the status, and the others' work continues."""
    # Steps so long that a few of them leave the finite numbers.
    _, members = _trained(bed, 'rule = "staleness"\nlearning_rate = 1.0')
    _offered(bed, members, 1.0)
    bed.mark()
    status = 0
    psn = 0
    while not status and bed.elapsed() < PATIENCE:
        members[0].update([value] * _FLOATS, 1e6, psn=psn, count=count, late=late)
        psn += 1
        while not status and (heard := members[0].hear(0.3)) is not None:
            status = refusal(heard)
    bed.in_time("the sender")
    if status:
        bed.says("the sender", f"status {status}", r"status \d+")
    else:
        bed.problem("the sender gets no status")
    _close(members)
    workers = _workers(bed, updates=100, interval="10ms")
    bed.succeeds(workers)
    applied = [worker.said().get("applied", 0) for worker in workers if worker.exit_code() == 0]
    if not any(applied):
        bed.problem(f"afterwards no update is applied: {applied}")


def _close(members: list[Member]) -> None:
    for member in members:
        member.close()


@within(SOON)
def test_reward_too_large(bed: Bed) -> None:
    """One update has a reward of 3.4e38: what comes after it is still applied, or each worker fails."""
    _, members = _trained(bed, 'rule = "olaf"')
    _offered(bed, members, 1.0)
    members[0].update([0.0] * _FLOATS, 3.4e38)
    bed.sleep(0.3)
    _close(members)
    bed.mark()
    workers = _workers(bed, updates=100, interval="10ms")
    bed.ended(workers)
    for worker in workers:
        if worker.exit_code() == 0:
            bed.says(worker.name, f"applied {worker.said().get('applied')}", r"applied [1-9]")
        else:
            bed.fails([worker], "reward")


@within(SOON)
def test_too_old(bed: Bed) -> None:
    """The models would be older than the operator allows: no rank is admitted, and each learns why."""
    ages = bed.files / "ages.toml"
    ages.write_text(_AGES)
    bed.appliance(more=_tables() + f'[admission]\nverify = "{ages}"\n')
    bed.mark()
    bed.fails(_workers(bed), r"does not admit job 2.*fresh fails: .*asynchronous")
    bed.says("explain", bed.explain(_JOB), "Objective: .* since fresh fails")
    bed.says("check", bed.pascaline("check", str(bed.files / "appliance.toml")), "jobs are refused", "fresh")


# A queue that takes a fifth of a second for each update, and models that may not be half as old.
_AGES = f"""\
horizon = "2s"
[queue]
length = 8
service = "200ms"
[[clusters]]
name = "asynchronous"
workers = {RANKS}
period = "20ms"
[[query]]
name = "fresh"
measure = "highest"
bound = "100ms"
"""
