"""The command: `python -m tools.bench NAME ... [--json FILE]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.bench import store
from tools.bench.rows import Row, print_table, write_json

_BENCHES: dict[str, Callable[[], Iterable[Row]]] = {"store": store.run}


def main(
    names: Annotated[list[str], typer.Argument(help=f"What to measure: {', '.join(_BENCHES)}.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")] = None,
) -> None:
    """Measure devmem on this machine, side by side with what it is compared to."""
    console = Console()
    unknown = [name for name in names if name not in _BENCHES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}; possible: {', '.join(_BENCHES)}")
    rows: list[Row] = []
    for name in names:
        with console.status(f"measuring {name}"):
            rows += _BENCHES[name]()
    print_table(rows, console)
    if json_file is not None:
        write_json(rows, json_file)


if __name__ == "__main__":
    typer.run(main)
