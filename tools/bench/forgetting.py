"""Forgetting one user of many in a workflow with every kind of store: seconds, and what is left in the raw files."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import devmem
from devmem import Workflow
from tools.bench.rows import JsonFile, Row, report
from tools.forgetting_team import WORDS, fill_team, left_in_files, make_team, words_of_user


def command(
    users: Annotated[int, typer.Option(min=2, help="Number of users.")] = 1_000,
    json_file: JsonFile = None,
) -> None:
    """Measure what forgetting one user costs, and search the raw files for the words that only this user had.

    Exits with 1 when a word is left, or when a word of another user is gone.
    """
    rows = list(run(users))
    report(rows, json_file)
    if any(row.value for row in rows if row.metric in ("words_left", "words_of_others_lost", "not_reached")):
        raise typer.Exit(1)


def run(users: int) -> Iterator[Row]:
    """Fill a workflow, and forget its first user."""
    names = [f"user{number:05}" for number in range(users)]
    gone, stays = names[0], names[1]
    with tempfile.TemporaryDirectory(prefix="devmem-forgetting-") as folder:
        workflow = make_team(Path(folder) / "team")
        fill_team(workflow, names, rich=names[:2])
        case = f"{users}_users"

        def row(metric: str, value: float, unit: str) -> Row:
            return Row(bench="forgetting", case=case, metric=metric, value=value, unit=unit)

        yield row("disk_bytes", sum(f.stat().st_size for f in workflow.base_dir.rglob("*") if f.is_file()), "bytes")
        yield row("words_before", _count(workflow, gone), "count")
        started = time.perf_counter()
        planned = devmem.forget(workflow, user=gone, dry_run=True)
        yield row("dry_run", 1000 * (time.perf_counter() - started), "ms")
        started = time.perf_counter()
        receipt = devmem.forget(workflow, user=gone)
        yield row("forget", 1000 * (time.perf_counter() - started), "ms")
        yield row("items_planned", planned.items, "count")
        yield row("items_forgotten", receipt.items, "count")
        yield row("stores", len(receipt.stores), "count")
        yield row("files_reached", sum(len(part.reached) for part in receipt.stores) + len(receipt.reached), "count")
        yield row("not_reached", len(receipt.left), "count")
        yield row("words_left", _count(workflow, gone), "count")
        yield row("words_of_others_lost", WORDS - _count(workflow, stays), "count")


def _count(workflow: Workflow, user: str) -> int:
    """Return the number of a user's words that are in the raw files."""
    found = left_in_files(workflow.base_dir, words_of_user(user))
    return len({word for words in found.values() for word in words})
