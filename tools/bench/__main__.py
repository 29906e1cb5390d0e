"""The command: `python -m tools.bench NAME ... [--json FILE]`; `file_store` may be followed by folders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tools.bench import file_store, messages, store
from tools.bench.rows import Row, print_table, write_json

_BENCHES: dict[str, Callable[[], Iterable[Row]]] = {
    "store": store.run,
    "file_store": file_store.run,
    "messages": messages.run,
}


def main(
    names: Annotated[list[str], typer.Argument(help=f"What to measure: {', '.join(_BENCHES)}.")],
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")] = None,
) -> None:
    """Measure devmem on this machine, side by side with what it is compared to."""
    console = Console()
    takes_paths = "file_store" in names
    paths = [Path(name) for name in names if takes_paths and name not in _BENCHES and Path(name).is_dir()]
    names = [name for name in names if Path(name) not in paths]
    unknown = [name for name in names if name not in _BENCHES]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r}; possible: {', '.join(_BENCHES)}")
    rows: list[Row] = []
    for name in names:
        with console.status(f"measuring {name}"):
            rows += file_store.run(paths) if name == "file_store" else _BENCHES[name]()
    print_table(rows, console)
    if json_file is not None:
        write_json(rows, json_file)


if __name__ == "__main__":
    typer.run(main)
