"""`devmem show`: list the newest items of a memory, or show items by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated

import typer

from devmem.cli.describe import date_text, item_date
from devmem.cli.filter_options import Selection, selecting
from devmem.cli.item_selection import ListOrder, Offset, check_all_there
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, AsOf, Session, opened_if_written
from devmem.collections import Order
from devmem.model.indexed_fields import has_text
from devmem.model.items import MemoryItem, Scope
from devmem.runtime import DEFAULT_SESSION
from devmem.views import item_json

_COLUMNS = ("date", "id", "source", "text")
_DETAILS = (
    "date",
    "stored",
    "expires",
    "id",
    "hash",
    "waiting",
    "trust",
    "kind",
    "source",
    "made from",
    "scope",
    "input",
    "output",
    "attachments",
    "metadata",
    "text",
)
_NUMBERS = ("trust", "input", "output", "attachments")


@selecting()
def show(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="Show this item whole; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items.")] = 10,
    order: ListOrder = Order.STORED,
    offset: Offset = 0,
    as_of: AsOf = None,
    details: Annotated[
        bool, typer.Option("--details", help="Show all metadata of each item, not only its text.")
    ] = False,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
) -> None:
    """Show the newest items, or whole items by id.

    Examples:
        devmem show notes.db
        devmem show notes.db --where "metadata.priority>=3" --order event --offset 10
        devmem show notes.db --as-of 2026-06-02T14:30
        devmem show configs/demo/team.yaml notes --session demo --limit 3
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store, reading=True)
    has_model = False
    items: list[MemoryItem] = []
    with opened_if_written(terminal, place.workflow, place.store, session, as_of=as_of) as opened:
        if opened is not None:
            items = opened.get(ids) if ids else opened.recent(limit, selection.where, order=order, offset=offset)
            has_model = opened.info().embedding is not None
    if details and not as_json:
        terminal.table(_DETAILS, [_details(item, has_model=has_model) for item in items], numbers=_NUMBERS)
    else:
        _print(terminal, items, whole=bool(ids), as_json=as_json)
    check_all_there(place.store, ids or (), items)


def _print(terminal: Terminal, items: Sequence[MemoryItem], *, whole: bool, as_json: bool) -> None:
    if as_json:
        terminal.json([item_json(item) for item in items])
    elif whole:
        for item in items:
            terminal.json(item_json(item), indent=2)
    else:
        terminal.table(_COLUMNS, [_row(item) for item in items])


def _row(item: MemoryItem) -> Sequence[str]:
    return item_date(item), item.id, item.provenance.name, item.content_summary


def _details(item: MemoryItem, *, has_model: bool) -> Sequence[str]:
    """Return the cells of `_DETAILS`; an item without an embedding waits for it if its store has a model."""
    snapshots = (item.input_snapshot, item.output_snapshot)
    attached = sum(len(snapshot.attachment_overview()) for snapshot in snapshots if snapshot)
    bound = ((part.name, getattr(item.scope, part.name)) for part in fields(Scope))
    return (
        item_date(item),
        date_text(item.created_at),
        date_text(item.expires_at),
        item.id,
        item.content_hash[:12],
        "yes" if has_model and item.embedding is None and has_text(item) else "",
        f"{item.trust:g}",
        item.provenance.kind.value,
        item.provenance.name,
        ", ".join(item.provenance.parents),
        ", ".join(f"{name}={value}" for name, value in bound if value is not None),
        *(str(len(snapshot.text)) if snapshot else "" for snapshot in snapshots),
        str(attached) if attached else "",
        ", ".join(item.metadata),
        item.content_summary,
    )
