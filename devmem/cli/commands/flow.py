"""`devmem flow`: draw the messages between agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Final

import typer

from devmem.cli.failures import CommandError
from devmem.cli.filter_options import After, Agent, Before, Conversation, User, Where, make_filter
from devmem.cli.item_selection import Ids, Newest, Output, check_anything_there, deliver, pick
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, StoreName, WorkflowFile, load, opened
from devmem.runtime import DEFAULT_SESSION
from devmem.text.atomic_write import replace_file
from devmem.views import (
    Transfer,
    dot_graph,
    edges_of,
    mermaid_flowchart,
    mermaid_sequence,
    png_picture,
    transfers_of,
)


class FlowFormat(StrEnum):
    """Formats of a drawing."""

    MERMAID = "mermaid"
    """A Mermaid flowchart: who sends to whom, how often, caused by what."""
    SEQUENCE = "sequence"
    """A Mermaid sequence diagram: every message in order."""
    DOT = "dot"
    """A Graphviz graph."""
    PNG = "png"
    """A picture of the graph."""


_BY_SUFFIX: Final = {".dot": FlowFormat.DOT, ".gv": FlowFormat.DOT, ".png": FlowFormat.PNG}


def flow(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    flow_format: Annotated[
        FlowFormat | None, typer.Option("--format", help="Format; without it, the suffix of FILE decides.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    ids: Ids = None,
    newest: Newest = None,
    session: Session = DEFAULT_SESSION,
    user: User = None,
    agent: Agent = None,
    conversation: Conversation = None,
    where: Where = None,
    after: After = None,
    before: Before = None,
) -> None:
    """Draw who sent what to whom.

    The senders, receivers and causes are taken from the items of a store. A picture (`png`) is drawn by Graphviz or
    by matplotlib; the other formats need neither.

    Examples:
        devmem flow configs/two_agents.yaml board --format sequence
    """
    terminal: Terminal = ctx.obj
    chosen = flow_format or _BY_SUFFIX.get(output.suffix.lower() if output else "", FlowFormat.MERMAID)
    if chosen is FlowFormat.PNG and output is None and not as_json:
        raise CommandError("`--format png` needs a file: add --output FILE.png.")
    restriction = make_filter(
        where=where, after=after, before=before, user=user, agent=agent, conversation=conversation
    )
    workflow = load(terminal, file)
    check_anything_there(workflow, store, session)
    with opened(workflow, store, session) as memory:
        transfers = transfers_of(pick(memory, ids, newest, restriction))
    if as_json:
        terminal.json([asdict(one) for one in transfers])
    elif not transfers:
        raise CommandError(f"no matching item of memory store {store!r} records a message; nothing was drawn.")
    elif chosen is FlowFormat.PNG and output is not None:
        replace_file(output, [png_picture(edges_of(transfers))])
        terminal.report("note", f"written to {output}")
    else:
        deliver(terminal, _drawn(transfers, chosen), output)


def _drawn(transfers: list[Transfer], chosen: FlowFormat) -> Iterable[str]:
    if chosen is FlowFormat.SEQUENCE:
        return mermaid_sequence(transfers)
    edges = edges_of(transfers)
    return dot_graph(edges) if chosen is FlowFormat.DOT else mermaid_flowchart(edges)
