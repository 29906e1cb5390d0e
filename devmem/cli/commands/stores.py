"""`devmem stores`: the installed store types, or the stores of a workflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from devmem.cli.describe import size_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, load, location_of, make, open_files, shown_store, why_empty
from devmem.collections import file_of
from devmem.config import Workflow
from devmem.errors import DevmemError
from devmem.recording.waiting import REFUSED, journal_folder, waiting_records
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase

_TYPE_COLUMNS = ("type", "provided by", "summary")
_STORE_COLUMNS = ("store", "type", "items", "waiting", "size", "embedding", "location")


def stores(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A workflow; without one, the types are listed.")
    ] = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """List the store types, or a workflow's stores.

    Of each store it shows the number of items, its size, embedding model and location. Items that wait for their
    embedding are found by their words; recorded interactions that wait in a journal are not in the store yet. No file
    is created.

    Examples:
        devmem stores configs/demo/team.yaml --session demo
    """
    terminal: Terminal = ctx.obj
    if file is None:
        rows = _types()
        columns: tuple[str, ...] = _TYPE_COLUMNS
    else:
        workflow = load(terminal, file)
        rows = [_store(terminal, workflow, store.name, store.type, session) for store in workflow.memory]
        columns = _STORE_COLUMNS
    if as_json:
        terminal.json(rows)
    else:
        shown = [[_shown(column, row) for column in columns] for row in rows]
        terminal.table(columns, shown, numbers=("items", "waiting", "size"))
        for note in (note for row in rows for note in _notes(row)):
            terminal.report("warning", note)
    if any(row["error"] for row in rows):
        raise typer.Exit(EXIT_PARTLY)


def _types() -> list[dict[str, Any]]:
    from devmem.registry import registry

    rows = []
    for name in registry.names():
        row: dict[str, Any] = {"type": name, "provided by": registry.owner(name), "summary": None, "error": None}
        try:
            row["summary"] = registry.summary(name)
        except DevmemError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def _store(terminal: Terminal, workflow: Workflow, name: str, store_type: str, session: str) -> dict[str, Any]:
    row: dict[str, Any] = {"store": name, "type": store_type, **dict.fromkeys((*_STORE_COLUMNS[2:], "error"))}
    try:
        store = make(workflow, name, session)
        row |= {"journals": _journals(location_of(store))}
        if why_empty(store):
            return row | {"items": 0, "waiting": 0, "size": 0, "location": _location(store)}
        try:
            open_files(terminal, store)
            info = store.info()
        finally:
            store.close()
    except DevmemError as error:
        return row | {"error": str(error)}
    return row | {
        "items": info.items,
        "waiting": info.waiting,
        "size": info.size_bytes,
        "embedding": info.embedding,
        "location": info.location,
        "mode": info.mode,
    }


def _location(store: MemoryBase) -> str:
    location = location_of(store)
    if location is None:
        return "this process"
    return location if file_of(location) is not None else shown_store(location, store.name)


def _journals(location: str | None) -> dict[str, Any] | None:
    """Return what is recorded and waits beside a store's file; None when nothing does."""
    if location is None or "://" in location:
        return None
    try:
        waiting = waiting_records(journal_folder(location))
    except OSError as error:
        raise CommandError(f"{journal_folder(location)} cannot be read: {error.strerror or error}") from error
    if not waiting.waiting_bytes and not waiting.refused:
        return None
    return {
        "folder": str(waiting.folder),
        "waiting_bytes": waiting.waiting_bytes,
        "abandoned": waiting.abandoned,
        "refused": waiting.refused,
    }


def _notes(row: dict[str, Any]) -> Iterator[str]:
    journals = row.get("journals")
    if journals is None:
        return
    where = f"memory store {row['store']!r}: {journals['folder']} has"
    if journals["waiting_bytes"]:
        size = size_text(journals["waiting_bytes"])
        yield f"{where} {size} of recorded interactions that wait; the next recorder of this store sends them"
    if journals["refused"]:
        yield f"{where} records that the store refused ({journals['refused']:,}), in {REFUSED}"


def _shown(column: str, row: dict[str, Any]) -> str:
    value = row[column]
    if value is None:
        return f"cannot be used: {row['error']}" if row["error"] and column in ("summary", "location") else ""
    if column == "location" and row.get("mode"):
        return f"{value} ({row['mode']})"
    return size_text(value) if column == "size" else f"{value:,}" if isinstance(value, int) else str(value)
