"""`devmem export`: write a store's items into a file to import or to read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.filter_options import Selection, selecting
from devmem.cli.item_selection import Ids, ListOrder, Newest, Output, check_anything_there, check_output, deliver, pick
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsOf, Session, opened
from devmem.collections import Filter, Order
from devmem.model.items import MemoryItem
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase
from devmem.stores.exports import record_export
from devmem.transfer.exporting import json_parts, markdown_parts, snapshot_of


class SnapshotFormat(StrEnum):
    """Formats of an export."""

    JSON = "json"
    MARKDOWN = "markdown"


_BY_SUFFIX: Final = {".md": SnapshotFormat.MARKDOWN, ".markdown": SnapshotFormat.MARKDOWN}


@selecting()
def export(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    snapshot_format: Annotated[
        SnapshotFormat | None,
        typer.Option("--format", help="`json` to import, `markdown` to read; without it, the suffix of FILE decides."),
    ] = None,
    output: Output = None,
    ids: Ids = None,
    newest: Newest = None,
    order: ListOrder = Order.STORED,
    session: Session = DEFAULT_SESSION,
    as_of: AsOf = None,
    *,
    selection: Selection,
) -> None:
    """Write a store's items as JSON or Markdown.

    `devmem import` reads the JSON back without loss. Attachments that the store keeps in files are included.
    Embeddings are not: the store that imports the items makes its own. The store records the export, so that
    `devmem forget` names it where it may hold what is forgotten.

    Examples:
        devmem export notes.db --output notes.json
        devmem export configs/demo/team.yaml notes --session demo --output notes.json
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store, reading=True)
    check_anything_there(place.workflow, place.store, session)
    check_output(place.workflow, place.store, session, output)
    lost: list[str] = []
    with opened(terminal, place.workflow, place.store, session, as_of=as_of) as source:
        now = nullcontext(source) if as_of is None else opened(terminal, place.workflow, place.store, session)
        count = _count(source, ids, newest, selection.where)
        record = partial(_record, terminal, now, output, items=count, where=selection.where, ids=ids or ())
        items = _recorded(pick(source, ids, newest, selection.where, order), record)
        parts = markdown_parts if _format(snapshot_format, output) is SnapshotFormat.MARKDOWN else json_parts
        deliver(terminal, parts(snapshot_of(source, items, lost.append)), output)
    for told in lost:
        terminal.report("error", told)
    if lost:
        raise typer.Exit(EXIT_PARTLY)


def _recorded(items: Iterable[MemoryItem], record: Callable[[], None]) -> Iterator[MemoryItem]:
    """Yield items, after a call of `record` before the first: an export that is cut off has left with some, too."""
    is_recorded = False
    for item in items:
        if not is_recorded:
            record()
            is_recorded = True
        yield item


def _record(
    terminal: Terminal,
    kept: AbstractContextManager[MemoryBase],
    output: Path | None,
    *,
    items: int,
    where: Filter,
    ids: Sequence[str],
) -> None:
    made = str(output.absolute()) if output is not None else ""
    with kept as store:
        if reason := record_export(store, made, items=items, where=where, ids=ids):
            terminal.report("note", reason)


def _count(source: MemoryBase, ids: Sequence[str] | None, newest: int | None, where: Filter) -> int:
    if ids:
        return len(set(ids))
    count = source.count_memories(where)
    return count if newest is None else min(count, newest)


def _format(given: SnapshotFormat | None, output: Path | None) -> SnapshotFormat:
    return given or _BY_SUFFIX.get(output.suffix.lower() if output else "", SnapshotFormat.JSON)
