"""Tables by rich: with colour at a terminal, plain columns in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_PLAIN_COLUMNS = 110


def show(
    headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", file: TextIO | None = None
) -> None:
    """Prints a table; numbers stand to the right."""
    file = file or sys.stdout
    console = Console(file=file, width=None if file.isatty() else _PLAIN_COLUMNS, highlight=False)
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    lines = [[cell if isinstance(cell, int | float) else str(cell) for cell in row] for row in rows]
    for place, heading in enumerate(headings):
        numbers = bool(lines) and all(isinstance(line[place], int | float) for line in lines)
        table.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text(f"{cell:,}" if isinstance(cell, int | float) else cell) for cell in line))
    console.print(table)
