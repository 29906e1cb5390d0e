"""`devmem facts`: the facts that a model extracts from turns."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.targets import AsJson, MemoryPlace, OptionalStore, Session, check_lasting, find_store, opened_existing
from devmem.cli.terminal import Terminal
from devmem.errors import CommandError
from devmem.model.caller import DEFAULT_SESSION
from devmem.stores.fact_queue import FactStatus
from devmem.stores.facts import FactKeepingMemory
from devmem.stores.memory import MemoryBase
from devmem.text.display import number_of


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
