"""Options that select items of a store, and the file that a command writes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import make, why_empty
from devmem.collections import Filter, Order
from devmem.config import Workflow
from devmem.model.items import MemoryItem
from devmem.stores import MemoryBase
from devmem.text.atomic_write import replace_file
from devmem.transfer import every_item
from devmem.transfer.importing.files import is_sqlite

Ids: TypeAlias = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this item; may be repeated.")
]
Newest: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items; without it, all.")
]
ListOrder: TypeAlias = Annotated[
    Order,
    typer.Option("--order", help="`stored`: in which they were stored; `event`: by when it happened, then `sequence`."),
]
Offset: TypeAlias = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="Number of the newest items to pass over.")
]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; without it, stdout.")
]


def check_anything_there(workflow: Workflow, store: str, session: str) -> None:
    """Raise `CommandError` when nothing was ever written to the store: an empty file would help nobody."""
    if (reason := why_empty(make(workflow, store, session))) is not None:
        raise CommandError(f"{reason}; nothing was written.")


def check_output(workflow: Workflow, store: str, session: str, output: Path | None) -> None:
    """Raise `CommandError` when the file to write is the workflow, a file of the store, or any database."""
    if output is None:
        return
    place = Path(os.path.realpath(output))
    own = [*make(workflow, store, session).files(), *([workflow.file] if workflow.file is not None else [])]
    if any(_is_in(place, Path(os.path.realpath(file))) for file in own):
        raise CommandError(f"{output} belongs to the memory itself and was not changed; name another file.")
    if place.is_file() and is_sqlite(place):
        raise CommandError(f"{output} is a database and was not changed; name another file.")


def _is_in(place: Path, kept: Path) -> bool:
    """Whether a file is another one, also by a second name of it, or is in that folder."""
    return kept == place or kept in place.parents or (place.exists() and kept.exists() and place.samefile(kept))


def pick(
    memory: MemoryBase, ids: Sequence[str] | None, newest: int | None, where: Filter, order: Order = Order.STORED
) -> Iterator[MemoryItem]:
    """Return the items, oldest first in their order; raises `CommandError` when a named one is missing."""
    if ids:
        found = memory.get(ids)
        check_all_there(memory.name, ids, found)
        yield from found
    elif newest is not None:
        yield from reversed(memory.recent(newest, where, order=order))
    else:
        yield from every_item(memory, where, order)


def check_all_there(store: str, ids: Sequence[str], found: Sequence[MemoryItem]) -> None:
    """Raise `CommandError` when a named item is not among those that were found."""
    there = {item.id for item in found}
    if missing := [wanted for wanted in ids if wanted not in there]:
        raise CommandError(f"memory store {store!r} has no item {', '.join(repr(wanted) for wanted in missing)}.")


def deliver(terminal: Terminal, parts: Iterable[str], output: Path | None) -> None:
    """Write the parts into the file as a whole, or print them."""
    if output is None:
        for part in parts:
            terminal.write(part)
        terminal.out.file.flush()
        return
    replace_file(output, (part.encode("utf-8") for part in parts))
    terminal.report("note", f"written to {output}")
