"""The command: `python -m tools.mutants [--list] [--json FILE] [NAME ...]`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from tools.bench.rows import JsonFile, Row, write_json
from tools.mutants.access import ACCESS
from tools.mutants.change import Change
from tools.mutants.storage import STORAGE
from tools.wheel import copy_project

CHANGES: Final[tuple[Change, ...]] = (*STORAGE, *ACCESS)
_TIMEOUT: Final = 900
"""Seconds that the tests of one change may take; a change that hangs them is noticed."""
_FAILED: Final = 1
"""pytest's exit code where tests ran and some of them failed."""

app = typer.Typer(add_completion=False)


class Verdict(StrEnum):
    """Result of a change."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    INVALID = "invalid"
    """The tests did not run, or the code to change was not found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A change with what the tests made of it."""

    change: Change
    verdict: Verdict
    seconds: float
    detail: str = ""


@contextmanager
def _changed(folder: Path, change: Change) -> Iterator[None]:
    """Have a change applied in the copy while the block runs."""
    file = folder / change.file
    before = file.read_text(encoding="utf-8")
    file.write_text(change.applied_to(before), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(before, encoding="utf-8")


def _run_tests(folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run tests on the copy; return pytest's exit code and the last lines that it printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(folder / "stores")]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        return _FAILED, f"no end within {_TIMEOUT} s"
    return done.returncode, "\n".join(done.stdout.splitlines()[-3:])


def _check_unchanged(folder: Path, changes: Sequence[Change]) -> None:
    """Make sure that the tests pass before anything is changed: each change would seem to be noticed otherwise.

    Raises:
        typer.BadParameter: some of them do not, or there are none.
    """
    code, last = _run_tests(folder, [*dict.fromkeys(test for change in changes for test in change.tests)])
    if code:
        raise typer.BadParameter(f"the tests do not pass without a change:\n{last}")


def _outcome_of(folder: Path, change: Change) -> Outcome:
    started = time.monotonic()
    try:
        with _changed(folder, change):
            code, last = _run_tests(folder, change.tests)
    except ValueError as error:
        return Outcome(change=change, verdict=Verdict.INVALID, seconds=0.0, detail=str(error))
    verdict = {0: Verdict.SURVIVED, _FAILED: Verdict.NOTICED}.get(code, Verdict.INVALID)
    detail = "" if verdict is Verdict.NOTICED else last
    return Outcome(change=change, verdict=verdict, seconds=time.monotonic() - started, detail=detail)


def _chosen(names: Sequence[str]) -> list[Change]:
    by_name = {change.name: change for change in CHANGES}
    if unknown := [name for name in names if name not in by_name]:
        raise typer.BadParameter(f"no change is named {', '.join(unknown)}; --list shows them")
    return [by_name[name] for name in names] if names else list(CHANGES)


def _print(console: Console, outcomes: Iterable[Outcome]) -> None:
    table = Table("change", "verdict", "s", "breaks")
    for one in outcomes:
        table.add_row(one.change.name, one.verdict, f"{one.seconds:.0f}", one.change.breaks)
    console.print(table)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="Changes to try; all of them by default.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the changes and try none.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Break one guarantee at a time and print which changes no test noticed; exit with 1 if there is one."""
    changes, console = _chosen(names or []), Console()
    if listed:
        for change in changes:
            console.print(f"{change.name}: {change.breaks} ({change.file})", highlight=False)
        return
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        copy_project(Path(folder))
        with console.status("without a change") as status:
            _check_unchanged(Path(folder), changes)
            for number, change in enumerate(changes, 1):
                status.update(f"{number} of {len(changes)}: {change.name}")
                outcomes.append(_outcome_of(Path(folder), change))
                if outcomes[-1].verdict is not Verdict.NOTICED:
                    console.print(f"{change.name} {outcomes[-1].verdict}: {outcomes[-1].detail}", highlight=False)
    _print(console, outcomes)
    if json_file is not None:
        counts = {verdict: sum(one.verdict is verdict for one in outcomes) for verdict in Verdict}
        rows = [
            Row(bench="mutants", case="all", metric=verdict.value, value=count, unit="changes")
            for verdict, count in counts.items()
        ]
        write_json(rows, json_file)
    if any(one.verdict is not Verdict.NOTICED for one in outcomes):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
