"""Pictures in SVG; of a section's figures, horizontal bars."""

import html
from collections.abc import Iterable
from itertools import groupby

from figure import Figure, Section

_WIDTH = 860
_LABEL = 250
_VALUE = 150
_ROW = 18
_GAP = 30
_OURS, _OTHER, _MISSED = "#2b6cb0", "#a0aec0", "#c05621"


def svg(section: Section) -> str:
    """The section's figures, each above what it is compared with. Each group has a scale of its own."""
    rows: list[str] = []
    y = 44
    for group, found in groupby(
        (figure for figure in section.figures if figure.group), key=lambda figure: figure.group
    ):
        bars = _bars(list(found))
        scale = (_WIDTH - _LABEL - _VALUE) / (max(value for _, value, _, _ in bars) or 1.0)
        rows.append(text(10, y + 4, group, bold=True))
        for label, value, unit, colour in bars:
            y += _ROW
            rows.append(text(_LABEL - 8, y + 4, label, anchor="end"))
            rows.append(
                f'<rect x="{_LABEL}" y="{y - 7}" width="{max(1.0, value * scale):.1f}" height="13" '
                f'fill="{colour}"/>'
            )
            rows.append(text(_LABEL + value * scale + 6, y + 4, f"{number(value)} {unit}"))
        y += _GAP
    return page(_WIDTH, y, [text(10, 20, section.title, size=15, bold=True), *rows])


def number(value: float) -> str:
    """Three significant digits."""
    formats = ((1000, ",.0f"), (100, ".0f"), (10, ".1f"), (1, ".2f"))
    return f"{value:{next((text for least, text in formats if abs(value) >= least), '.3g')}}"


def _bars(figures: list[Figure]) -> list[tuple[str, float, str, str]]:
    bars: list[tuple[str, float, str, str]] = []
    shown: set[tuple[str, float]] = set()
    for figure in figures:
        label = figure.label or figure.name
        if (label, figure.value) not in shown:
            shown.add((label, figure.value))
            bars.append((label, figure.value, figure.unit, _MISSED if figure.met is False else _OURS))
        if figure.beside and (figure.beside.name, figure.beside.value) not in shown:
            shown.add((figure.beside.name, figure.beside.value))
            bars.append((figure.beside.name, figure.beside.value, figure.unit, _OTHER))
    return bars


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 12, bold: bool = False) -> str:
    """Text whose baseline begins, ends or is centred at x, by `anchor`."""
    weight = ' font-weight="bold"' if bold else ""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight}'
    return f"<text {where}>{html.escape(words, quote=False)}</text>"


def page(width: int, height: int, parts: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )
