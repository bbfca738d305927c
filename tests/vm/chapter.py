"""The commands of docs/operating.md, as they stand there: the guest runs what an operator reads."""

from __future__ import annotations

import re
from functools import cache

from process import Failure

from ..bed import ROOT

_DOCUMENT = ROOT / "docs/operating.md"
_FENCE = re.compile(r"^ *```(?P<kind>\w+)\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)
_NIC, _BARE = "On a physical NIC", "Without an IOMMU"
# What differs from machine to machine.
_ADDRESS, _CARD = "--address 10.77.0.254", "0000:01:00.0"


@cache
def _blocks(heading: str, kind: str) -> list[list[str]]:
    """The lines of each fenced block of a kind, below a heading and above the next one."""
    text = _DOCUMENT.read_text()
    found = re.search(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    blocks = [match for match in _FENCE.finditer(found[1] if found else "") if match["kind"] == kind]
    if not blocks:
        raise Failure(f"{_DOCUMENT.name} has no block of {kind} below {heading!r}")
    return [[line.strip() for line in match["text"].splitlines()] for match in blocks]


def iommu() -> list[str]:
    """What the kernel's command line has."""
    return _blocks(_NIC, "text")[0][0].split()


def prepare() -> list[str]:
    """What a machine needs before its first card."""
    hugepages, driver, *_ = _blocks(_NIC, "sh")
    return hugepages + driver


def bind(card: str) -> list[str]:
    """How a card is taken from the kernel."""
    return _for_card(_blocks(_NIC, "sh")[2], card)


def start(addresses: list[str]) -> list[str]:
    """How a card that is bound gets its appliance."""
    options = " ".join(f"--address {address}" for address in addresses)
    return [line.replace(_ADDRESS, options) for line in _blocks(_NIC, "sh")[3]]


def without_iommu(card: str) -> list[str]:
    """How a card is bound on a machine without an IOMMU."""
    return _for_card(_blocks(_BARE, "sh")[0], card)


def _for_card(lines: list[str], card: str) -> list[str]:
    named = [line.replace(_CARD, card) for line in lines]
    if named == lines and card != _CARD:
        raise Failure(f"no line names {_CARD}: {lines}")
    return named
