"""Olaf's queue: losses and the age of models, in virtual time, and the cost of an operation."""

from typing import Any

from context import Context
from figure import Beside, Goal, Section

TITLE = "Olaf: the queue of asynchronous updates, beside FIFO and the paper"


def measure(context: Context, section: Section) -> None:
    section.notes.append(
        "Loss and age are from virtual time and follow from the seed; nanoseconds are of this run. Beside "
        "them is the FIFO queue with the"
        " same arrivals; docs/olaf.md compares with the paper, whose arrivals are not published."
    )
    section.raw["olaf"] = found = context.ask_lab("olaf", "bench olaf", 120)
    for row in found["table1"]:
        bursts = f" in bursts of {row['burst']}" if row["burst"] else ""
        case = f"{row['arrivals']} arrivals{bursts}, {row['out_gbps']} Gbit/s"
        fifo, olaf = row["fifo"], row["olaf"]
        for what, short, key, unit in (
            ("lost", "lost", "lost_pct", "%"),
            ("age of model", "age", "aom_ms", "ms"),
        ):
            beside, group = Beside("FIFO", fifo[key]), f"{case}: {short}"
            section.figure(f"{case}: {what}", olaf[key], unit, beside, group=group, label="Olaf")
    _add_operations(section, found)


def _add_operations(section: Section, found: dict[str, Any]) -> None:
    """What an operation of the queue costs, with sums and with means."""
    for key, what in (("ns", "sums"), ("ns_mean", "means")):
        rows = found[key]
        for row in rows:
            case = f"{row['clusters']} clusters, {row['queue_len']} segments, {what}"
            section.figure(
                f"{case}: enqueue and dequeue", row["enqueue_dequeue_ns"], "ns",
                Beside("bare add", row["bare_add_ns"]),
                group=f"an operation of the queue, {what}", label=case,
            )  # fmt: skip
        # What the queue itself costs, without the add: the same at every size, but for the memory that the
        # payloads lie in.
        least, most = (
            f"{row['clusters']} clusters in {row['queue_len']} segments" for row in (rows[0], rows[-1])
        )
        beside = Beside(least, rows[0]["on_top_ns"])
        name = f"{most}, {what}: on top of the add"
        section.figure(name, rows[-1]["on_top_ns"], "ns", beside, goal=Goal(at_most=1.15))
