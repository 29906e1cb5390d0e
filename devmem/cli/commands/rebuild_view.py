"""`devmem rebuild-view`: restore the stores of single agents from the global memory."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.interactions import log_of
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, WorkflowFile, load, opened
from devmem.config.conversation import CopyRule
from devmem.recording import CopySource
from devmem.runtime import DEFAULT_SESSION
from devmem.runtime.view_copies import rebuild_view as rebuild


def rebuild_view(
    ctx: typer.Context,
    file: WorkflowFile,
    into: Annotated[str | None, typer.Option(metavar="STORE", help="Only the copies in this store.")] = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Restore agents' stores from the global memory.

    The rules under `conversation.copies` say what belongs into which store. What is there already stays as it is; what
    is missing is added.

    Examples:
        devmem rebuild-view team.yaml --into writer_notes
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    block = workflow.conversation
    rules = [rule for rule in block.copies if into in (None, rule.into)] if block is not None else []
    if block is None or not rules:
        named = f" into {into!r}" if into is not None else ""
        raise CommandError(f"{file} has no rule under `conversation.copies` that copies{named}.")
    done: list[tuple[CopyRule, int, int]] = []
    with ExitStack() as stack:
        source = stack.enter_context(opened(terminal, workflow, block.store, session))
        log_of(source, block.store)
        if not isinstance(source, CopySource):
            raise CommandError(f"the records of memory store {block.store!r} cannot be copied.")
        for rule in rules:
            target = stack.enter_context(opened(terminal, workflow, rule.into, session, save=True))
            done.append((rule, *rebuild(source, rule, target)))
    if as_json:
        terminal.json([{"store": rule.into, "records": count, "added": added} for rule, count, added in done])
        return
    for rule, count, added in done:
        terminal.print(f"{rule.into}: {count:,} records of {', '.join(rule.agents) or 'all agents'}, {added:,} added")
