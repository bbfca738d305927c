"""What `pascaline explain` says of a job that waits, is limited, or is slowed down by another one."""

from __future__ import annotations

import os
import signal
import sys

import flood
from appliance import JOB, UDP_PORT
from mistakes_bed import OUTSIDE, RANKS, Bed, address_of
from mistakes_sync import case
from process import Child, Failure
from sender import Sender

_OTHER = JOB + 16
_RATE = 30_000
# After so long a neighbour has sent enough to be worth a word.
_WORTH = 3.0


@case("straggler")
def _straggler(bed: Bed) -> None:
    """One rank is alive and computes: the others are told for whom they wait."""
    bed.appliance()
    others = bed.workers(range(RANKS - 1), deadline="4s")
    slow = Sender(bed.network.workers[RANKS - 1], UDP_PORT, JOB, RANKS - 1, RANKS)
    bed.undo(slow.close)
    slow.join()
    bed.mark()

    def explained() -> str:
        # It goes on saying that it is alive.
        slow.ask_to_join()
        return bed.explain()

    name = rf"rank {RANKS - 1} is a straggler: the others have waited for it for [\d.]+ s"
    bed.appears("explain", explained, name, rf"{address_of(RANKS - 1)} port \d+\) is alive, behind by \d")
    for child in others:
        child.kill()


@case("overtaken")
def _overtaken(bed: Bed) -> None:
    """One rank hangs in a job with a threshold, and comes back when the others are far ahead."""
    bed.appliance(f"threshold = {RANKS - 1}", policy="panama")
    children = bed.workers(iterations=100_000, no_verify=True)
    bed.await_work()
    os.kill(children[-1].pid, signal.SIGSTOP)
    bed.sleep(1.0)
    os.kill(children[-1].pid, signal.SIGCONT)
    bed.mark()
    bed.appears("explain", bed.explain, rf"rank {RANKS - 1} .* waits for results that are kept no longer")
    bed.fails(children[-1:], "have gone on", "results")
    for child in children[:-1]:
        if child.exit_code() is not None:
            bed.problem(f"{child.name} ends")


def _neighbours(bed: Bed, keys: str, slots: int = 4096) -> Child:
    """Two jobs that share the pool, and a neighbour that never completes anything."""
    table = f'[[jobs]]\nid = {_OTHER}\nname = "neighbour"\nfan_in = 2\nwindow = 512\n'
    table += f'profile = "dsa"\n{keys}\n'
    bed.appliance(more=table, policy="dsa", slots=slots)
    words = (UDP_PORT, _OTHER, _RATE, 1024, 512, "gradients")
    command = [sys.executable, "-B", flood.__file__, *map(str, words)]
    child = bed.child("neighbour", command, bed.network.workers[OUTSIDE])
    if not bed.stop.wait_for(lambda: "joined" in child.out.read_text(), 10):
        raise Failure("the neighbour has not joined", child.tail())
    bed.mark()
    return child


@case("limited", _WORTH)
def _limited(bed: Bed) -> None:
    """A job holds all the slots that its quota allows: it is told which limit it is, and what to change."""
    _neighbours(bed, "quota = 64")
    bed.appears("explain", lambda: bed.explain(_OTHER), r"Quota: \d+ contributions came .* 64 slots", "quota")


@case("limited-share", _WORTH)
def _limited_share(bed: Bed) -> None:
    """A job has borrowed slots, and their owner wants them: it is told what its share is."""
    _neighbours(bed, "", slots=256)
    bed.workers()
    told = r"(Given back|Slot share): \d+ (partials|contributions) .* share, 1 \(50 %\)"
    bed.appears("explain", lambda: bed.explain(_OTHER), told, "raise the job's share")


@case("slowed-by-a-neighbour", _WORTH)
def _slowed(bed: Bed) -> None:
    """A neighbour sends what never completes: the job that is slowed is told by whom."""
    _neighbours(bed, "")
    bed.workers()
    told = rf'Slowed by job {_OTHER} "neighbour": of its \d+ packets \d+ came to no result'
    bed.appears("explain", bed.explain, told, rf"pascaline explain {_OTHER}")
