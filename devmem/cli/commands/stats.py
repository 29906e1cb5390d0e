"""`devmem stats` and `facts`: what is in the stores of a memory, how well agents find it, and its extracted facts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    announce,
    check_lasting,
    find_store,
    opened_existing,
    opened_if_written,
    several_stores,
)
from devmem.cli.terminal import Terminal, date_text, size_text, zoned
from devmem.errors import CommandError
from devmem.memory.statistics import Counts, StoreStatistics, statistics_of
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.results import refused_embeddings
from devmem.storage.pending import STATE_FILE
from devmem.storage.protocol import CollectionInfo
from devmem.storage.recall_log import RecallLog, RecallStatistics
from devmem.stores.collection_memory import CollectionMemory
from devmem.stores.fact_queue import FactStatus
from devmem.stores.facts import FactKeepingMemory
from devmem.stores.memory import MemoryBase
from devmem.text.analysis import shorten
from devmem.text.display import number_of
from devmem.workflow.stores import session_folder

_NOBODY: Final = "(none)"
_Numbers: TypeAlias = tuple[StoreStatistics, CollectionInfo, FactStatus | None, Mapping[str, str]]


def stats(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    days: Annotated[int, typer.Option("--days", metavar="N", min=1, help="Number of the last days.")] = 14,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Values of each kind.")] = 10,
    watch: Annotated[bool, typer.Option("--watch", help="Print the numbers again until interrupted.")] = False,
    every: Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="Pause of --watch.")] = 2.0,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show counts, sizes, hit rates and slow searches.

    Shows for each store its items by agent, user, source and day, and its size; for a workflow with `record_recalls:
    true` also how often each agent found something, and the slowest searches. Nothing is written and no model is
    called.

    Examples:
        devmem stats notes.db
        devmem stats team.yaml --watch
    """
    terminal: Terminal = ctx.obj
    addresses = _addresses(terminal, memory, store, session)
    while True:
        found = list(_statistics(terminal, addresses, days))
        recalls = _recalls(addresses[0], limit)
        if as_json:
            stores = [
                _as_json(one, info, limit) | {"refused": refused} | _facts_json(facts)
                for one, info, facts, refused in found
            ]
            terminal.json({"stores": stores, "recalls": recalls and asdict(recalls)})
        else:
            _print(terminal, found, recalls, limit)
        if not watch:
            return
        time.sleep(every)
        if not as_json:
            terminal.out.clear() if terminal.out.is_terminal else terminal.print()


def _addresses(terminal: Terminal, memory: str, store: str | None, session: str) -> list[StoreAddress]:
    workflow = several_stores(memory, [], after=0) if store is None else None
    if workflow is None:
        return [find_store(terminal, memory, store, session, reading=True)]
    announce(terminal, workflow)
    return [StoreAddress(workflow=workflow, store=each.name, session=session) for each in workflow.memory]


def _statistics(terminal: Terminal, addresses: list[StoreAddress], days: int) -> Iterator[_Numbers]:
    for address in addresses:
        with opened_if_written(terminal, address, looking=True) as store:
            if store is not None:
                facts = store.fact_status() if isinstance(store, FactKeepingMemory) else None
                refused = store.collection.refusals() if isinstance(store, CollectionMemory) else {}
                yield statistics_of(store, Filter(), days=days), store.info(), facts, refused


def _recalls(address: StoreAddress, limit: int) -> RecallStatistics | None:
    """Return the rates of the log of a workflow's session; None where nothing is logged."""
    log = RecallLog(session_folder(address.workflow, address.session) / STATE_FILE)
    return log.statistics(limit) if address.workflow.file is not None and log.file.exists() else None


def _as_json(one: StoreStatistics, info: CollectionInfo, limit: int) -> dict[str, Any]:
    counts = {name: dict(_named(getattr(one, name)[:limit])) for name in ("agents", "users", "source_kinds", "sources")}
    days = {day.isoformat(): count for day, count in one.days}
    return {"store": one.store, "type": one.type, **asdict(info), "items": one.items, **counts, "days": days}


def _facts_json(facts: FactStatus | None) -> dict[str, Any]:
    return {} if facts is None else {"facts": asdict(facts)}


def _named(counts: Counts) -> Iterator[tuple[str, int]]:
    return ((value or "", count) for value, count in counts)


def _print(terminal: Terminal, found: list[_Numbers], recalls: RecallStatistics | None, limit: int) -> None:
    columns = ("store", "type", "items", "archived", "waiting", "size", "embedding")
    rows = [
        (one.store, one.type, f"{one.items:,}", f"{info.archived:,}", f"{info.waiting:,}",
         size_text(info.size_bytes), info.embedding or "")
        for one, info, *_ in found
    ]  # fmt: skip
    terminal.table(columns, rows, numbers=columns[2:6])
    for one, _, facts, refused in found:
        for finding in refused_embeddings(refused):
            terminal.report(finding.level.value, f"{one.store}: {finding.message}")
        _print_counts(terminal, one, limit)
        if facts is not None:
            dropped = sum(facts.dropped.values())
            terminal.print(f"{one.store}: {status_text(facts)}, {dropped:,} statements dropped")
    if recalls is not None:
        _print_recalls(terminal, recalls)


def _print_counts(terminal: Terminal, one: StoreStatistics, limit: int) -> None:
    terminal.print()
    kinds = {"agent": one.agents, "user": one.users, "kind of source": one.source_kinds, "source": one.sources}
    rows = [
        (kind, f"{count:,}", value or _NOBODY)
        for kind, counts in kinds.items()
        for value, count in counts[:limit]
    ]  # fmt: skip
    rows += [("day", f"{count:,}", day.isoformat()) for day, count in one.days if count]
    terminal.print(f"{one.store}: items by agent, user, source and day")
    terminal.table(("by", "items", "value"), rows, numbers=("items",))


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


def facts(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Extract the facts of the turns that wait, now.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--all", help="Ask about every stored turn without facts, also older ones.")
    ] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show how many facts were extracted from turns, or extract those that wait.

    A store with a `facts:` block asks its chat model about each turn in the background, after the turn is stored. The
    turns that wait, as while the model is down, are asked about after later writes, or now with `--catch-up`. Each
    turn is one call of the model; `--all` asks again about turns in which no fact was found.

    Examples:
        devmem facts team.yaml notes
        devmem facts team.yaml notes --catch-up
        devmem facts team.yaml notes --all
    """
    terminal: Terminal = ctx.obj
    place = find_store(terminal, memory, store, session)
    asks = catch_up or whole
    with opened_existing(terminal, place, save=asks, looking=not asks) as opened:
        check_lasting(opened, "its facts")
        kept, status = _checked(opened)
        if asks:
            total = None if whole else status.waiting
            with terminal.progress(f"extracting facts of {place.store}", total) as bar:
                status = kept.catch_up_facts(lambda done: bar.update(bar.task_ids[0], completed=done), whole=whole)
    terminal.answer({"store": place.store, **asdict(status)}, f"{place.store}: {status_text(status)}", as_json=as_json)
    if not as_json:
        for reason, count in status.dropped.items():
            terminal.print(f"  {count:,} dropped: {reason}")
    if asks and status.waiting:
        reason = status.failure or "another process is extracting them"
        terminal.report("error", f"{number_of(status.waiting, 'turn')} still waiting: {reason}")
        raise typer.Exit(EXIT_PARTLY)


def status_text(status: FactStatus) -> str:
    """Return the counts in words, for people."""
    calls = number_of(status.calls, "call") + (f", {status.failures:,} of them failed" if status.failures else "")
    tokens = f"{calls}, {status.input_tokens:,} tokens in, {status.output_tokens:,} out"
    return f"{number_of(status.extracted, 'fact')} extracted, {number_of(status.waiting, 'turn')} waiting ({tokens})"


def _checked(store: MemoryBase) -> tuple[FactKeepingMemory, FactStatus]:
    """Return a store with its counts; raise `CommandError` where it extracts no facts."""
    if isinstance(store, FactKeepingMemory) and (status := store.fact_status()) is not None:
        return store, status
    raise CommandError(
        f"memory store {store.name!r} extracts no facts: give it a `facts: {{llm: ...}}` block in a workflow; stores "
        "of the types `simple` and `conversation` take one."
    )
