"""Options and helpers for reading items out of a store: which, in which order, and into which file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.ids import full_ids
from devmem.cli.targets import StoreAddress, make, why_empty
from devmem.cli.terminal import Terminal
from devmem.model.conditions import Order
from devmem.text.files import replace_file

if TYPE_CHECKING:
    from devmem.model.filters import Filter
    from devmem.model.items import MemoryItem
    from devmem.stores.memory import MemoryBase

STDIN: Final = "-"
"""Argument that stands for standard input."""
UTF8_MARK: Final = b"\xef\xbb\xbf"
"""First bytes of a text that some editors save as UTF-8."""


def read_stdin() -> str:
    """Return all of standard input as one text."""
    return sys.stdin.buffer.read().removeprefix(UTF8_MARK).decode("utf-8", "replace").strip()


Ids: TypeAlias = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this item; may be repeated.")
]
Newest: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items; all by default.")
]
ListOrder: TypeAlias = Annotated[
    Order,
    typer.Option("--order", help="`stored`: in the order of storing; `event`: by event time, then `sequence`."),
]
Offset: TypeAlias = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="Number of the newest items to skip.")
]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; stdout by default.")
]


def check_anything_there(address: StoreAddress) -> None:
    """Raise `CommandError` when nothing was ever written to the store: an empty file would be of no use."""
    if (reason := why_empty(make(address))) is not None:
        raise CommandError(f"{reason}; nothing was written.")


def check_output(address: StoreAddress, output: Path | None) -> None:
    """Raise `CommandError` when the file to write is the workflow, a file of the store, or any database."""
    if output is None:
        return
    # Only commands that write a file need what reads data files.
    from devmem.transfer.importing.files import is_sqlite

    place = Path(os.path.realpath(output))
    workflow = address.workflow
    own = [*make(address).files(), *([workflow.file] if workflow.file is not None else [])]
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
    if ids := full_ids(memory, ids):
        found = memory.get(ids)
        check_all_there(memory.name, ids, found)
        yield from found
    elif newest is not None:
        yield from reversed(memory.recent(newest, where, order=order))
    else:
        from devmem.stores.abilities import every_item

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
