"""Ranks that disagree, are missing, die, hang, or fall behind."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from appliance import JOB

from ..bed.api import over_unix
from .bed import MIB, OUTSIDE, RANKS, SHORT, SOON, Bed, address_of, within
from .member import Member, join_together

# A rank that is silent for as long counts as dead, where a case need not have the default.
DEAD_AFTER = 2.0
DEAD = f'dead_after = "{DEAD_AFTER:.0f}s"'
# An error at a deadline comes this much later at most.
LATE = 1.0
_ODD = RANKS - 1
# Results, of which a multiple of the window of 512 is kept.
_FAR_AHEAD = 10_000
_NAMED = rf"rank {_ODD}\b"
_LONG = within(SOON, quick=False)
_FORMED = 1000
_ADMISSION = '[admission]\njobs = "1000-1999"\nfrom = ["10.77.0.0/24"]\n'


@within(SOON)
@pytest.mark.parametrize(
    ("what", "odd", "patterns"),
    [
        pytest.param(
            "One rank calls with four bytes more than the others.",
            {"bytes": MIB + 4},
            (str(MIB + 4), rf"{MIB}\b"),
            id="size",
        ),
        pytest.param("One rank sums i32, the others f32.", {"dtype": "i32"}, ("i32", "f32"), id="type"),
        pytest.param(
            "One rank wants the maximum, the others the sum.",
            {"op": "max"},
            ("max", "sum"),
            id="reduction",
            marks=_LONG,
        ),
        pytest.param(
            "One rank wants the mean, the others the sum.",
            {"op": "mean"},
            ("mean", "sum"),
            id="mean",
            marks=_LONG,
        ),
    ],
)
def test_disagree(bed: Bed, odd: dict[str, Any], patterns: tuple[str, ...]) -> None:
    """One rank calls otherwise than the others."""
    bed.appliance()
    children = [bed.worker(rank, **(odd if rank == _ODD else {})) for rank in range(RANKS)]
    bed.fails(children, _NAMED, *patterns)


@within(SOON)
def test_payload(bed: Bed) -> None:
    """One rank has another payload length than the others."""
    bed.appliance()
    bed.workers(range(_ODD), payload=1024)
    bed.until(lambda: bed.members() == _ODD, "the others have not joined")
    bed.fails([bed.worker(_ODD, payload=512)], "512", "1024")


@within(SOON)
def test_ranks(bed: Bed) -> None:
    """One rank was started with another number of ranks."""
    bed.appliance()
    odd = bed.worker(0, ranks=RANKS + 1)
    bed.fails([odd], rf"\b{RANKS} ranks", rf"\b{RANKS + 1}\b")


@within(SOON)
def test_calls(bed: Bed) -> None:
    """One rank makes fewer calls and leaves in good order."""
    bed.appliance()
    others = bed.workers(range(_ODD), bytes=64 << 10)
    bed.worker(_ODD, bytes=64 << 10, iterations=2)
    bed.fails(others, _NAMED, r"\bleft\b")


@within(3.0 + LATE)
def test_never_joined(bed: Bed) -> None:
    """One rank is never started; the next run, in which it is first, works."""
    bed.appliance()
    bed.fails(bed.workers(range(_ODD), join_deadline="3s"), _NAMED, "never joined")
    first = bed.worker(_ODD, iterations=2)
    bed.sleep(0.1)
    bed.succeeds([first, *bed.workers(range(_ODD), iterations=2)])


@pytest.mark.parametrize(
    ("what", "keys"),
    [
        pytest.param("One rank is killed.", DEAD, id="killed", marks=within(DEAD_AFTER + LATE)),
        pytest.param(
            "One rank is killed, and neither the job nor the workers say how long to wait.",
            "",
            id="killed-defaults",
            marks=within(20.0 + LATE, quick=False),
        ),
    ],
)
def test_killed(bed: Bed, keys: str) -> None:
    """One rank is killed."""
    bed.appliance(keys)
    *others, killed = bed.at_work()
    bed.kill(killed.pid)
    bed.fails(others, _NAMED, "died|silent", address_of(_ODD))


@within(4.0 + LATE)
def test_frozen(bed: Bed) -> None:
    """One rank hangs, and the others' deadline is shorter than the time after which it counts as dead."""
    bed.appliance()
    *others, frozen = bed.at_work(deadline="4s", **SHORT)
    bed.kill(frozen.pid, signal.SIGSTOP)
    bed.fails(others, _NAMED, r"silent", address_of(_ODD))


@within(30.0)
def test_continue(bed: Bed) -> None:
    """One rank dies in a job that continues without it; the workers are as they come."""
    bed.appliance(f'{DEAD}\non_death = "continue"')
    *others, killed = bed.at_work(iterations=60, no_verify=True)
    bed.kill(killed.pid)
    bed.succeeds(others)
    bed.in_time("the others")
    for child in others:
        missing = child.said().get("missing_ranks") if child.exit_code() == 0 else None
        bed.says(child.name, f"missing_ranks {missing}", rf"\[{_ODD}\]")


@within(SOON)
def test_straggler(bed: Bed) -> None:
    """One rank is alive and computes: `explain` names it to the others."""
    bed.appliance()
    bed.workers(range(_ODD))
    slow = bed.member(_ODD)
    slow.join()
    bed.mark()

    def explained() -> str:
        # It goes on sending heartbeats.
        slow.ask_to_join()
        return bed.explain()

    name = rf"rank {_ODD} is a straggler: the others have waited for it for [\d.]+ s"
    bed.appears("explain", explained, name, rf"{address_of(_ODD)} port \d+\) is alive, behind by \d")


@within(SOON)
def test_overtaken(bed: Bed) -> None:
    """One rank hangs in a job with a threshold, and comes back when the others are far ahead."""
    bed.appliance(f"early = {{ threshold = {_ODD} }}", policy="panama")
    long = {"iterations": 100_000, "no_verify": True}
    # It hangs before the job is complete: if it shared in the work, it could on a busy machine be one of the
    # two that overtake another, and with it stopped a single rank would be left, below the threshold.
    hung = bed.worker(_ODD, **long)
    bed.until(lambda: bed.members() == 1, f"rank {_ODD} has not joined")
    bed.kill(hung.pid, signal.SIGSTOP)
    others = bed.workers(range(_ODD), **long)
    bed.await_work(_FAR_AHEAD)
    bed.kill(hung.pid, signal.SIGCONT)
    bed.appears("explain", bed.explain, rf"rank {_ODD} .* waits for results that are kept no longer")
    bed.fails([hung], "have continued", "results")
    for child in others:
        if child.exit_code() is not None:
            bed.problem(f"{child.name} ends")


@within(SOON)
def test_halted(bed: Bed) -> None:
    """A member halts the job: the others and later ranks learn of it, and of the remedy."""
    bed.appliance()
    others = bed.workers([rank for rank in range(RANKS) if rank != 1])
    bed.mark()
    commander = bed.command(1, "halt")
    bed.fails(others, "suspended|halted", "pascaline job reset")
    bed.succeeds([commander])
    bed.mark()
    bed.fails([bed.worker(0, join_deadline="3s")], "suspended|halted", "pascaline job reset")
    bed.says(
        "pascaline job reset", bed.pascaline("job", "reset", str(JOB), "--admin", bed.admin), "reset|anew"
    )
    bed.succeeds(bed.workers(iterations=2))


def _formed(bed: Bed) -> list[Member]:
    """Ranks that have formed a job, and call nothing."""
    members = [bed.member(rank, _FORMED) for rank in range(RANKS)]
    join_together(members)
    return members


def _fewer_work(bed: Bed) -> None:
    """A run of fewer ranks has the job in time."""
    bed.succeeds([bed.worker(rank, job=_FORMED, ranks=_ODD, iterations=2) for rank in range(_ODD)])
    bed.in_time("the run of fewer ranks")


@within(5.0)
def test_formed_anew(bed: Bed) -> None:
    """All ranks of a job that Joins have formed end without a word, and fewer are started."""
    bed.appliance(more=_ADMISSION)
    for member in _formed(bed):
        member.close()
    _fewer_work(bed)


@within(5.0)
def test_formed_deleted(bed: Bed) -> None:
    """All ranks of a job that Joins have formed hang, and an operator ends it."""
    bed.appliance(more=_ADMISSION)
    _formed(bed)
    with over_unix(bed.files / "admin.sock") as api:
        bed.says("DELETE", api.delete(f"/api/v1/jobs/{_FORMED}").text, str(_FORMED), "removed")
    _fewer_work(bed)


@within(5.0)
def test_formed_left(bed: Bed) -> None:
    """The same, and an operator takes out one rank after the other."""
    bed.appliance(more=_ADMISSION)
    _formed(bed)
    for rank in range(RANKS):
        done = bed.pascaline("job", "leave", str(_FORMED), str(rank), "--admin", bed.admin)
        bed.says(f"job leave {rank}", done, f"rank {rank}", "ends" if rank == _ODD else "removed")
    _fewer_work(bed)


@within(10.0, quick=False)
def test_flood_of_jobs(bed: Bed) -> None:
    """A host forms as many jobs of one rank as it can: another's job is still admitted."""
    bed.appliance(more='[admission]\njobs = "1000-1999"\nfrom = ["10.77.0.0/24"]\nmax_jobs = 16\n')
    refused = sum(bed.member(0, 1000 + job, 1, at=OUTSIDE).join() != 0 for job in range(16))
    bed.says("the flooder", f"{refused} of 16 jobs refused", r"[1-9]\d* of 16")
    bed.succeeds(bed.workers(job=1900, iterations=2))
    bed.in_time("the others")
