"""What a packet costs as there are more jobs, more workers per job, more slots."""

from __future__ import annotations

import programs
from context import Context
from figure import Beside, Figure, Goal, Section

TITLE = "Scale: what a packet costs with more workers per job"

_WORKERS = (2, 8, 64, 512, 1024)
_FLAT = 1.15


def measure(context: Context, section: Section) -> None:
    """`pascaline bench pool` over fan-in: on top of the bare add, so that more memory touched does not count as the pool's cost."""
    section.notes.append(
        "ns per packet of the pool with more workers per job, each beside the bare add of the same payloads in the same run; and the"
        " cost on top of the bare add beside that of 8 workers."
    )
    rounds = context.pick(2000, 500)
    on_top = {}
    for workers in _WORKERS:
        context.stop.check()
        command = [str(context.binary), "bench", "pool", "--json", "--fan-in", str(workers)]
        # A round deals with 32 PSNs of all workers.
        command += ["--rounds", str(max(20, rounds * 8 // workers))]
        found = programs.json_of(f"workers-{workers}", command, context.files, context.stop, 120)
        section.raw[f"{workers} workers"] = found
        on_top[workers] = found["pool_ns"] - found["bare_add_ns"]
        section.add(
            Figure(
                f"{workers} workers: pool", found["pool_ns"], "ns/packet", Beside("bare add", found["bare_add_ns"]),
                group="workers per job", label=f"{workers} workers",
            )
        )
    for workers in (64, 512, 1024):
        section.add(
            Figure(
                f"{workers} workers: on top of the bare add", on_top[workers], "ns/packet", Beside("8 workers", on_top[8]),
                goal=Goal(at_most=_FLAT),
            )
        )
