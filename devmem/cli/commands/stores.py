"""`devmem stores` and `index`: the store types, the stores of a workflow, and those that are made from files."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import (
    AsJson,
    Session,
    StoreAddress,
    WorkflowFile,
    index_with_progress,
    load,
    location_of,
    make,
    plan_text,
    report_text,
    shown_store,
    why_empty,
)
from devmem.cli.terminal import Terminal, size_text
from devmem.config.workflow import Workflow
from devmem.errors import CommandError, DevmemError
from devmem.model.caller import DEFAULT_SESSION
from devmem.recording.forwarder import pending_file, records_in
from devmem.storage.opening import file_of
from devmem.stores.indexing import Indexing, IndexPlan, IndexReport
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of

_TYPE_COLUMNS = ("type", "provided by", "summary")
_STORE_COLUMNS = ("store", "type", "items", "waiting", "size", "embedding", "location")


def stores(
    ctx: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A workflow; without it, the store types are listed.")
    ] = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """List the store types, or a workflow's stores and where they are.

    Shows for each store the number of items, its size, embedding model and location, and the store types that the
    workflow's `plugins:` bring. Items that wait for their embedding are found by their words; recorded interactions
    that wait are not in the store yet. No file is created.

    Examples:
        devmem stores configs/demo/team.yaml --session demo
    """
    from devmem.plugins import registry

    terminal: Terminal = ctx.obj
    installed, types = set(registry.names()), list[dict[str, Any]]()
    if file is None:
        rows = _types()
        columns: tuple[str, ...] = _TYPE_COLUMNS
    else:
        workflow = load(terminal, file)
        rows = [_store(workflow, store.name, store.type, session) for store in workflow.memory]
        columns = _STORE_COLUMNS
        types = [row for row in _types() if row["type"] not in installed]
    if as_json:
        terminal.json(rows)
    else:
        shown = [[_shown(column, row) for column in columns] for row in rows]
        terminal.table(columns, shown, numbers=("items", "waiting", "size"))
        if types:
            terminal.table(_TYPE_COLUMNS, [[_shown(column, row) for column in _TYPE_COLUMNS] for row in types])
        for note in (note for row in rows for note in _notes(row)):
            terminal.report("warning", note)
    if any(row["error"] for row in rows):
        raise typer.Exit(EXIT_PARTLY)


def _types() -> list[dict[str, Any]]:
    from devmem.plugins import registry

    rows = []
    for name in registry.names():
        row: dict[str, Any] = {"type": name, "provided by": registry.owner(name), "summary": None, "error": None}
        try:
            row["summary"] = registry.summary(name)
        except DevmemError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def _store(workflow: Workflow, name: str, store_type: str, session: str) -> dict[str, Any]:
    from devmem.plugins import plugin_errors
    from devmem.workflow.stores import load_store

    row: dict[str, Any] = {"store": name, "type": store_type, **dict.fromkeys((*_STORE_COLUMNS[2:], "error"))}
    try:
        store = make(StoreAddress(workflow=workflow, store=name, session=session))
        row |= {"pending": _pending(location_of(store))}
        if why_empty(store):
            return row | {"items": 0, "waiting": 0, "size": 0, "location": _location(store)}
        try:
            load_store(store, looking=True)
            with plugin_errors(store.setup, type(store)):
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
    }


def _location(store: MemoryBase) -> str:
    location = location_of(store)
    if location is None:
        return "this process"
    return location if file_of(location) is not None else shown_store(location, store.name)


def _pending(location: str | None) -> dict[str, Any] | None:
    """Return what is recorded and waits beside a store's file; None when nothing does."""
    if location is None or "://" in location or not (file := pending_file(location)).exists():
        return None
    with closing(records_in(file)) as records:
        found = {"file": str(file), "waiting": records.waiting(), "refused": records.refused()}
    return found if found["waiting"] or found["refused"] else None


def _notes(row: dict[str, Any]) -> Iterator[str]:
    if (found := row.get("pending")) is None:
        return
    where = f"memory store {row['store']!r}: {found['file']} has"
    if found["waiting"]:
        yield f"{where} {number_of(found['waiting'], 'record')} that wait; the next recorder of this store sends them"
    if found["refused"]:
        yield f"{where} {number_of(found['refused'], 'record')} that the store refused"


def _shown(column: str, row: dict[str, Any]) -> str:
    value = row[column]
    if value is None:
        return f"cannot be used: {row['error']}" if row["error"] and column in ("summary", "location") else ""
    return size_text(value) if column == "size" else f"{value:,}" if isinstance(value, int) else str(value)


_SIGNS = (("new", "+"), ("changed", "~"), ("deleted", "-"))


def index(
    ctx: typer.Context,
    file: WorkflowFile,
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Store; by default every `file` store.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow changes until interrupted.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read every file again.")] = False,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop the files of a source that is missing or empty, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the changes and write nothing.")] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Bring a store of files up to date.

    Only new, changed and deleted files are processed. An interrupted run continues when it is run again. A file that
    cannot be indexed is reported, and the exit code is 1. So is a source that is missing or has no file any more, such
    as a disk that is not mounted: its files stay in the index unless --drop-missing is given.

    Examples:
        devmem index configs/documents.yaml docs
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    stores = [_make(workflow, name, session) for name in _names(workflow, store, session)]
    if watch and as_json:
        raise CommandError("--watch runs until it is interrupted and cannot be combined with --json.")
    try:
        bring = _plan if dry_run else _index
        done = [
            bring(terminal, memory, rebuild=rebuild, drop_missing=drop_missing, shown=not as_json) for memory in stores
        ]
        if as_json:
            terminal.json(done)
        if watch and not dry_run:
            _watch(terminal, stores)
    finally:
        for memory in stores:
            memory.close()
    if any(report["problems"] for report in done):
        raise typer.Exit(EXIT_PARTLY)


def _names(workflow: Workflow, store: str | None, session: str) -> list[str]:
    if store is not None:
        return [store]
    names = [
        each.name
        for each in workflow.memory
        if isinstance(make(StoreAddress(workflow=workflow, store=each.name, session=session)), Indexing)
    ]
    if not names:
        raise CommandError(f"{workflow.file or 'workflow'}: no store in this workflow is made from files.")
    return names


def _make(workflow: Workflow, name: str, session: str) -> MemoryBase:
    memory = make(StoreAddress(workflow=workflow, store=name, session=session))
    if not isinstance(memory, Indexing):
        raise CommandError(
            f"memory store {name!r} is of type {memory.setup.store_type!r}, which is not made from files: "
            "there is nothing to index."
        )
    return memory


def _plan(terminal: Terminal, memory: MemoryBase, *, rebuild: bool, drop_missing: bool, shown: bool) -> dict[str, Any]:
    assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
    plan = memory.plan(rebuild=rebuild, drop_missing=drop_missing)
    if shown:
        _list(terminal, plan)
        terminal.print(f"{memory.name}: {plan_text(plan)}; nothing was written")
    _report_problems(terminal, memory, plan)
    return _json_of(memory, plan)


def _index(terminal: Terminal, memory: MemoryBase, *, rebuild: bool, drop_missing: bool, shown: bool) -> dict[str, Any]:
    assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
    report = index_with_progress(terminal, memory.name, memory, rebuild=rebuild, drop_missing=drop_missing)
    if shown:
        terminal.print(f"{memory.name}: {report_text(report)}")
    if location_of(memory) is None:
        terminal.report("note", f"{memory.name} has no `index_path`, so its index ends with this command")
    sizes = {
        "files": report.files,
        "chunks": report.chunks,
        "embedded": report.embedded,
        "seconds": report.seconds,
        "kept_out": report.kept_out,
    }
    return _json_of(memory, report) | sizes  # the store has logged its problems


def _json_of(memory: MemoryBase, plan: IndexPlan) -> dict[str, Any]:
    return {
        "store": memory.name,
        **{kind: list(getattr(plan, kind)) for kind, _ in _SIGNS},
        "renamed": [list(pair) for pair in plan.renamed],
        "unchanged": plan.unchanged,
        "problems": dict(plan.problems),
    }


def _watch(terminal: Terminal, stores: list[MemoryBase]) -> None:
    for memory in stores:
        assert isinstance(memory, Indexing)  # noqa: S101 - `_make` has seen to it
        name = memory.name

        def tell(report: IndexReport, name: str = name) -> None:
            _list(terminal, report)
            terminal.print(f"{name}: {report_text(report)}")

        memory.watch(tell)
    terminal.report("note", "following changes; Ctrl-C ends it")
    threading.Event().wait()


def _list(terminal: Terminal, plan: IndexPlan) -> None:
    for kind, sign in _SIGNS:
        for name in getattr(plan, kind):
            terminal.print(f"{sign} {name}")
    for old, new in plan.renamed:
        terminal.print(f"> {old} -> {new}")


def _report_problems(terminal: Terminal, memory: MemoryBase, plan: IndexPlan) -> None:
    for reason in plan.reasons:
        terminal.report("note", f"{memory.name}: {reason}")
    for name, problem in plan.problems.items():
        terminal.report("error", f"{memory.name}: {name}: {problem}")
