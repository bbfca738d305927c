"""Memory: bytes per slot, and a running appliance's memory against the limit of its configuration."""

import re
from pathlib import Path

import shaped
from appliance_shaped import running
from context import Context
from figure import Beside, Goal, Section
from process import Failure, run

TITLE = "Memory: bytes per slot, and a running appliance against what its configuration promises"

_SLOTS = (4096, 65536)
_MEMORY_MB = 1024
# What a process has beside packet buffers and pool, of which nothing is promised: the program, DPDK's tables
# and the port's rings. 51 and 60 MB were seen over net_kernel, which every Linux has.
_BASE_MB = 64
_DEVICE = "net_kernel0,iface=pas0"
_PROMISE = re.compile(r"(\d+) packet buffers of (\d+) bytes, at least (\d+) of \d+ MB")

_NOTE = (
    "The same appliance with few and many slots, on a real port, ready and idle. `pascaline check` "
    "says what packet buffers take, and the appliance what its pool does; the rest is the program, DPDK "
    f"and the port ({_DEVICE}). Without hugepages. Resident: the kernel's VmRSS of the process."
)


def measure(context: Context, section: Section) -> None:
    """Two appliances that differ in their slots alone; what differs in memory is the slots'."""
    section.notes.append(_NOTE)
    used = {}
    for slots in _SLOTS:
        context.stop.check()
        # Where there are hugepages, all of memory_mb would be resident from the start.
        keys = {"slots": slots, "memory_mb": _MEMORY_MB, "hugepages": "no", "device": _DEVICE}
        with shaped.Shaped(1, 0) as network, running(context, network, **keys) as appliance:
            promised = _promise(context.binary, appliance.config)
            pool = int(appliance.scrape().values("pascaline_pool_bytes")[0])
            resident = _resident(appliance.pid)
        used[slots] = {"rss_bytes": resident, "pool_bytes": pool, **promised}
        rest = f"promised packet buffers, the pool, and {_BASE_MB} MiB for the rest"
        limit = Beside(rest, (promised["buffers_bytes"] + pool + _BASE_MB * 2**20) / 1e6)
        section.figure(
            f"{slots} slots: resident", resident / 1e6, "MB", limit,
            goal=Goal(at_most=1.0), group="resident", label=f"{slots} slots",
        )  # fmt: skip
        section.figure(f"{slots} slots: the pool's own, per slot", pool / slots, "bytes")
    section.raw["appliances"] = used
    few, many = (used[slots] for slots in _SLOTS)
    more = _SLOTS[1] - _SLOTS[0]
    per_slot = (many["rss_bytes"] - few["rss_bytes"]) / more
    promised_per_slot = (
        many["buffers_bytes"] + many["pool_bytes"] - few["buffers_bytes"] - few["pool_bytes"]
    ) / more
    beside = Beside("a slot and its packet buffer, as promised", promised_per_slot)
    section.figure(
        "a slot more: resident", per_slot, "bytes", beside,
        goal=Goal(at_most=1.1), group="a slot more", label="resident",
    )  # fmt: skip


def _promise(binary: Path, config: Path) -> dict[str, int]:
    said = run(str(binary), "check", str(config)).stdout
    found = _PROMISE.search(said)
    if not found:
        raise Failure("`pascaline check` does not say how many packet buffers there are", said)
    count, room, least_mb = map(int, found.groups())
    return {"buffers": count, "buffer_room": room, "buffers_bytes": least_mb * 2**20}


def _resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if not found:
        raise Failure("the kernel does not say how much memory the appliance has", status)
    return int(found.group(1)) * 1024
