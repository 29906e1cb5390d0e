"""`devmem restore`: put a backup in place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmem.cli import describe
from devmem.cli.places import require_file
from devmem.cli.terminal import Terminal
from devmem.collections.sqlite import backup as backups


def restore(
    ctx: typer.Context,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="File that `devmem backup` wrote.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="SQLite file of the store.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the items of an existing file.")] = False,
) -> None:
    """Put a backup in place.

    A copy by hand can be damaged by the log (`-wal`) of the old file; this removes it, or replaces the items of an
    existing file in one transaction. A damaged backup is refused, and a damaged file is left as it is.

    Examples:
        devmem restore notes-2026-06-02.db notes.db
    """
    terminal: Terminal = ctx.obj
    require_file(file, "fill a store from a file with `devmem copy`")
    items = backups.restore(backup, file, force=force)
    terminal.print(f"{file}: {describe.items_text(items)}")
