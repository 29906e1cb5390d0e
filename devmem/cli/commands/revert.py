"""`devmem revert`: undo a run of a memory, or of a workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from devmem.cli.describe import items_text
from devmem.cli.places import MemoryPlace, several_stores, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_existing
from devmem.cli.written_stores import opened_written
from devmem.model.versions import RunInfo
from devmem.runtime import DEFAULT_SESSION, revert_run, session_folder
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

    `devmem runs` lists the runs of a memory. What the run added is deleted, and what it replaced or deleted is there
    again. Where later versions build on what it wrote, they are named, and nothing is changed. A workflow without a
    store means all stores that its agents write: the run is undone in all of them, or in none.

    Examples:
        devmem revert notes.db 5f2c
        devmem revert team.yaml 5f2c
        devmem revert team.yaml notes 5f2c
    """
    terminal: Terminal = ctx.obj
    if (workflow := several_stores(memory, words, after=1)) is not None:
        with opened_written(terminal, workflow, session) as stores:
            undone = revert_run(workflow, stores, words[0], session_folder(workflow, session))
    else:
        place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] RUN")
        with opened_existing(terminal, place.workflow, place.store, session) as store:
            undone = {place.store: versions_of(store).revert(place.words[0])}
    _show(terminal, undone, as_json=as_json)


def _show(terminal: Terminal, undone: Mapping[str, RunInfo], *, as_json: bool) -> None:
    if as_json:
        terminal.json([{"store": name, **run_info_json(info)} for name, info in undone.items()])
        return
    for name, info in undone.items():
        terminal.print(f"{name}: {items_text(info.changes)} changed back, as run {info.run!r}")
