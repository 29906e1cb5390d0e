"""`devmem stores` and `index`: what is in the stores of a memory, and bringing those of files up to date."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from devmem.cli.commands.facts import status_text
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import (
    AsJson,
    OptionalStore,
    Session,
    StoreAddress,
    WorkflowFile,
    announce,
    check_session,
    find_store,
    index_with_progress,
    load,
    location_of,
    make,
    plan_text,
    report_text,
    several_stores,
    shown_store,
    why_empty,
)
from devmem.cli.terminal import Terminal, date_text, size_text, zoned
from devmem.config.workflow import Workflow
from devmem.errors import CommandError, DevmemError
from devmem.memory.statistics import statistics_of
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.results import refused_embeddings
from devmem.plugins import plugin_errors
from devmem.recording.forwarder import pending_file, records_in
from devmem.storage.opening import file_of
from devmem.storage.pending import STATE_FILE
from devmem.storage.recall_log import RecallLog, RecallStatistics
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.fact_queue import FactStatus
from devmem.stores.facts import FactKeepingMemory
from devmem.stores.indexing import Indexing, IndexPlan, IndexReport
from devmem.stores.memory import MemoryBase
from devmem.text.analysis import shorten
from devmem.text.display import number_of
from devmem.workflow.stores import load_store, session_folder

_TYPE_COLUMNS = ("type", "provided by", "summary")
_COUNTED: Final = {"agents": "agent", "users": "user", "source_kinds": "kind of source", "sources": "source"}


def stores(
    ctx: typer.Context,
    memory: Annotated[
        str | None,
        typer.Argument(metavar="[MEMORY]", help="A file or a workflow; without it, the store types are listed."),
    ] = None,
    store: OptionalStore = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, help="Number of the last days.")] = 14,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Values of each kind.")] = 10,
    watch: Annotated[bool, typer.Option("--watch", help="Print the numbers again until interrupted.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Pause of --watch.")] = 2.0,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """List the store types, or show what is in a memory's stores, where they are, and hit rates.

    Shows for each store its size, embedding model and location, and its items by agent, user, source and day; for a
    workflow also the store types that its `plugins:` bring, and with `record_recalls: true` how often each agent found
    something, and the slowest searches. Items that wait for their embedding are found by their words; recorded
    interactions that wait are not in the store yet. Nothing is written and no model is called.

    Examples:
        devmem stores
        devmem stores notes.db
        devmem stores team.yaml --watch
    """
    from devmem.plugins import registry

    terminal: Terminal = ctx.obj
    installed = set(registry.names()) if memory is not None else set()
    addresses = [] if memory is None else _addresses(terminal, memory, store, session)
    types = [_type(name) for name in registry.names() if name not in installed]
    while True:
        rows = [_store(terminal, address, days, limit) for address in addresses]
        recalls = _recalls(addresses[0], limit) if addresses else None
        if as_json:
            terminal.json({"stores": rows, "types": types, "recalls": recalls and asdict(recalls)})
        else:
            _print(terminal, rows, types, recalls)
        if not watch or not rows:
            break
        time.sleep(every)
        if not as_json:
            terminal.out.clear() if terminal.out.is_terminal else terminal.print()
    if any(row["error"] for row in [*rows, *types]):
        raise typer.Exit(EXIT_PARTLY)


def _type(name: str) -> dict[str, Any]:
    from devmem.plugins import registry

    row: dict[str, Any] = {"type": name, "provided by": registry.owner(name), "summary": None, "error": None}
    try:
        return row | {"summary": registry.summary(name)}
    except DevmemError as error:
        return row | {"error": str(error)}


def _addresses(terminal: Terminal, memory: str, store: str | None, session: str) -> list[StoreAddress]:
    workflow = several_stores(memory, [], after=0) if store is None else None
    if workflow is None:
        return [find_store(terminal, memory, store, session, reading=True)]
    announce(terminal, workflow)
    check_session(workflow, session)
    return [StoreAddress(workflow=workflow, store=each.name, session=session) for each in workflow.memory]


def _store(terminal: Terminal, address: StoreAddress, days: int, limit: int) -> dict[str, Any]:
    """Return the numbers of a store, or the error for which it cannot be used."""
    declared = next(each for each in address.workflow.memory if each.name == address.store)
    row: dict[str, Any] = {"store": address.store, "type": declared.type, "error": None}
    try:
        store = make(address)
        row |= {"pending": _pending(location_of(store))}
        if (reason := why_empty(store)) is not None:
            terminal.report("note", reason)
            sizes = {"items": 0, "archived": 0, "waiting": 0, "size_bytes": 0, "embedding": None}
            return row | sizes | {"location": _location(store)}
        try:
            load_store(store, looking=True)
            with plugin_errors(store.setup, type(store)):
                info, found = store.info(), statistics_of(store, Filter(), days=days)
                facts = store.fact_status() if isinstance(store, FactKeepingMemory) else None
                refused = store.collection.refusals() if isinstance(store, CollectionMemory) else {}
        finally:
            store.close()
    except DevmemError as error:
        return row | {"error": str(error)}
    counts = {name: {value or "": count for value, count in getattr(found, name)[:limit]} for name in _COUNTED}
    by_day = {day.isoformat(): count for day, count in found.days}
    facts_found = {} if facts is None else {"facts": asdict(facts)}
    return row | asdict(info) | {"items": found.items, **counts, "days": by_day, "refused": refused} | facts_found


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


def _recalls(address: StoreAddress, limit: int) -> RecallStatistics | None:
    """Return the rates of the log of a workflow's session; None where nothing is logged."""
    log = RecallLog(session_folder(address.workflow, address.session) / STATE_FILE)
    return log.statistics(limit) if address.workflow.file is not None and log.file.exists() else None


def _print(
    terminal: Terminal, rows: list[dict[str, Any]], types: list[dict[str, Any]], recalls: RecallStatistics | None
) -> None:
    if rows:
        columns = ("store", "type", "items", "archived", "waiting", "size", "embedding", "location")
        cells = [
            (row["store"], row["type"], *("",) * 5, f"cannot be used: {row['error']}") if row["error"] else
            (row["store"], row["type"], *(f"{row[name]:,}" for name in columns[2:5]), size_text(row["size_bytes"]),
             row["embedding"] or "", row["location"])
            for row in rows
        ]  # fmt: skip
        terminal.table(columns, cells, numbers=columns[2:6])
    if types:
        summaries = [row["summary"] or f"cannot be used: {row['error']}" for row in types]
        named = [(row["type"], row["provided by"], text) for row, text in zip(types, summaries, strict=True)]
        terminal.table(_TYPE_COLUMNS, named)
    for row in rows:
        _print_store(terminal, row)
    if recalls is not None:
        _print_recalls(terminal, recalls)


def _print_store(terminal: Terminal, row: dict[str, Any]) -> None:
    """Print what waits for a store or was refused, and its items by what they have in common."""
    if (pending := row.get("pending")) is not None:
        where = f"memory store {row['store']!r}: {pending['file']} has"
        if count := pending["waiting"]:
            told = f"{number_of(count, 'record')} that wait; the next recorder of this store sends them"
            terminal.report("warning", f"{where} {told}")
        if count := pending["refused"]:
            terminal.report("warning", f"{where} {number_of(count, 'record')} that the store refused")
    if not row.get("items"):
        return
    for finding in refused_embeddings(row["refused"]):
        terminal.report(finding.level.value, f"{row['store']}: {finding.message}")
    terminal.print()
    counts = [(kind, f"{count:,}", value or "(none)") for name, kind in _COUNTED.items()
              for value, count in row[name].items()]  # fmt: skip
    counts += [("day", f"{count:,}", day) for day, count in row["days"].items() if count]
    terminal.print(f"{row['store']}: items by agent, user, source and day")
    terminal.table(("by", "items", "value"), counts, numbers=("items",))
    if (facts := row.get("facts")) is not None:
        status = FactStatus(**facts)
        terminal.print(f"{row['store']}: {status_text(status)}, {sum(status.dropped.values()):,} statements dropped")


def _print_recalls(terminal: Terminal, recalls: RecallStatistics) -> None:
    terminal.print()
    whole = recalls.all
    terminal.print(f"Recalls: {whole.recalls:,}, of which {whole.answered:,} found something ({whole.rate:.0%})")
    columns = ("agent", "recalls", "found", "rate", "tokens", "ms")
    rates = [
        (one.agent, f"{one.recalls:,}", f"{one.answered:,}", f"{one.rate:.0%}", f"{one.tokens or 0:.0f}",
         "" if one.seconds is None else f"{one.seconds * 1000:.1f}")
        for one in recalls.agents
    ]  # fmt: skip
    terminal.table(columns, rates, numbers=columns[1:])
    terminal.print()
    of_stores = ("store", "found in", "shown in", "shown", "left out")
    stores = [
        (one.store, f"{one.found_in:,}", f"{one.shown_in:,}", f"{one.shown:,}", f"{one.left_out:,}")
        for one in recalls.stores
    ]
    terminal.table(of_stores, stores, numbers=of_stores[1:])
    terminal.print()
    terminal.print("Slowest searches")
    slow = [
        (
            str(one.id),
            f"{one.seconds * 1000:.1f}",
            date_text(one.at),
            one.agent,
            one.stage,
            shorten(one.query or "", 60),
        )
        for one in recalls.slowest
    ]
    terminal.table(zoned(("step", "ms", "date", "agent", "stage", "asked")), slow, numbers=("step", "ms"))


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
