"""`devmem forget`: forget items for good, down to the bytes of the files, and print a receipt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.filter_options import Selection, report_hidden, selecting
from devmem.cli.item_selection import Ids, check_all_there
from devmem.cli.places import MemoryPlace, OptionalStore, Place, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_forgetting import (
    ForgetOptions,
    confirm_forgetting,
    end_partly,
    forget_in_workflow,
    list_forgotten,
)
from devmem.cli.workflow_stores import AsJson, load, opened_to_change
from devmem.collections import Erasing
from devmem.memory.places import is_workflow
from devmem.runtime import DEFAULT_SESSION
from devmem.stores.forgetting import ForgetPlan, plan_forgetting, preview
from devmem.stores.forgetting import forget as forget_planned
from devmem.views.receipts import receipt_json, receipt_lines

Matching: TypeAlias = Annotated[
    str | None, typer.Option("--matching", metavar="TEXT", help="Only items with this text in them, in any case.")
]
Source: TypeAlias = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Only items from this document or other source.")
]
Run: TypeAlias = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only items that this run wrote.")]
Vacuum: TypeAlias = Annotated[
    bool, typer.Option("--vacuum", help="Rewrite the database even if nothing is left in its file.")
]
OneSession: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="NAME", help="Only this session's `auto` files; of a workflow, else those of all."
    ),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@selecting(by_user=True)
def forget(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    ids: Ids = None,
    matching: Matching = None,
    source: Source = None,
    run: Run = None,
    vacuum: Vacuum = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    session: OneSession = None,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Forget items for good, and print a receipt.

    An item is forgotten if it matches every option, and with it its earlier versions and what was derived from it; of a
    workflow without a STORE in every store and session, with copies and with writes that wait for a store.
    Items of users are left out unless `--user`, `--all-users` or `--id` names them. The command lists some of the items
    and asks first. Afterwards it looks for their words and ids in the files, and prints which files hold nothing of
    them any more, and what was not reached, such as exports that were made before.

    Examples:
        devmem forget team.yaml --user ann
        devmem forget team.yaml notes --user ann --before 2025-01-01 --dry-run
        devmem forget notes.db --matching "blue folder" --vacuum
        devmem forget notes.db --where session=s1 --where metadata.room=5 --yes
    """
    terminal: Terminal = ctx.obj
    erasing = _erasing(ids, selection, text=matching, source=source, run=run)
    options = ForgetOptions(session=session, vacuum=vacuum, dry_run=dry_run, yes=yes, as_json=as_json)
    if store is None and is_workflow(memory):
        forget_in_workflow(terminal, load(terminal, Path(memory)), erasing, options)
    else:
        _forget_in_store(terminal, find_place(terminal, memory, store), erasing, options)


def _forget_in_store(terminal: Terminal, place: Place, erasing: Erasing, options: ForgetOptions) -> None:
    """Forget items of one store, after asking, and print the receipt."""
    with opened_to_change(terminal, place.workflow, place.store, options.session or DEFAULT_SESSION) as opened:
        plan = plan_forgetting(opened, erasing)
        check_all_there(opened.name, erasing.ids or (), plan.selected)
        if erasing.text is None and erasing.run is None:
            report_hidden(terminal, opened, erasing.where)
        if plan.items and not options.dry_run and not options.yes:
            confirm_forgetting(terminal, plan.items, {item.id for item in plan.derived}, of=place.store)
        receipt = preview(opened, plan) if options.dry_run else forget_planned(opened, plan, vacuum=options.vacuum)
        total = opened.count_memories()
    if options.as_json:
        terminal.json(receipt_json(receipt, total, dry_run=options.dry_run))
    else:
        lines = receipt_lines(receipt, total, dry_run=options.dry_run)
        _print(terminal, plan if options.dry_run else None, lines)
    end_partly(receipt.unreached)


def _print(terminal: Terminal, listed: ForgetPlan | None, lines: Iterable[str]) -> None:
    if listed is not None:
        list_forgotten(terminal, listed.items, {item.id for item in listed.derived})
    for line in lines:
        terminal.print(line)


def _erasing(
    ids: Sequence[str] | None, selection: Selection, *, text: str | None, source: str | None, run: str | None
) -> Erasing:
    """Return the items to forget; raises `CommandError` when nothing is selected."""
    given = {"--matching": text, "--source": source, "--run": run}
    for option, value in given.items():
        if value is not None and not value.strip():
            raise CommandError(f"{option} is empty. Is a variable not set?")
    where = selection.where
    named = any(value is not None for value in given.values())
    if not ids and not named and where.everything() and not selection.all_users:
        raise CommandError(
            "nothing says what to forget: give --id, --user, --agent, --conversation, --where, --after, --before, "
            "--matching, --source or --run; --all-users alone forgets everything."
        )
    if source is not None and where.source_name is not None:
        raise CommandError("give either --source or --where source=NAME, not both.")
    where = where if ids else selection.visible  # an id is exact: it needs no user beside it
    if source is not None:
        where = replace(where, source_name=source)
    return Erasing(ids=tuple(dict.fromkeys(ids)) if ids else None, where=where, text=text, run=run)
