"""The cost of a packet with more jobs, more workers per job, more slots."""

import sweep
from context import Context
from figure import Section

TITLE = "Scale: what a packet costs with more jobs, workers and slots"


def measure(context: Context, section: Section) -> None:
    """Parts of `pascaline-lab bench pool --sweep`; quick is without slots, which fill gigabytes of memory."""
    section.notes.append(
        "ns per packet of the pool beside the bare add of the same payloads, with more of one thing and "
        "everything else the same. The"
        " requirement is on the dearest case beside the cheapest, for jobs that take turns in windows of 32 "
        "PSNs and for those that do PSN by PSN;"
        " slots may cost a cache miss per line touched once they leave the caches, as measured after as "
        "many bytes."
    )
    parts = ("jobs", "workers") if context.options.quick else ("jobs", "workers", "slots")
    sweep.measure(context, section, parts, context.pick(4000, 1000), ("jobs", "in_a_row", "fan_in", "slots"))
