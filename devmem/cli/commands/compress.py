"""`devmem compress`: summarize what is older."""

from __future__ import annotations

import typer

from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_to_change
from devmem.runtime import DEFAULT_SESSION


def compress(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Summarize what is older.

    A store of the type `brain` summarizes all but the latest messages of each conversation, one of the type
    `conversation` the older records of each agent's view. Other stores have nothing to summarize.

    Examples:
        devmem compress team.yaml global
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store)
    with opened_to_change(terminal, place.workflow, place.store, session) as opened:
        done = opened.compress()
        total = opened.count_memories()
    if as_json:
        terminal.json({"store": place.store, "summarized": done, "items": total})
    else:
        terminal.print(f"{place.store}: {done:,} summarized")
