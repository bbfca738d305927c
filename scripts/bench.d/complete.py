"""Judges a quick report without peers: `complete.py FILE`, whose last line is the report's JSON.

Every figure named here must be there, with a number that is not absurd, and nothing may have failed. Times
are not judged, memory is.
"""

import json
import math
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))

from appliance_shaped import has_af_xdp
from sections import ends

_UNSHAPED = ("1500, offloads off", "1500, offloads on", "9000, offloads on")
_ARRIVALS = (
    "poisson arrivals",
    "periodic arrivals",
    "locked arrivals",
    *(f"bursts arrivals in bursts of {packets}" for packets in (1, 2, 5, 10, 20, 50)),
    "trains arrivals in bursts of 128",
)
# Shares and differences may be 0.
_MAY_BE_NOTHING = (": lost", ": on top of the add")
# Nothing is faster than the links; a shaper's bucket lets a sixth of 40 KiB pass at once.
_MOST_OF_LINKS = 1.5
WITH_AF_XDP = {
    "host": ("DPDK, net_af_xdp: payload, each way at the same time", "DPDK, net_af_xdp: CPU time"),
    "ends": ("af_xdp: packets each way",),
}
FIGURES: dict[str, tuple[str, ...]] = {
    "host": (
        "kernel UDP: payload, each way at the same time",
        "kernel UDP: CPU time",
        "bare sockets with GSO and GRO, one way: received of what was sent",
        "DPDK, net_memif: payload, each way at the same time",
        "DPDK, net_memif: CPU time",
    ),
    "allreduce": tuple(f"N = 4, {size}, 100 Mbit/s: Pascaline" for size in ("40 KiB", "1 MiB", "4 MiB")),
    "olaf": (
        *(
            f"{arrivals}, {gbps} Gbit/s: {what}"
            for arrivals, gbps, what in product(_ARRIVALS, (40, 20, 5), ("lost", "age of model"))
        ),
        *(
            f"{clusters} clusters, {segments} segments, {what}: enqueue and dequeue"
            for clusters, segments, what in product((8, 65536), (8, 4096), ("sums", "means"))
        ),
        *(f"65536 clusters in 4096 segments, {what}: on top of the add" for what in ("sums", "means")),
    ),
    "memory": (
        *(
            f"{slots} slots: {what}"
            for slots, what in product((4096, 65536), ("resident", "the pool's own, per slot"))
        ),
        "a slot more: resident",
    ),
    "ends": (
        "kernel driver: CPU time",
        "kernel driver: payload, each way at the same time",
        "2 workers, 8 MiB of f32, 100 Mbit/s: as mxint8",
        "2 workers, 8 MiB of f32, 100 Mbit/s: as mxfp8",
        "memif: packets each way",
        *(
            f"4 workers, 16 MiB, MTU {case}: {name}"
            for case, name in product(_UNSHAPED, ("Pascaline", "Pascaline, results by multicast"))
        ),
    ),
}


def wrong(said: dict[str, Any], *, af_xdp: bool) -> Iterator[str]:
    yield from (f"not measured: {failure}" for failure in said["failures"])
    sections = {section["name"]: section for section in said["sections"]}
    for name, wanted in FIGURES.items():
        if name not in sections:
            yield f"{name}: no such section"
            continue
        figures = {figure["name"]: figure for figure in sections[name]["figures"]}
        for figure in (*wanted, *(WITH_AF_XDP.get(name, ()) if af_xdp else ())):
            if figure not in figures:
                yield f"{name}: {figure}: not there"
        yield from (f"{name}: {what}" for figure in figures.values() for what in _absurd(name, figure))
    last = sections.get("ends", {}).get("raw", {}).get("last line", {})
    yield from (f"ends, last line: {key} is {last.get(key)}" for key in keys(af_xdp) if not last.get(key))


def keys(af_xdp: bool) -> list[str]:
    """Keys of the last line of `ends` without Gloo and, as with --quick, without calls."""
    without = ("gloo", "call_us") if af_xdp else ("gloo", "call_us", "af_xdp")
    return [key for key in ends.KEYS if not any(word in key for word in without)]


def _absurd(section: str, figure: dict[str, Any]) -> Iterator[str]:
    name, value, ratio = figure["name"], figure["value"], figure["ratio"]
    numbers = [number for number in (value, ratio) if number is not None]
    if value is None or not all(math.isfinite(number) for number in numbers):
        yield f"{name} is {value}, ratio {ratio}"
    elif value <= 0 and not name.endswith(_MAY_BE_NOTHING):
        yield f"{name} is {value}"
    elif section == "allreduce" and not 0 < ratio < _MOST_OF_LINKS:
        yield f"{name}: {ratio} of what the links allow"
    elif section == "memory" and figure["met"] is False:
        yield f"{name}: {ratio}, wanted {figure['goal']}"


def main(file: str) -> int:
    """Exit code 0 if nothing is wrong. The last line of the file is what `scripts/bench --json` printed."""
    found = list(wrong(json.loads(Path(file).read_text().splitlines()[-1]), af_xdp=has_af_xdp()))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
