"""Numbers of the command line, as argparse reads them: anything else ends the script with exit code 2."""

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30}


def size(text: str) -> int:
    """A number of bytes such as 65536, 64KiB or 16MiB."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?I?)B?", text.strip().upper())
    if not match or match.group(2) not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: write 65536, 64KiB or 16MiB")
    return int(match.group(1)) * _UNITS[match.group(2)]


def between(low: int, high: int) -> Callable[[str], int]:
    """Reads whole numbers from `low` to `high`."""

    def number(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not between {low} and {high}")
        return int(text)

    return number


def real(low: float, high: float, *, above: bool = False) -> Callable[[str], float]:
    """Reads numbers from `low` to `high`; `above`: larger than `low`."""

    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (above and value == low):
            begins = "above" if above else "from"
            raise argparse.ArgumentTypeError(f"{text!r} is not {begins} {low:g} and up to {high:g}")
        return value

    return number


percent = real(0, 100)


def loads(text: str) -> tuple[float, ...]:
    """Multiples of what a line carries, with commas between, the least first."""
    try:
        found = tuple(sorted({float(word) for word in text.split(",")}))
    except ValueError:
        found = ()
    if not found or not all(0.1 <= load <= 50 for load in found):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers between 0.1 and 50 with commas between")
    return found


def reading(usual: Any, read: Any, about: str, shown: str = "") -> dict[str, Any]:
    """The arguments of argparse for an option, except its default, which the help names.

    `read` is bool for a flag, a tuple of choices, or what argparse calls a type; `shown` is its argument.
    """
    if read is bool:
        return {"action": "store_true", "help": about}
    told: dict[str, Any] = {"help": f"{about} ({_words(usual, read)})" if usual else about}
    if shown:
        told["metavar"] = shown
    if isinstance(read, tuple):
        return {**told, "choices": read, "type": type(read[0])}
    return {**told, "type": read}


def _words(usual: Any, read: Any) -> str:
    if read is size:
        return f"{usual >> 20}MiB"
    if isinstance(usual, tuple):
        return ",".join(f"{value:g}" for value in usual)
    if isinstance(usual, Path) and usual.is_relative_to(_ROOT):
        return str(usual.relative_to(_ROOT))
    return f"{usual:g}" if isinstance(usual, float) else str(usual)
