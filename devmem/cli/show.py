"""`devmem show`: what is in a store."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.describing import item_date, item_json
from devmem.cli.failing import CommandError
from devmem.cli.filtering import Agent, Conversation, User, Where, make_filter
from devmem.cli.opening import AsJson, Session, StoreName, WorkflowFile, load, make, opened, why_empty
from devmem.cli.terminal import Terminal
from devmem.items import MemoryItem
from devmem.runtime import DEFAULT_SESSION


def show(
    ctx: typer.Context,
    file: WorkflowFile,
    store: StoreName,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Show this item whole. May be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many of the newest items.")] = 10,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    user: User = None,
    agent: Agent = None,
    conversation: Conversation = None,
    where: Where = None,
) -> None:
    """Show the items that a store took last, or whole items by their ids.

    Example: `devmem show configs/demo/team.yaml notes --session demo --limit 3`
    """
    terminal: Terminal = ctx.obj
    restriction = make_filter(where=where, user=user, agent=agent, conversation=conversation)
    workflow = load(terminal, file)
    if (reason := why_empty(make(workflow, store, session))) is not None:
        terminal.report("warning", reason)
        items: list[MemoryItem] = []
    else:
        with opened(workflow, store, session) as memory:
            items = memory.get(ids) if ids else memory.recent(limit, restriction)
    missing = [wanted for wanted in ids or [] if wanted not in {item.id for item in items}]
    if as_json:
        terminal.json([item_json(item) for item in items])
    elif ids:
        for item in items:
            terminal.json(item_json(item), indent=2)
    else:
        rows = [[item_date(item), item.id, item.provenance.name, item.content_summary] for item in items]
        terminal.table(("date", "id", "source", "text"), rows)
    if missing:
        raise CommandError(f"memory store {store!r} has no item {', '.join(repr(wanted) for wanted in missing)}.")
