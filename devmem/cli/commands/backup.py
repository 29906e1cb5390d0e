"""`devmem backup`: copy the file of a store while it is in use."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from devmem.cli.describe import items_text
from devmem.cli.places import require_file
from devmem.cli.terminal import Terminal
from devmem.collections.sqlite.backup import back_up
from devmem.collections.sqlite.exports import record_backup
from devmem.errors import CollectionError


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SQLite file of a store.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; it must not exist.")],
) -> None:
    """Copy the file of a store while it is in use.

    The copy is consistent and checked, whoever writes meanwhile. It is a store's file itself: every command reads it.
    FILE records that it was made, so that `devmem forget` names it.

    Examples:
        devmem backup notes.db notes-2026-06-02.db
    """
    terminal: Terminal = ctx.obj
    require_file(file, "back it up with its server (`pg_dump`), or write one store into a file with `devmem copy`")
    items = back_up(file, out)
    try:
        record_backup(file, out, items=items, made_at=time.time())
    except CollectionError as error:
        terminal.report("warning", f"`devmem forget` will not name this backup: {error}")
    terminal.print(f"{out}: {items_text(items)}")
