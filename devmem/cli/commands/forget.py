"""`devmem forget`: delete items by id, scope or filter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from devmem.cli.describe import item_date, items_text
from devmem.cli.failures import CommandError
from devmem.cli.filter_options import Selection, report_hidden, selecting
from devmem.cli.item_selection import Ids, check_all_there
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_to_change
from devmem.collections import Filter
from devmem.model.items import MemoryItem
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import MemoryBase
from devmem.text.display import one_line
from devmem.text.sentences import shorten

_SHOWN: Final = 5
"""Maximum number of items that are listed before the question."""
_SNIPPET: Final = 70
"""Characters of a listed item."""


@selecting(by_user=True)
def forget(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    ids: Ids = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Forget items by id, scope or filter.

    An item is forgotten if it matches every option. Items of users are left out unless `--user`, `--all-users` or
    `--id` names them. The command lists some of the items and asks before it forgets them, and their earlier versions
    with them.

    Examples:
        devmem forget notes.db --id 5f2c
        devmem forget team.yaml notes --user ann --before 2025-01-01 --dry-run
        devmem forget notes.db --where session=s1 --where metadata.room=5 --yes
    """
    terminal: Terminal = ctx.obj
    matching = _filter(ids, selection)
    place = find_place(terminal, memory, store)
    with opened_to_change(terminal, place.workflow, place.store, session) as opened:
        count, listed = _selected(opened, ids, matching)
        report_hidden(terminal, opened, matching)
        if count and not dry_run and not yes:
            _ask(terminal, place.store, count, listed)
        forgotten = 0 if dry_run or not count else _forget(opened, ids, matching)
        total = opened.count_memories()
    key = "would_forget" if dry_run else "forgotten"
    changed = count if dry_run else forgotten
    if as_json:
        terminal.json({"store": place.store, key: changed, "items": total})
        return
    if dry_run:
        _list(terminal, listed, count)
    what = key.replace("would_forget", "would be forgotten")
    terminal.print(f"{place.store}: {items_text(changed)} {what}; {items_text(total)} now")


def _filter(ids: Sequence[str] | None, selection: Selection) -> Filter:
    """Return the filter of what is to be forgotten; raises `CommandError` when nothing is selected."""
    if ids:
        return selection.where  # an id is exact: it needs no user beside it
    if selection.where.everything() and not selection.all_users:
        raise CommandError(
            "nothing says what to forget: give --id, --user, --agent, --conversation, --where, --after or --before; "
            "--all-users alone forgets everything."
        )
    return selection.visible


def _selected(store: MemoryBase, ids: Sequence[str] | None, where: Filter) -> tuple[int, list[MemoryItem]]:
    """Return the number of matching items and some of them; raises `CommandError` when a named one is missing."""
    if not ids:
        return store.count_memories(where), store.recent(_SHOWN, where)
    named = _named(store, ids, where)
    return len(named), named[:_SHOWN]


def _named(store: MemoryBase, ids: Sequence[str], where: Filter) -> list[MemoryItem]:
    found = store.get(list(dict.fromkeys(ids)))
    check_all_there(store.name, ids, found)
    now = store.setup.clock()
    return [item for item in found if where.admits(item, now)]


def _forget(store: MemoryBase, ids: Sequence[str] | None, where: Filter) -> int:
    if not ids:
        return store.erase(where=where)
    return store.erase(ids=[item.id for item in _named(store, ids, where)])


def _ask(terminal: Terminal, store: str, count: int, listed: Sequence[MemoryItem]) -> None:
    """Ask for confirmation; raises `CommandError` when nobody can answer, and ends the command unless it is yes."""
    if not _can_ask():
        raise CommandError(
            f"{items_text(count)} of {store} would be forgotten, and nobody can be asked here: add --yes."
        )
    _list(terminal, listed, count)
    typer.confirm(f"Forget {items_text(count)} of {store}?", abort=True, err=True)


def _can_ask() -> bool:
    return sys.stdin.isatty()


def _list(terminal: Terminal, listed: Sequence[MemoryItem], count: int) -> None:
    for item in listed:
        owner = f"  user {item.scope.user}" if item.scope.user else ""
        terminal.print(f"{item_date(item)}  {item.id}{owner}  {shorten(one_line(item.content_summary), _SNIPPET)}")
    if count > len(listed):
        terminal.print(f"and {count - len(listed):,} more")
