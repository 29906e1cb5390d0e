"""`devmem trim`: delete the oldest items by number, age or tokens."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import CommandError
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_to_change
from devmem.recording import TokenTrimming
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase
from devmem.transfer.importing import parse_time


def trim(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    keep: Annotated[int | None, typer.Option(min=0, metavar="N", help="Keep the N items stored last.")] = None,
    before: Annotated[str | None, typer.Option(metavar="DATE", help="Delete what was stored before this date.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Keep the newest items within N estimated tokens.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Delete the oldest items.

    Items of every user count alike. `--max-tokens` is for stores of the type `conversation`: where the newest record
    alone has more tokens, its text is shortened.

    Examples:
        devmem trim notes.db --keep 1000
        devmem trim team.yaml global --before 2025-01-01 --max-tokens 100000 --yes
    """
    terminal: Terminal = ctx.obj
    stored_before = _time(before)
    if keep is None and stored_before is None and max_tokens is None:
        raise CommandError("nothing says what to delete: give --keep, --before or --max-tokens.")
    place = find_place(terminal, memory, store)
    with opened_to_change(terminal, place.workflow, place.store, session) as opened:
        if max_tokens is not None and not isinstance(opened, TokenTrimming):
            raise CommandError(f"memory store {place.store!r} counts no tokens; one of type `conversation` does.")
        if not yes:
            _ask(opened)
        deleted = opened.trim(keep=keep, stored_before=stored_before) if (keep, stored_before) != (None, None) else 0
        if max_tokens is not None and isinstance(opened, TokenTrimming):
            deleted += opened.trim_to_tokens(max_tokens)
        total = opened.count_memories()
    if as_json:
        terminal.json({"store": place.store, "deleted": deleted, "items": total})
    else:
        terminal.print(f"{place.store}: {items_text(deleted)} deleted; {items_text(total)} now")


def _time(raw: str | None) -> float | None:
    try:
        return None if raw is None else parse_time(raw)
    except ValueError as error:
        raise CommandError(f"--before: {error}") from error


def _ask(store: MemoryBase) -> None:
    """Ask for confirmation; raises `CommandError` when nobody can answer, and ends the command unless it is yes."""
    if not sys.stdin.isatty():
        raise CommandError(f"items of {store.name} would be deleted, and nobody can be asked here: add --yes.")
    typer.confirm(f"Trim {store.name}, which has {items_text(store.count_memories())}?", abort=True, err=True)
