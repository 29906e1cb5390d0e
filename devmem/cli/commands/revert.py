"""`devmem revert`: undo a committed run of a memory."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.describe import items_text
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened
from devmem.runtime import DEFAULT_SESSION
from devmem.stores.versioned import versions_of
from devmem.views.versions import run_info_json


def revert(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] RUN", help="Id of the run.")],
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Undo a committed run.

    What the run added is deleted, and what it replaced or deleted is there again. Where later versions build on what it
    wrote, they are named, and nothing is changed.

    Examples:
        devmem revert notes.db 5f2c
        devmem revert team.yaml notes 5f2c
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] RUN")
    with opened(terminal, place.workflow, place.store, session) as store:
        undone = versions_of(store).revert(place.words[0])
    if as_json:
        terminal.json(run_info_json(undone))
    else:
        terminal.print(f"{place.store}: {items_text(undone.changes)} changed back, as run {undone.run!r}")
