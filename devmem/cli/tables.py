"""Tables on a terminal, and as lines for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

_LEAST_TEXT: Final = 40
"""Columns of the terminal that the text of a table gets at least."""
_GAP: Final = 3
"""Columns of the terminal between two cells."""


def arranged(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str]) -> Group:
    """Return a table of the rows for a terminal, or a list of them where it would be too narrow.

    The last column holds the text, which may be of any length. Columns without any content are left out.

    Args:
        console: the terminal.
        head: names of the columns.
        rows: cells, each on one line.
        numbers: names of the columns that are aligned to the right.
    """
    kept = [at for at in range(len(head)) if not rows or any(row[at] for row in rows)]
    names = [head[at] for at in kept]
    cells = [[row[at] for at in kept] for row in rows]
    fixed = sum(max(cell_len(line[at]) for line in [names, *cells]) + _GAP for at in range(len(names) - 1))
    longest = max((cell_len(row[-1]) for row in cells if row), default=0)
    if console.width - fixed - _GAP >= min(_LEAST_TEXT, longest):
        return Group(_table(names, cells, numbers))
    has_text = len(head) - 1 in kept
    return Group(*(line for row in cells for line in _entry(names, row, has_text=has_text)))


def _table(names: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[str]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        justify: JustifyMethod = "right" if name in numbers else "left"
        table.add_column(name, overflow="fold", justify=justify, no_wrap=name != names[-1])
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _entry(names: Sequence[str], row: Sequence[str], *, has_text: bool) -> list[RenderableType]:
    """Return one row as a list: its first cell as the heading, the others named, the text of the last below them."""
    end = len(row) - 1 if has_text else len(row)
    named = [f"{name} {cell}" for name, cell in zip(names[1:end], row[1:end], strict=True) if cell]
    heading = Text(row[0], style="bold")
    if named:
        heading.append("  " + "  ".join(named), style="not bold")
    text = [Padding(Text(row[-1]), (0, 0, 0, 3))] if has_text and len(row) > 1 and row[-1] else []
    return [heading, *text]


def plain_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table for programs: a row is a line, of any length."""
    lines = [head, *rows]
    widths = [max(cell_len(line[at]) for line in lines) for at in range(len(head))]
    padded = (
        [cell + " " * (width - cell_len(cell)) for cell, width in zip(line, widths, strict=True)] for line in lines
    )
    return ["  ".join(cells).rstrip() for cells in padded]
