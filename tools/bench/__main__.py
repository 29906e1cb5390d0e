"""The command: `python -m tools.bench NAME ... [--json FILE]`; some take folders or data files after their name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.bench import file_store, messages, role_zero, store
from tools.bench.rows import Row, print_table, write_json

_BENCHES: dict[str, Callable[[], Iterable[Row]]] = {"store": store.run, "messages": messages.run}
_ON_PATHS: dict[str, Callable[[Sequence[Path]], Iterable[Row]]] = {
    "file_store": file_store.run,
    "role_zero": role_zero.run,
}
"""These take the paths that follow."""


def main(
    names: Annotated[
        list[str],
        typer.Argument(
            help=f"What to measure: {', '.join([*_BENCHES, 'file_store [FOLDER ...]', 'role_zero FILE ...'])}."
        ),
    ],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")] = None,
) -> None:
    """Measure devmem on this machine, side by side with what it is compared to."""
    console = Console()
    known = [*_BENCHES, *_ON_PATHS]
    takes_paths = not _ON_PATHS.keys().isdisjoint(names)
    paths = [Path(name) for name in names if takes_paths and name not in known and Path(name).exists()]
    names = [name for name in names if Path(name) not in paths]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}; possible: {', '.join(known)}")
    rows: list[Row] = []
    for name in names:
        with console.status(f"measuring {name}"):
            rows += _ON_PATHS[name](paths) if name in _ON_PATHS else _BENCHES[name]()
    print_table(rows, console)
    if json_file is not None:
        write_json(rows, json_file)


if __name__ == "__main__":
    typer.run(main)
