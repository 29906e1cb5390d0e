"""`devmem forget` and `tombstones`: the commands that take items out of a memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.failures import EXIT_PARTLY
from devmem.cli.inputs import (
    Ids,
    check_all_there,
    full_ids,
    full_ids_in_workflow,
    full_run,
    full_scope_id,
    whole_id,
)
from devmem.cli.options import Selection, report_hidden, selecting
from devmem.cli.targets import (
    ANY_NUMBER,
    AsJson,
    MemoryPlace,
    OptionalStore,
    Session,
    StoreAddress,
    check_session,
    find_store,
    load,
    location_of,
    make,
    opened_existing,
    shown_store,
)
from devmem.cli.terminal import Terminal, can_ask, date_text, item_date, zoned
from devmem.config.workflow import Workflow
from devmem.errors import CommandError
from devmem.memory.opening import is_workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope, is_pinned
from devmem.storage.erasure import EraseRequest, Residue
from devmem.storage.opening import drop_location, file_of
from devmem.stores.abilities import tombstones_of
from devmem.stores.erasing import EraseSelection, execute, preview, select_erasure
from devmem.text.analysis import shorten
from devmem.text.display import number_of, one_line
from devmem.views.documents import receipt_json, receipt_lines, workflow_receipt_json, workflow_receipt_lines
from devmem.workflow.forgetting import WorkflowForgetting, WorkflowSelection

_SHOWN: Final = 5
"""Maximum number of items that are listed before the question."""
_SHORT_ID: Final = 8
_SNIPPET: Final = 70
"""Characters of a listed item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOptions:
    """Options of a forgetting."""

    session: str | None
    """The only session; None means all of a workflow, and the usual one of a single store."""
    vacuum: bool
    dry_run: bool
    yes: bool
    as_json: bool
    keep: int | None = None
    """Number of the items stored last that stay."""


def forget_in_workflow(terminal: Terminal, workflow: Workflow, request: EraseRequest, options: ForgetOptions) -> None:
    """Forget items in every store of a workflow, after asking, and print the receipt."""
    if options.session is not None:
        check_session(workflow, options.session)
    ids = full_ids_in_workflow(terminal, workflow, options.session or DEFAULT_SESSION, request.ids)
    request = replace(request, ids=_tuple(ids))
    with WorkflowForgetting(workflow, session=options.session) as forgetting:
        selection = forgetting.select(request, settle=not options.dry_run)
        _check_all_there(selection, request)
        items, derived = selection.items, {name for each in selection.targets for name in each.derived}
        if (items or selection.writes) and not options.dry_run and not options.yes:
            confirm_forgetting(terminal, items, derived, of=str(workflow.file or "the workflow"))
        receipt = (
            forgetting.preview(selection) if options.dry_run else forgetting.execute(selection, vacuum=options.vacuum)
        )
    if options.as_json:
        terminal.json(workflow_receipt_json(receipt, dry_run=options.dry_run))
    else:
        if options.dry_run:
            list_forgotten(terminal, items, derived)
        for line in workflow_receipt_lines(receipt, dry_run=options.dry_run):
            terminal.print(line)
    end_partly(receipt.left)


def _tuple(ids: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if ids is None else tuple(dict.fromkeys(ids))


def end_partly(residues: Iterable[Residue]) -> None:
    """End the command with `EXIT_PARTLY` where something went wrong in a place."""
    if any(left.failed for left in residues):
        raise typer.Exit(EXIT_PARTLY)


def _check_all_there(selection: WorkflowSelection, request: EraseRequest) -> None:
    """Raise `CommandError` when a named item is in no store."""
    there = {name for each in selection.targets for name in each.found}
    if missing := [name for name in request.ids or () if name not in there]:
        raise CommandError(f"no store has an item {', '.join(map(repr, missing))}.")


def confirm_forgetting(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str], *, of: str) -> None:
    """Ask for confirmation; raises `CommandError` when no one can answer, and ends the command unless it is yes."""
    count = number_of(len(items), "item")
    if not can_ask():
        raise CommandError(f"{count} of {of} would be forgotten, and there is no terminal to confirm it: add --yes.")
    list_forgotten(terminal, items, derived)
    typer.confirm(f"Forget {count} of {of}?", abort=True, err=True)


def list_forgotten(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str]) -> None:
    """Print some of the items that are to be forgotten."""
    for item in items[-_SHOWN:]:
        owner = f"  user {item.scope.user}" if item.scope.user else ""
        how = "  (derived)" if item.id in derived else ""
        text = shorten(one_line(item.content_summary), _SNIPPET)
        terminal.print(f"{item_date(item)}  {item.id}{how}{owner}  {text}")
    if len(items) > _SHOWN:
        terminal.print(f"and {len(items) - _SHOWN:,} more")


Matching: TypeAlias = Annotated[
    str | None,
    typer.Option("--matching", metavar="TEXT", help="Only items with this text in them or in their metadata."),
]
Source: TypeAlias = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Only items from this document or other source.")
]
Run: TypeAlias = Annotated[str | None, typer.Option("--run", metavar="ID", help="Only items that this run wrote.")]
Trace: TypeAlias = Annotated[str | None, typer.Option("--trace", metavar="ID", help="Only items of this trace.")]
Vacuum: TypeAlias = Annotated[
    bool, typer.Option("--vacuum", help="Rewrite the database even if nothing is left in its file.")
]
KeepOut: TypeAlias = Annotated[
    bool, typer.Option("--tombstone", help="Keep hashes, by which the store takes none of the texts again.")
]
OneSession: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--session", metavar="NAME", help="Only this session's `auto` files; for a workflow, all sessions by default."
    ),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Show what would be forgotten; change nothing.")]
Keep: TypeAlias = Annotated[
    int | None, typer.Option(min=0, metavar="N", help="Of those that match, keep the N stored last, and pinned ones.")
]
Drop: TypeAlias = Annotated[
    bool, typer.Option("--drop", help="Drop the store of a database with everything in it, in one transaction.")
]
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
    trace: Trace = None,
    keep: Keep = None,
    drop: Drop = False,
    vacuum: Vacuum = False,
    tombstone: KeepOut = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    session: OneSession = None,
    as_json: AsJson = False,
    *,
    selection: Selection,
) -> None:
    """Forget items permanently, and print a receipt.

    An item is forgotten if it matches every option, and with it its earlier versions and what was derived from it; of a
    workflow without a STORE in every store and session, with copies and with writes that wait for a store.
    Items of users are left out unless `--user`, `--all-users` or `--id` names them. The command lists some of the items
    and asks first. Afterwards it looks for their words and ids in the files, and prints which files hold nothing of
    them any more, and what was not reached, such as exports that were made before.

    Examples:
        devmem forget team.yaml --user ann
        devmem forget team.yaml notes --user ann --before 2025-01-01 --dry-run
        devmem forget notes.db --matching "blue folder" --tombstone
        devmem forget notes.db --where session=s1 --where metadata.room=5 --yes
        devmem forget notes.db --all-users --keep 1000
        devmem forget "postgresql://localhost/team?store=notes&tenant=acme" --drop
    """
    terminal: Terminal = ctx.obj
    given = {"text": matching, "source": source, "run": run, "trace": trace}
    if drop:
        selects = ids or keep is not None or any(given.values()) or selection != Selection(where=Filter())
        if selects or tombstone or dry_run or as_json:
            raise CommandError("--drop takes everything: it stands alone, or with --yes.")
        _drop(terminal, memory, store, session or DEFAULT_SESSION, yes=yes)
        return
    request = replace(_erasing(ids, selection, keep, **given), tombstone=tombstone)
    options = ForgetOptions(session=session, vacuum=vacuum, dry_run=dry_run, yes=yes, as_json=as_json, keep=keep)
    if keep is not None and (ids or matching is not None or run is not None):
        raise CommandError("--keep is by age: it cannot be combined with --id, --matching or --run.")
    if store is None and keep is None and is_workflow(memory):
        forget_in_workflow(terminal, load(terminal, Path(memory)), request, options)
    else:
        _forget_in_store(terminal, find_store(terminal, memory, store, session or DEFAULT_SESSION), request, options)


def _forget_in_store(terminal: Terminal, place: StoreAddress, request: EraseRequest, options: ForgetOptions) -> None:
    """Forget items of one store, after asking, and print the receipt."""
    with opened_existing(terminal, place, save=True) as opened:
        run = request.run and full_run([opened], request.run)
        scope = request.where.scope
        trace = scope.trace and full_scope_id(opened, "trace", scope.trace)
        where = replace(request.where, scope=replace(scope, trace=trace))
        request = replace(request, ids=_tuple(full_ids(opened, request.ids)), where=where, run=run)
        if options.keep is not None:
            older = opened.recent(ANY_NUMBER, where, offset=options.keep)
            request = replace(request, ids=tuple(item.id for item in older if not is_pinned(item)))
        selection = select_erasure(opened, request)
        check_all_there(opened.name, request.ids or (), selection.selected)
        if request.text is None and request.run is None:
            report_hidden(terminal, opened, request.where)
        if selection.items and not options.dry_run and not options.yes:
            confirm_forgetting(terminal, selection.items, selection.derived, of=place.store)
        receipt = preview(opened, selection) if options.dry_run else execute(opened, selection, vacuum=options.vacuum)
        total = opened.count()
    if options.as_json:
        terminal.json(receipt_json(receipt, total, dry_run=options.dry_run))
    else:
        lines = receipt_lines(receipt, total, dry_run=options.dry_run)
        _print(terminal, selection if options.dry_run else None, lines)
    end_partly(receipt.residues)


def _print(terminal: Terminal, listed: EraseSelection | None, lines: Iterable[str]) -> None:
    if listed is not None:
        list_forgotten(terminal, listed.items, listed.derived)
    for line in lines:
        terminal.print(line)


def _erasing(
    ids: Sequence[str] | None,
    selection: Selection,
    keep: int | None,
    *,
    text: str | None,
    source: str | None,
    run: str | None,
    trace: str | None,
) -> EraseRequest:
    """Return the items to forget; raises `CommandError` when nothing is selected."""
    given = {"--matching": text, "--source": source, "--run": run, "--trace": trace}
    for option, value in given.items():
        if value is not None and not value.strip():
            raise CommandError(f"{option} is empty. Is a variable not set?")
    where = selection.where
    named = any(value is not None for value in given.values())
    if not ids and not named and where.everything() and keep is None and not selection.all_users:
        raise CommandError(
            "nothing says what to forget: give --id, --user, --agent, --conversation, --where, --after, --before, "
            "--matching, --source, --run, --trace or --keep; --all-users alone forgets everything."
        )
    if source is not None and where.source_name is not None:
        raise CommandError("give either --source or --where source=NAME, not both.")
    where = where if ids else selection.visible  # an id is exact: it needs no user beside it
    if source is not None:
        where = replace(where, source_name=source)
    if trace is not None:
        where &= Filter(scope=Scope(trace=trace))
    return EraseRequest(ids=_tuple(ids or None), where=where, text=text, run=run)


def tombstones(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="ID", help="Remove those of this erasure; may be repeated.")
    ] = None,
    remove_all: Annotated[bool, typer.Option("--remove-all", help="Remove all of them.")] = False,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """List what erased texts left to keep them out, or remove it.

    Each line is an erasure with `--tombstone`: its time, and the number of texts, and of sentences within others, that
    the store takes no more. Nothing of the texts is kept. What is removed may be stored again.

    Examples:
        devmem tombstones notes.db
        devmem tombstones team.yaml notes --remove 5f2c
    """
    terminal: Terminal = ctx.obj
    if remove and remove_all:
        raise CommandError("give either --remove or --remove-all, not both.")
    place = find_store(terminal, memory, store, session)
    removes = bool(remove) or remove_all
    with opened_existing(terminal, place, save=removes, looking=not removes) as opened:
        kept = tombstones_of(opened)
        found = kept.tombstones()
        chosen = None if remove_all else [whole_id("erasure", one, [each.id for each in found]) for one in remove or ()]
        texts = kept.remove_tombstones(chosen) if removes else 0
    if removes:
        text = f"{place.store}: {number_of(texts, 'text')} may be stored again"
        terminal.answer({"store": place.store, "removed": texts}, text, as_json=as_json)
    elif as_json:
        terminal.json([asdict(each) for each in found])
    else:
        rows = [
            (each.id[:_SHORT_ID], date_text(each.erased_at), str(each.texts), str(each.sentences)) for each in found
        ]
        terminal.table(zoned(("id", "time", "texts", "sentences")), rows, numbers=("texts", "sentences"))


def _drop(terminal: Terminal, memory: str, store: str | None, session: str, *, yes: bool) -> None:
    """Drop a store of a database, after asking."""
    place = find_store(terminal, memory, store, session)
    location = location_of(make(place))
    if location is None or file_of(location) is not None:
        raise CommandError(f"memory store {place.store!r} is in no database; delete its files, or forget its items.")
    shown = shown_store(location, place.store)
    if not yes:
        if not can_ask():
            raise CommandError(f"{shown} would be dropped, and there is no terminal to confirm it: add --yes.")
        typer.confirm(f"Drop {shown} with everything in it?", abort=True, err=True)
    if not drop_location(location, place.store):
        raise CommandError(f"{shown}: there is no such store.")
    terminal.print(f"{shown}: dropped")
