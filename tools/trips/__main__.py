"""The command: `python -m tools.trips [PAGE] [--mermaid | --write | --check] [--sizes] [--first-use] [--json FILE]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tools.bench.rows import JsonFile, Row, print_table, write_json
from tools.trips.pictures import PageError, outdated, picture_of, with_pictures
from tools.trips.recorder import Trip
from tools.trips.scenario import TITLES, record_trips
from tools.trips.sizes import first_use, sizes

_PAGE: Final = Path("docs/architecture.md")

app = typer.Typer()


@app.command(help="Follow seven operations through devmem; without options, print a table of what they pass.")
def command(
    page: Annotated[Path, typer.Argument(help="Page with the pictures.")] = _PAGE,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Print the pictures.")] = False,
    write: Annotated[bool, typer.Option("--write", help="Renew the pictures in the page.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if the page's pictures are out of date.")] = False,
    with_sizes: Annotated[bool, typer.Option("--sizes", help="Print the size of the code.")] = False,
    with_first_use: Annotated[
        bool, typer.Option("--first-use", help="Measure a first search and a first addition.")
    ] = False,
    json_file: JsonFile = None,
) -> None:
    """Do what the options ask for."""
    if mermaid + write + check > 1:
        raise typer.BadParameter("--mermaid, --write and --check exclude one another")
    rows: list[Row] = []
    drawn = mermaid or write or check
    if drawn or not (with_sizes or with_first_use):
        trips = record_trips()
        rows += _rows(trips)
        if drawn:
            _draw({trip.name: picture_of(trip) for trip in trips}, None if mermaid else page, write=write)
        else:
            print_table(rows, Console())
    measured = [*(sizes() if with_sizes else ()), *(first_use() if with_first_use else ())]
    print_table(measured, Console())
    if json_file is not None:
        write_json(rows + measured, json_file)


def _rows(trips: list[Trip]) -> list[Row]:
    return [
        Row(bench="trips", case=trip.name, metric=metric, value=value, unit="count")
        for trip in trips
        for metric, value in trip.figures().items()
    ]


def _draw(pictures: Mapping[str, str], page: Path | None, *, write: bool) -> None:
    """Print the pictures, or write them into a page, or compare them with it."""
    if page is None:
        for name, picture in pictures.items():
            print(f"{TITLES[name]}\n\n{picture}\n")
        return
    try:
        text = page.read_text(encoding="utf-8")
        old = outdated(text, pictures)
        if write:
            page.write_text(with_pictures(text, pictures), encoding="utf-8")
    except (PageError, OSError) as error:
        typer.echo(f"{page}: {error}", err=True)
        raise typer.Exit(1) from error
    if old and not write:
        typer.echo(f"{page}: out of date: {', '.join(old)}; run `python -m tools.trips --write {page}`", err=True)
        raise typer.Exit(1)
    print(f"{page}: {'renewed: ' + ', '.join(old) if old else f'{len(pictures)} pictures are up to date'}")


if __name__ == "__main__":
    app()
