"""`devmem log`: show a conversation as a timeline: when, who to whom, and what."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.interactions import log_of, print_records
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, StoreName, WorkflowFile, load, opened
from devmem.runtime import DEFAULT_SESSION
from devmem.views.call_tree import timeline_lines


def log(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="Id of the conversation.")],
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show a conversation as a timeline: when, who to whom, and what.

    Examples:
        devmem log team.yaml global c1
    """
    terminal: Terminal = ctx.obj
    with opened(load(terminal, file), store, session) as memory:
        records = log_of(memory, store).log(conversation)
    print_records(terminal, records, list(timeline_lines(records)), f"conversation {conversation!r}", as_json=as_json)
