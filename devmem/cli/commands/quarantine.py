"""`devmem quarantine`: what a store's guard caught, and the decision about it."""

from __future__ import annotations

from typing import Annotated

import typer

from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.inputs import full_id
from devmem.cli.targets import (
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    find_store,
    opened_existing,
)
from devmem.cli.terminal import Terminal, date_text, zoned
from devmem.memory.memory import Memory
from devmem.memory.records import MemoryRecord
from devmem.model.caller import DEFAULT_SESSION
from devmem.views.documents import current_item_json

_COLUMNS = ("stored", "deleted", "id", "source", "reason", "text")


def quarantine(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    approve: Annotated[
        str | None, typer.Option(metavar="ID", help="Take an item out of quarantine, so that searches find it.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="ID", help="Delete an item in quarantine.")] = None,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Reason of the decision, for the history.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items.")] = 20,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List what a guard caught, newest first, and approve or reject it.

    No search finds an item in quarantine. It is deleted when the time of the store's `guard: {keep: ...}` has passed.

    Examples:
        devmem quarantine team.yaml notes
        devmem quarantine team.yaml notes --approve 5f2c --reason "our own newsletter"
        devmem quarantine notes.db --reject 5f2c
    """
    terminal: Terminal = ctx.obj
    if approve is not None and reject is not None:
        raise CommandError("give either --approve or --reject.")
    if reason and approve is None and reject is None:
        raise CommandError("--reason is of --approve or --reject.")
    decides = approve or reject
    place = find_store(terminal, memory, store, session, reading=decides is None)
    with opened_existing(terminal, place, save=decides is not None, looking=decides is None) as opened, usage_errors():
        whole = Memory(opened)
        if approve is not None:
            record = whole.approve(full_id(opened, approve), reason=reason)
            terminal.answer(current_item_json(record.item), f"{place.store}: approved {record.id}", as_json=as_json)
        elif reject is not None:
            rejected = full_id(opened, reject)
            whole.reject(rejected, reason=reason)
            terminal.answer({"rejected": rejected}, f"{place.store}: rejected {rejected}", as_json=as_json)
        else:
            _print(terminal, list(whole.quarantined(limit)), as_json=as_json)


def _print(terminal: Terminal, records: list[MemoryRecord], *, as_json: bool) -> None:
    if as_json:
        terminal.json([current_item_json(record.item) for record in records])
    elif not records:
        terminal.print("nothing is in quarantine")
    else:
        terminal.table(zoned(_COLUMNS), [_row(record) for record in records])


def _row(record: MemoryRecord) -> tuple[str, ...]:
    item = record.item
    source = f"{item.provenance.kind.value} {item.provenance.name}".strip()
    until = date_text(item.expires_at)
    return date_text(item.created_at), until, item.id, source, record.quarantine_reason or "", item.content_summary
