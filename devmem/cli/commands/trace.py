"""`devmem trace`: show the calls of a trace as a tree."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.interactions import log_of, print_records
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, StoreName, WorkflowFile, load, opened
from devmem.runtime import DEFAULT_SESSION
from devmem.views.call_tree import call_tree, tree_lines


def trace(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", help="Id of the trace.")],
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the calls of a trace as a tree.

    Each call is followed by the calls that were made from within it, and by its answer (`=`) or its error (`!`).

    Examples:
        devmem trace team.yaml global t1
    """
    terminal: Terminal = ctx.obj
    with opened(load(terminal, file), store, session) as memory:
        records = log_of(memory, store).trace(trace_id)
    print_records(terminal, records, list(tree_lines(call_tree(records))), f"trace {trace_id!r}", as_json=as_json)
