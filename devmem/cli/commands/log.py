"""`devmem log`: show a conversation as a timeline."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.interactions import Full, log_of, print_records
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_existing
from devmem.runtime import DEFAULT_SESSION
from devmem.views.call_tree import SHOWN, timeline_lines


def log(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] CONVERSATION", help="Id of the conversation.")],
    full: Full = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show a conversation as a timeline.

    Each line has the time, the sender and the receiver, and the text of a record.

    Examples:
        devmem log team.yaml global c1
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] CONVERSATION", reading=True)
    with opened_existing(terminal, place.workflow, place.store, session) as store:
        records = log_of(store, place.store).log(place.words[0])
    lines = timeline_lines(records, length=None if full else SHOWN)
    print_records(terminal, records, lines, f"conversation {place.words[0]!r}", as_json=as_json)
