"""Sums as docs/reproducible.md defines them, bit by bit, and inputs that tell one order from another.

Payloads are bytes in little endian, as libpascaline takes them on the machines that it runs on.
"""

from __future__ import annotations

import array
import math
import random
import struct
import sys
from collections.abc import Sequence
from functools import reduce

assert sys.byteorder == "little"

# Largest exponents of the inputs: sums of three lose bits in nearly every element.
_SPREAD = 12


def uneven(ranks: int, elements: int, seed: int, code: str = "f") -> list[bytes]:
    """For each rank, numbers of very different magnitudes; `code` as of `array`: binary32 or binary64."""
    numbers = random.Random(seed)

    def number() -> float:
        return numbers.uniform(-1, 1) * 2.0 ** numbers.randint(-_SPREAD, _SPREAD)

    return [array.array(code, (number() for _ in range(elements))).tobytes() for _ in range(ranks)]


def f32(values: Sequence[bytes]) -> bytes:
    """((x₀ + x₁) + x₂) + …, rounded to binary32 after each addition.

    A sum of two is made in binary64 first. Rounding it a second time changes nothing: 53 bits are at least
    twice 24, and two.
    """
    return _plain("f", values)


def f64(values: Sequence[bytes]) -> bytes:
    """The same in binary64."""
    return _plain("d", values)


def _plain(code: str, values: Sequence[bytes]) -> bytes:
    def add(left: array.array[float], right: array.array[float]) -> array.array[float]:
        return array.array(code, map(float.__add__, left, right))

    addends: list[array.array[float]] = [array.array(code, value) for value in values]
    return reduce(add, addends).tobytes()


def bf16(values: Sequence[bytes]) -> bytes:
    """The elements as binary32, added as these are, and rounded once."""
    return narrowed(f32([_widened(value) for value in values]))


def narrowed(wide: bytes) -> bytes:
    """Finite binary32 as bfloat16, to nearest, from halfway to even."""
    words = array.array("I", wide)
    return array.array("H", ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in words)).tobytes()


def negated(narrow: bytes) -> bytes:
    """Of bfloat16."""
    return array.array("H", (half ^ 0x8000 for half in array.array("H", narrow))).tobytes()


def _widened(narrow: bytes) -> bytes:
    return array.array("I", (half << 16 for half in array.array("H", narrow))).tobytes()


def exponent(largest: float, ranks: int) -> int:
    """The largest k for which the sum of this many numbers, each times 2 to the k, fits into 32 bits."""
    room = (2**31 - 1) / ranks - 0.5
    return math.frexp(room / largest)[1] - 1


def fixed(values: bytes, k: int) -> bytes:
    """Each binary32 times 2 to the k, as the nearest 32-bit integer."""
    return array.array("i", (round(value * 2.0**k) for value in array.array("f", values))).tobytes()


def i32(values: Sequence[bytes]) -> bytes:
    """The exact sum, which has to fit."""
    return array.array(
        "i", map(sum, zip(*(array.array("i", value) for value in values), strict=True))
    ).tobytes()


def largest_magnitude(values: bytes) -> bytes:
    """One binary32."""
    return struct.pack("<f", max(map(abs, array.array("f", values))))
