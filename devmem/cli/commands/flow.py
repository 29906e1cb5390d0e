"""`devmem flow`: draw the messages between agents."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Final

import typer

from devmem.cli.failures import CommandError
from devmem.cli.filter_options import Selection, selecting
from devmem.cli.item_selection import Ids, Newest, Output, check_anything_there, check_output, deliver, pick
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened
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


@selecting()
def flow(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    flow_format: Annotated[
        FlowFormat | None, typer.Option("--format", help="Format; without it, the suffix of FILE decides.")
    ] = None,
    output: Output = None,
    as_json: AsJson = False,
    ids: Ids = None,
    newest: Newest = None,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
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
    place = find_place(terminal, memory, store, reading=True)
    check_anything_there(place.workflow, place.store, session)
    check_output(place.workflow, place.store, session, output)
    with opened(terminal, place.workflow, place.store, session) as source:
        transfers = transfers_of(pick(source, ids, newest, selection.where))
    if as_json:
        terminal.json([asdict(one) for one in transfers])
    elif not transfers:
        raise CommandError(f"no matching item of memory store {place.store!r} records a message; nothing was drawn.")
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
