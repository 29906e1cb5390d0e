"""`devmem trace`: show the calls of a trace as a tree."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.interactions import Full, log_of, print_records
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_existing
from devmem.runtime import DEFAULT_SESSION
from devmem.views.call_tree import SHOWN, call_tree, tree_lines


def trace(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] TRACE", help="Id of the trace.")],
    full: Full = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the calls of a trace as a tree.

    Each call is followed by the calls that were made from within it, and by its answer (`=`) or its error (`!`).

    Examples:
        devmem trace team.yaml global t1
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] TRACE", reading=True)
    with opened_existing(terminal, place.workflow, place.store, session) as store:
        records = log_of(store, place.store).trace(place.words[0])
    lines = tree_lines(call_tree(records), length=None if full else SHOWN)
    print_records(terminal, records, lines, f"trace {place.words[0]!r}", as_json=as_json)
