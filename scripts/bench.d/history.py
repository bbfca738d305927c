#!/usr/bin/env python3
"""The packet path's history: a picture of the table in docs/performance.md.

Usage: scripts/bench.d/history.py [--check]

Writes docs/pictures/packet-path.svg; with --check it fails if the picture differs from the table.
"""

import re
import sys
from pathlib import Path

from picture import page, text

_ROOT = Path(__file__).resolve().parents[2]
_TABLE = _ROOT / "docs" / "performance.md"
_PICTURE = _ROOT / "docs" / "pictures" / "packet-path.svg"
_HEAD = re.compile(r"^\| commit \| of \|(.+)\|$", re.MULTILINE)
_COLOURS = ("#2b6cb0", "#c05621", "#d69e2e", "#2f855a", "#6b46c1")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 360, 50, 190, 40, 60


def read(table: str) -> tuple[list[str], list[tuple[str, list[float | None]]]]:
    """The figures' names, and each commit with its values; none for what was not measured."""
    head = _HEAD.search(table)
    if not head:
        sys.exit(f"{_TABLE} has no table with the columns commit and of")
    names = [name.strip() for name in head[1].split("|")]
    rows = []
    for line in table[head.end() :].strip().splitlines()[1:]:
        cells = [cell.strip(" *`") for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != len(names) + 2:
            break
        rows.append((cells[0], [float(cell) if cell else None for cell in cells[2:]]))
    return names, rows


def svg(names: list[str], rows: list[tuple[str, list[float | None]]]) -> str:
    """A line for each figure, over the commits."""
    known = [value for _, values in rows for value in values if value is not None]
    low, high = min([*known, 0.9]) - 0.05, max([*known, 1.0]) + 0.05
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(rows) - 1)

    def place(at: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low)
        return _LEFT + at * step, _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [text(10, 20, "Packets/s of one core, by commit, over those of the first", size=15)]
    for tenth in range(int(low * 10) + 1, int(high * 10) + 1):
        _, y = place(0, tenth / 10)
        colour = "#718096" if tenth == 10 else "#e2e8f0"
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="{colour}"/>')
        parts.append(text(_LEFT - 8, y + 4, f"{tenth / 10:.1f}", anchor="end"))
    for at, (commit, _) in enumerate(rows):
        x, _ = place(at, low)
        parts.append(text(x, _HEIGHT - _BOTTOM + 20, commit, anchor="middle"))
    for number, name in enumerate(names):
        colour = _COLOURS[number % len(_COLOURS)]
        values = [(at, values[number]) for at, (_, values) in enumerate(rows)]
        points = [place(at, value) for at, value in values if value is not None]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = _TOP + 20 * number
        parts.append(f'<rect x="{_WIDTH - _RIGHT + 20}" y="{y}" width="12" height="12" fill="{colour}"/>')
        parts.append(text(_WIDTH - _RIGHT + 38, y + 10, name))
    return page(_WIDTH, _HEIGHT, parts)


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    picture = svg(*read(_TABLE.read_text()))
    if not arguments:
        _PICTURE.write_text(picture)
    elif _PICTURE.read_text() != picture:
        sys.exit("docs/pictures/packet-path.svg is not of today's table: run scripts/bench.d/history.py")


if __name__ == "__main__":
    main(sys.argv[1:])
