"""Chooses the Scapy to import: TRex's own, where TRex is installed.

TRex's client needs the Scapy that it brings along (2.4.3, in `external_libs` beside `automation`); with a
newer one imported first it ends with "cannot import name 'orb' from 'scapy.compat'". The profiles and the
runner need a Scapy as well, and import it before TRex's client could choose.
"""

from __future__ import annotations

import sys
from pathlib import Path

_INTERACTIVE = ("automation", "trex_control_plane", "interactive")


def prefer_trex(path: list[str]) -> str | None:
    """Puts TRex's Scapy before any other, if `path` (as in PYTHONPATH) leads to TRex's client.

    Returns the folder; none if there is no TRex in the path, or it brings none.
    """
    for entry in path:
        place = Path(entry).absolute()
        if place.parts[-3:] != _INTERACTIVE:
            continue
        # The newest last; a release has one.
        for found in sorted(place.parents[2].glob("external_libs/scapy-*"), reverse=True):
            if (found / "scapy").is_dir():
                path.insert(0, str(found))
                return str(found)
    return None


prefer_trex(sys.path)
