"""Which of a store's items a command is about, and where what it makes of them goes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import make, why_empty
from devmem.collections import Filter
from devmem.config import Workflow
from devmem.model.items import MemoryItem
from devmem.stores import MemoryBase
from devmem.text.atomic_write import replace_file
from devmem.transfer import every_item

Ids: TypeAlias = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this item. May be repeated.")
]
Newest: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="Only so many of the newest items; all without it.")
]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here, not to stdout.")
]


def check_anything_there(workflow: Workflow, store: str, session: str) -> None:
    """Make sure that the store was written to before; raises `CommandError`, because an empty file helps nobody."""
    if (reason := why_empty(make(workflow, store, session))) is not None:
        raise CommandError(f"{reason}; nothing was written.")


def pick(memory: MemoryBase, ids: Sequence[str] | None, newest: int | None, where: Filter) -> Iterator[MemoryItem]:
    """Give the items, oldest first; raises `CommandError` when one that is named is not there."""
    if ids:
        found = memory.get(ids)
        check_all_there(memory.name, ids, found)
        yield from found
    elif newest is not None:
        yield from reversed(memory.recent(newest, where))
    else:
        yield from every_item(memory, where)


def check_all_there(store: str, ids: Sequence[str], found: Sequence[MemoryItem]) -> None:
    """Raise `CommandError` when an item that is named is not among those that were found."""
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
