"""The flat rows that every benchmark yields, and the table made from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

JsonFile: TypeAlias = Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")]
"""The option that every benchmark has."""
ServerUrl: TypeAlias = Annotated[
    str | None, typer.Option("--url", help="A PostgreSQL database to use instead of a server of its own.")
]

_MOST_CASES: Final = 6
"""Maximum number of columns that fit side by side in a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure. Times are in ms, sizes in bytes, shares from 0 to 1; what does not apply is None and left out."""

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    dataset: str | None = None
    level: str | None = None
    type: str | None = None


def write_json(rows: Sequence[Row], path: Path) -> None:
    """Write the rows as a JSON list."""
    content = [{key: value for key, value in asdict(row).items() if value is not None} for row in rows]
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def report(rows: Sequence[Row], json_file: Path | None) -> None:
    """Print the rows' table, and write them when a file is given."""
    print_table(rows, Console())
    if json_file is not None:
        write_json(rows, json_file)


def print_table(rows: Iterable[Row], console: Console) -> None:
    """Print a table a benchmark: metrics down, cases across; where there are many cases, a table for each `NAME:`."""
    by_bench: dict[str, list[Row]] = {}
    for row in rows:
        by_bench.setdefault(row.bench, []).append(row)
    for bench, found in by_bench.items():
        many = len({row.case for row in found}) > _MOST_CASES
        parts: dict[str, list[Row]] = {}
        for row in found:
            name, colon, _ = row.case.partition(":")
            parts.setdefault(name if many and colon else "", []).append(row)
        for part in parts.values():
            console.print(_table(bench, part))


def _table(title: str, rows: Sequence[Row]) -> Table:
    """Make a table of metrics and cases, or of the cases of one metric and their levels."""
    by_level = all(row.level for row in rows) and len({row.metric for row in rows}) == 1
    keyed = [((row.case, row.level or "") if by_level else (row.metric, row.case), row) for row in rows]
    columns = list(dict.fromkeys(column for (_, column), _ in keyed))
    values = {key: row.value for key, row in keyed}
    table = Table("case" if by_level else "metric", "unit", *columns, title=title)
    for name, unit in dict.fromkeys((name, row.unit) for (name, _), row in keyed):
        shown = [values.get((name, column)) for column in columns]
        table.add_row(name, unit, *("" if value is None else _figure(value) for value in shown))
    return table


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
