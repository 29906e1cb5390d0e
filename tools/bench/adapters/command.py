"""The command: `python -m tools.bench adapters`."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from tools.bench.adapters.operations import OPERATIONS
from tools.bench.rows import JsonFile, Row, report
from tools.bench.speed.processes import ROOT

_FIRST: Final = ("put", "search")


def adapters(
    names: Annotated[list[str] | None, typer.Argument(help=f"Adapters: {', '.join(OPERATIONS)}.")] = None,
    envs: Annotated[Path, typer.Option(help="Folder with the environments that `make test-hosts` makes.")] = Path(
        "build/hosts"
    ),
    items: Annotated[int, typer.Option(min=0, help="Items in the memory before it is measured.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Puts, and searches, that are measured.")] = 300,
    json_file: JsonFile = None,
) -> None:
    """Measure a put and a search through each adapter, in turns with the store itself; without an embedding model.

    Each adapter runs in the environment of its framework; one without an environment is left out, and named. ChatDev
    is not a package: its folder has to be on PYTHONPATH.
    """
    if unknown := set(names or ()) - OPERATIONS.keys():
        raise typer.BadParameter(f"{sorted(unknown)[0]!r} is no adapter; there are {', '.join(OPERATIONS)}")
    rows: list[Row] = []
    console = Console(stderr=True, highlight=False)
    failed = False
    for name in names or OPERATIONS:
        python = envs.resolve() / name / "venv/bin/python"
        if not python.is_file():
            console.print(f"{name}: left out, no environment; make test-hosts HOSTS={name} makes it", soft_wrap=True)
            continue
        done = _run(name, python, items, rounds)
        if done.returncode:
            console.print(f"{name}: {done.stderr.strip()[-1_000:]}", markup=False, soft_wrap=True)
            failed = True
            continue
        rows.extend(_rows(name, json.loads(done.stdout.strip().splitlines()[-1])))
    report(rows, json_file)
    raise typer.Exit(1 if failed or not rows else 0)


def _run(name: str, python: Path, items: int, rounds: int) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory(prefix="devmem-bench-") as folder:
        command = [str(python), "-m", "tools.bench.adapters.measured", name, str(items), str(rounds), folder]
        paths = [str(ROOT), str(ROOT / "stores"), os.environ.get("PYTHONPATH", "")]
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def _rows(name: str, figures: dict[str, float]) -> Iterator[Row]:
    for key, value in figures.items():
        yield Row(bench="adapters", case=name, metric=key, value=value, unit="ms")
    for first in _FIRST:
        if f"{first}_p50" in figures:
            ratio = figures[f"{first}_p50"] / figures[f"store_{first}_p50"]
            yield Row(bench="adapters", case=name, metric=f"{first}_to_store", value=ratio, unit="ratio")
