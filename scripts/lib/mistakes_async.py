"""The mistakes that are made with asynchronous jobs."""

from __future__ import annotations

import math
import os
import signal
import struct

from appliance import TELEMETRY, UDP_PORT, fetch
from mistakes_bed import OUTSIDE, RANKS, SOON, Bed, result_of
from mistakes_sync import case
from netns import worker_address
from process import Child
from sender import ACK, Sender, join_together

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
mode = "olaf"

[ps]
mode = "external"
address = "{worker_address(OUTSIDE)}"
{more}
"""


def _server(bed: Bed) -> Child:
    command = [str(bed.binary), "ps", "-c", str(bed.files / "appliance.toml")]
    return bed.child("ps", command, bed.network.workers[OUTSIDE])


def _workers(bed: Bed, *, ranks: int = RANKS, **options: object) -> list[Child]:
    words: dict[str, object] = {"job": _JOB, "floats": _FLOATS, "interval": "20ms", "updates": 200} | options
    return [bed.updater(rank, **words) for rank in range(ranks)]


@case("model-lost", 30.0)
def _model_lost(bed: Bed) -> None:
    """The parameter server is killed and started again: the model does not become zeros."""
    bed.appliance(more=_tables('rule = "staleness"\nlearning_rate = 0.01'))
    first = _server(bed)
    bed.sleep(0.5)
    senders = _joined(bed)
    answer = _pushed(bed, senders, [100.0] * _FLOATS, offer=True)
    bed.says("before", f"weights {answer}", r"100\.")
    os.kill(first.pid, signal.SIGKILL)
    bed.sleep(0.3)
    _server(bed)
    bed.mark()
    # As a worker does that the server asks for the model: it offers what it has.
    answer = _pushed(bed, senders, [100.0] * _FLOATS, offer=True)
    bed.in_time("weights", bed.elapsed())
    bed.says("after", f"weights {answer}", r"\b(99|100)\.")


@case("never-served", _UNAPPLIED, quick=False)
def _never_served(bed: Bed) -> None:
    """The parameter server is never started: the workers end with an error."""
    appliance = bed.appliance(more=_tables())
    workers = _workers(bed, updates=100_000)
    bed.fails(workers, "parameter server")
    bed.says("log", appliance.log(), "parameter server")
    bed.says("/readyz", fetch(bed.network.appliance, TELEMETRY, "/readyz")[1], "parameter.server")


@case("server-killed", _UNAPPLIED, quick=False)
def _server_killed(bed: Bed) -> None:
    """The parameter server is killed for good in the middle."""
    appliance = bed.appliance(more=_tables())
    server = _server(bed)
    bed.sleep(0.5)
    workers = _workers(bed, updates=100_000)
    bed.sleep(2)
    os.kill(server.pid, signal.SIGKILL)
    bed.mark()
    bed.fails(workers, "parameter server")
    bed.says("log", appliance.log(), "parameter server")


def _joined(bed: Bed) -> list[Sender]:
    senders = [
        Sender(bed.network.workers[rank], UDP_PORT, _JOB, rank, RANKS, 4 * _FLOATS) for rank in range(RANKS)
    ]
    for sender in senders:
        bed.undo(sender.close)
    join_together(senders)
    return senders


def _pushed(bed: Bed, senders: list[Sender], values: list[float], *, offer: bool) -> list[float]:
    """Offers weights until the server answers with the first of its own, or gives up."""
    for _ in range(60):
        for sender in senders:
            sender.ask_to_join()
        if offer:
            senders[0].offer(values)
        for _ in range(8):
            heard = senders[0].hear(0.05)
            if heard and heard.kind == ACK and len(heard.body) >= 4 * _FLOATS:
                return [round(struct.unpack_from("<f", heard.body)[0], 3)]
    bed.problem("no weights from the server")
    return [math.nan]


def _refused(bed: Bed, what: str, values: list[float], reward: float, **more: float) -> None:
    """An update is refused, its sender is told, and the others' work goes on."""
    # Steps so long that a few of them leave the finite numbers.
    bed.appliance(more=_tables('rule = "staleness"\nlearning_rate = 1.0'))
    _server(bed)
    bed.sleep(0.5)
    senders = _joined(bed)
    _pushed(bed, senders, [1.0] * _FLOATS, offer=True)
    bed.mark()
    told = None
    for psn in range(3):
        senders[0].update(
            values, reward, psn=psn, count=int(more.get("count", 1)), late=more.get("late", 0.0)
        )
        while not told and (heard := senders[0].hear(0.3)):
            if heard.refusal:
                told = heard
    bed.in_time("the sender", bed.elapsed())
    if told:
        bed.says("the sender", f"status {told.refusal}: {what}", r"status \d+")
    else:
        bed.problem(f"the sender of {what} is told nothing")
    for sender in senders:
        sender.close()
    workers = _workers(bed, updates=100, interval="10ms")
    bed.succeeds(workers, 15)
    applied = [result_of(worker).get("applied", 0) for worker in workers if worker.exit_code() == 0]
    if not any(applied):
        bed.problem(f"afterwards no update is applied: {applied}")


@case("reward-too-large", SOON)
def _reward_too_large(bed: Bed) -> None:
    """One update has a reward of 3.4e38: what comes after it is still applied."""
    bed.appliance(more=_tables('rule = "olaf"'))
    _server(bed)
    bed.sleep(0.5)
    senders = _joined(bed)
    _pushed(bed, senders, [1.0] * _FLOATS, offer=True)
    senders[0].update([0.0] * _FLOATS, 3.4e38)
    bed.sleep(0.3)
    for sender in senders:
        sender.close()
    bed.mark()
    workers = _workers(bed, updates=100, interval="10ms")
    bed.stop.wait_for(lambda: all(worker.exit_code() is not None for worker in workers), 15)
    _applied_or_told(bed, workers)


def _applied_or_told(bed: Bed, workers: list[Child]) -> None:
    """Either updates are applied, or each worker says that none is, and ends with an error."""
    for worker in workers:
        if worker.exit_code() == 0:
            found = result_of(worker)
            bed.says(worker.name, f"applied {found.get('applied')}", r"applied [1-9]")
        else:
            bed.fails([worker], "reward")


@case("values-too-large", SOON)
def _values_too_large(bed: Bed) -> None:
    """Updates with finite values of 3e38: the model stays finite, the sender is told."""
    _refused(bed, "values of 3e38", [3e38] * _FLOATS, 1e6)


@case("not-a-number", SOON)
def _not_a_number(bed: Bed) -> None:
    """One rank's updates are NaN: it is told, and the others' work is not lost with it."""
    _refused(bed, "NaN", [math.nan] * _FLOATS, 1e6)


@case("count", SOON)
def _count(bed: Bed) -> None:
    """A worker's own update says that it stands for 65,535."""
    _refused(bed, "count 65535", [1.0] * _FLOATS, 1e6, count=65535)


@case("from-the-future", SOON)
def _from_the_future(bed: Bed) -> None:
    """An update was generated an hour from now."""
    _refused(bed, "a time an hour ahead", [1.0] * _FLOATS, 1e6, late=-3600.0)


@case("too-old", SOON)
def _too_old(bed: Bed) -> None:
    """The models would be older than the operator allows: nobody is taken in, and each is told why."""
    ages = bed.files / "ages.toml"
    ages.write_text(_AGES)
    bed.appliance(more=_tables() + f'[admission]\nverify = "{ages}"\n')
    bed.mark()
    bed.fails(_workers(bed), r"does not admit job 2.*fresh fails: .*asynchronous")
    bed.says("explain", bed.explain(_JOB), "Objective: nobody may join, since fresh fails")
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
