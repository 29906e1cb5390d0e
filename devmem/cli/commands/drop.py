"""`devmem drop`: delete a store of a database as a whole."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, location_of, make, shown_store
from devmem.collections import drop_location, file_of
from devmem.runtime import DEFAULT_SESSION


def drop(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Drop a store of a database as a whole.

    Its items, attachments and states go in one transaction; other stores stay. A store that was created with
    `partition=on` is dropped at once, however large it is. A store in a file is dropped by deleting its files.

    Examples:
        devmem drop "postgresql://localhost/team?store=notes&tenant=acme"
        devmem drop team.yaml notes --yes
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store)
    location = location_of(make(place.workflow, place.store, session))
    if location is None or file_of(location) is not None:
        raise CommandError(f"memory store {place.store!r} is in no database; delete its files, or use `devmem forget`.")
    shown = shown_store(location, place.store)
    if not yes:
        if not sys.stdin.isatty():
            raise CommandError(f"{shown} would be dropped, and nobody can be asked here: add --yes.")
        typer.confirm(f"Drop {shown} with everything in it?", abort=True, err=True)
    if not drop_location(location, place.store):
        raise CommandError(f"{shown}: there is no such store.")
    terminal.print(f"{shown}: dropped")
