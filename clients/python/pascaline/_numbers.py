"""Numbers that programs pass, and how large they may be."""

from __future__ import annotations

import operator
from typing import Any

from .errors import ArgumentError

_SHORT, _WORD, _LONG = 2**16 - 1, 2**32 - 1, 2**64 - 1
# Arguments that are not given are left to the worker's own defaults.
MOST = {
    "job": _SHORT,
    "rank": _SHORT,
    "ranks": _SHORT,
    "streams": _SHORT,
    "payload": _SHORT,
    "in_flight": _SHORT,
    "spread": _SHORT,
    "udp_ports": _SHORT,
    "dscp": 63,
    "outstanding": _SHORT,
    "root": _SHORT,
    "layer": _WORD,
    "layers": _WORD,
    "seed": _LONG,
    "counts": _LONG,
    "elements": _LONG,
}


def checked(**numbers: Any) -> None:
    """Raises ArgumentError for values that are no number or out of range. None means not given."""
    for name, value in numbers.items():
        try:
            fits = value is None or 0 <= operator.index(value) <= MOST[name]
        except TypeError:
            fits = False
        if not fits:
            raise ArgumentError(f"{name}={value!r}: a whole number from 0 to {MOST[name]}")
