"""`devmem stores`: the store types, what is in the stores of a memory, and how often agents find something there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer

from devmem.cli.commands.consolidate import facts_text
from devmem.cli.declaring import argument, option
from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import JsonTerminal, OptionalStore, Session, StoreAddress, every_store, shown_store
from devmem.cli.terminal import Terminal, date_text, size_text, zoned
from devmem.errors import DevmemError
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
from devmem.text.analysis import shorten
from devmem.text.display import number_of
from devmem.workflow.stores import location_of, session_folder

_COUNTED: Final = {"agents": "agent", "users": "user", "source_kinds": "kind of source", "sources": "source"}


def stores(
    terminal: JsonTerminal,
    memory: Annotated[
        str | None,
        argument("[MEMORY]", "A file or a workflow; without it, the store types are listed."),
    ] = None,
    store: OptionalStore = None,
    days: Annotated[int, option("Number of the last days.", metavar="N", min=1)] = 14,
    limit: Annotated[int, option("Values of each kind.", "--limit", "-n", metavar="N", min=1)] = 10,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List the store types, or show what is in a memory's stores, and where.

    Shows for each store its size, embedding model and location, and its items by agent, user, source and day; for a
    workflow also the store types that its `plugins:` bring, and with `record_recalls: true` how often each agent found
    something, and the slowest searches. Items that wait for their embedding are found by their words; recorded
    interactions that wait are not in the store yet. Nothing is written and no model is called.

    Examples:
        devmem stores
        devmem stores notes.db
        devmem stores team.yaml --days 30
    """
    from devmem.plugins import registry

    known = set(registry.names()) if memory is not None else set()
    addresses = [] if memory is None else every_store(terminal, memory, store, session)
    types = [_type(name) for name in registry.names() if name not in known]
    rows = [_store(terminal, address, days, limit) for address in addresses]
    recalls: RecallStatistics | None = None
    if addresses and addresses[0].workflow.file is not None:
        log = RecallLog(session_folder(addresses[0].workflow, session) / STATE_FILE)
        recalls = log.statistics(limit) if log.file.exists() else None
    if terminal.as_json:
        terminal.json({"stores": rows, "types": types, "recalls": recalls})
    else:
        _print_sizes(terminal, rows)
        if types:
            named = [(row["type"], row["provided by"], row["summary"] or _unusable(row)) for row in types]
            terminal.table(("type", "provided by", "summary"), named)
        for row in rows:
            _print_items(terminal, row)
        if recalls is not None:
            _print_recalls(terminal, recalls)
    if any(row["error"] for row in [*rows, *types]):
        raise typer.Exit(EXIT_PARTLY)


def _type(name: str) -> dict[str, Any]:
    from devmem.plugins import registry

    row: dict[str, Any] = {"type": name, "provided by": registry.owner(name), "summary": None, "error": None}
    try:
        return row | {"summary": registry.summary(name)}
    except DevmemError as error:
        return row | {"error": str(error)}


def _unusable(row: dict[str, Any]) -> str:
    return f"cannot be used: {row['error']}"


def _store(terminal: Terminal, address: StoreAddress, days: int, limit: int) -> dict[str, Any]:
    """Return the numbers of a store, or the error for which it cannot be used."""
    declared = next((each.type for each in address.workflow.memory if each.name == address.store), None)
    row: dict[str, Any] = {"store": address.store, "type": declared, "error": None}
    try:
        store = address.make()
        location = location_of(store)
        row |= {"pending": _pending(location)}
        if (reason := address.why_empty()) is not None:
            terminal.report("note", reason)
            is_file = location is None or file_of(location) is not None
            place = location if is_file else shown_store(location or "", store.name)
            sizes = {"items": 0, "archived": 0, "waiting": 0, "size_bytes": 0, "embedding": None}
            return row | sizes | {"location": place or "this process"}
        with address.opened(looking=True) as store, plugin_errors(store.setup, type(store)):
            info, found = store.info(), statistics_of(store, Filter(), days=days)
            facts = store.fact_status() if isinstance(store, FactKeepingMemory) else None
            refused = store.collection.refusals() if isinstance(store, CollectionMemory) else {}
    except DevmemError as error:
        return row | {"error": str(error)}
    counts = {name: {value or "": count for value, count in getattr(found, name)[:limit]} for name in _COUNTED}
    by_day = {day.isoformat(): count for day, count in found.days}
    row |= asdict(info) | {"items": found.items, **counts, "days": by_day, "refused": refused}
    return row if facts is None else row | {"facts": asdict(facts)}


def _pending(location: str | None) -> dict[str, Any] | None:
    """Return what is recorded and waits beside a store's file; None when nothing does."""
    if location is None or "://" in location or not (file := pending_file(location)).exists():
        return None
    with closing(records_in(file)) as records:
        found = {"file": str(file), "waiting": records.waiting(), "refused": records.refused()}
    return found if found["waiting"] or found["refused"] else None


def _print_sizes(terminal: Terminal, rows: Sequence[dict[str, Any]]) -> None:
    columns = ("store", "type", "items", "archived", "waiting", "size", "embedding", "location")
    cells = [
        (row["store"], row["type"] or "", *("",) * 5, _unusable(row))
        if row["error"]
        else (
            *(row["store"], row["type"]),
            *(f"{row[name]:,}" for name in columns[2:5]),
            *(size_text(row["size_bytes"]), row["embedding"] or "", row["location"]),
        )
        for row in rows
    ]
    if cells:
        terminal.table(columns, cells, numbers=columns[2:6])


def _print_items(terminal: Terminal, row: dict[str, Any]) -> None:
    """Print what waits for a store or was refused, and its items by what they have in common."""
    if (pending := row.get("pending")) is not None:
        where = f"memory store {row['store']!r}: {pending['file']} has"
        for name, told in (("waiting", "that wait; the next recorder of this store sends them"),
                           ("refused", "that the store refused")):  # fmt: skip
            if count := pending[name]:
                terminal.report("warning", f"{where} {number_of(count, 'record')} {told}")
    if not row.get("items"):
        return
    for finding in refused_embeddings(row["refused"]):
        terminal.report(finding.level.value, f"{row['store']}: {finding.message}")
    terminal.print()
    counts = [
        (kind, f"{count:,}", value or "(none)") for name, kind in _COUNTED.items() for value, count in row[name].items()
    ]
    counts += [("day", f"{count:,}", day) for day, count in row["days"].items() if count]
    terminal.print(f"{row['store']}: items by agent, user, source and day")
    terminal.table(("by", "items", "value"), counts, numbers=("items",))
    if (facts := row.get("facts")) is not None:
        terminal.print(f"{row['store']}: {facts_text(FactStatus(**facts))}")
        for reason, count in facts["dropped"].items():
            terminal.print(f"  {count:,} dropped: {reason}")


def _print_recalls(terminal: Terminal, recalls: RecallStatistics) -> None:
    whole = recalls.all
    terminal.print(f"\nRecalls: {whole.recalls:,}, of which {whole.answered:,} found something ({whole.rate:.0%})")
    columns: tuple[str, ...] = ("agent", "recalls", "found", "rate", "tokens", "ms")
    rows: list[tuple[str, ...]] = [
        (one.agent, f"{one.recalls:,}", f"{one.answered:,}", f"{one.rate:.0%}", f"{one.tokens or 0:.0f}",
         "" if one.seconds is None else f"{one.seconds * 1000:.1f}")
        for one in recalls.agents
    ]  # fmt: skip
    terminal.table(columns, rows, numbers=columns[1:])
    terminal.print()
    columns = ("store", "found in", "shown in", "shown", "left out")
    rows = [
        (one.store, f"{one.found_in:,}", f"{one.shown_in:,}", f"{one.shown:,}", f"{one.left_out:,}")
        for one in recalls.stores
    ]
    terminal.table(columns, rows, numbers=columns[1:])
    terminal.print("\nSlowest searches")
    rows = [
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
    terminal.table(zoned(("step", "ms", "date", "agent", "stage", "asked")), rows, numbers=("step", "ms"))
