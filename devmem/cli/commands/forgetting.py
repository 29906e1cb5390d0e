"""`devmem forget`: takes items, stores and tombstones out of a memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic_core import to_jsonable_python

from devmem.cli.declaring import OptionGroup, option
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
from devmem.cli.options import Selection, VisibleSelection, report_hidden
from devmem.cli.targets import (
    ANY_NUMBER,
    JsonTerminal,
    MemoryPlace,
    OptionalStore,
    StoreAddress,
    check_session,
    find_store,
    load,
    shown_store,
)
from devmem.cli.terminal import Terminal, can_ask, item_date
from devmem.errors import CommandError
from devmem.memory.opening import is_workflow
from devmem.model.caller import DEFAULT_SESSION
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem, Scope, is_pinned
from devmem.storage.erasure import EraseRequest
from devmem.storage.opening import drop_location, file_of
from devmem.stores.abilities import tombstones_of
from devmem.stores.erasing import ForgetReceipt, execute, preview, select_erasure
from devmem.text.analysis import shorten
from devmem.text.display import number_of, one_line
from devmem.views.receipts import receipt_lines, workflow_receipt_lines
from devmem.workflow.forgetting import WorkflowForgetting, WorkflowReceipt
from devmem.workflow.stores import location_of

_SHOWN: Final = 5
"""Maximum number of items that are listed before the question."""
_SNIPPET: Final = 70
"""Characters of a listed item."""
_ALL: Final = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(OptionGroup):
    """Items to forget, beside what the options of every selection name."""

    ids: Ids = None
    matching: Annotated[
        str | None, option("Only items with this text in them or in their metadata.", metavar="TEXT")
    ] = None
    source: Annotated[str | None, option("Only items from this document or other source.", metavar="NAME")] = None
    run: Annotated[str | None, option("Only items that this run wrote.", metavar="ID")] = None
    trace: Annotated[str | None, option("Only items of this trace.", metavar="ID")] = None
    keep: Annotated[
        int | None, option("Of those that match, keep the N stored last, and pinned ones.", min=0, metavar="N")
    ] = None

    def request(self, selection: Selection, *, tombstone: bool) -> EraseRequest:
        """Return the items to forget; raises `CommandError` when nothing is selected."""
        named = {"--matching": self.matching, "--source": self.source, "--run": self.run, "--trace": self.trace}
        for name, value in named.items():
            if value is not None and not value.strip():
                raise CommandError(f"{name} is empty. Is a variable not set?")
        if self == Choice() and selection.filter.everything() and not selection.all_users:
            raise CommandError(
                "nothing is selected: give --id, --user, --agent, --conversation, --where, --after, --before, "
                "--matching, --source, --run, --trace or --keep; --all-users alone forgets everything."
            )
        if self.source is not None and selection.filter.source_name is not None:
            raise CommandError("give either --source or --where source=NAME, not both.")
        where = selection.filter if self.ids else selection.visible  # an id is exact: it needs no user beside it
        if self.source is not None:
            where = replace(where, source_name=self.source)
        if self.trace is not None:
            where &= Filter(scope=Scope(trace=self.trace))
        ids = tuple(self.ids) if self.ids else None
        return EraseRequest(ids=ids, where=where, text=self.matching, run=self.run, tombstone=tombstone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner(OptionGroup):
    """How items are forgotten."""

    vacuum: Annotated[bool, option("Rewrite the database even if nothing is left in its file.")] = False
    tombstone: Annotated[bool, option("Keep hashes, by which the store takes none of the texts again.")] = False
    dry_run: Annotated[bool, option("Show what would be forgotten; change nothing.")] = False
    yes: Annotated[bool, option("Do not ask.", "--yes", "-y")] = False


def forget(
    terminal: JsonTerminal,
    memory: MemoryPlace,
    selection: VisibleSelection,
    choice: Choice,
    manner: Manner,
    store: OptionalStore = None,
    drop: Annotated[bool, option("Drop the store of a database with everything in it, in one transaction.")] = False,
    lift: Annotated[
        list[str] | None, option("Remove the tombstones of this erasure, or `all`; may be repeated.", metavar="ID")
    ] = None,
    session: Annotated[
        str | None, option("Only this session's `auto` files; for a workflow, all sessions by default.", metavar="NAME")
    ] = None,
) -> None:
    """Forget items permanently, and print a receipt.

    An item is forgotten if it matches every option, and with it its earlier versions and what was derived from it; of a
    workflow without a STORE in every store and session, with copies and with writes that wait for a store.
    Items of users are left out unless `--user`, `--all-users` or `--id` names them. The command lists some of the items
    and asks first. Afterwards it looks for their words and ids in the files, and prints which files hold nothing of
    them any more, and what was not reached, such as exports that were made before.

    `devmem list --tombstones` lists what `--tombstone` keeps out; `--lift` lets the store take such texts again.

    Examples:
        devmem forget team.yaml --user ann
        devmem forget team.yaml notes --user ann --before 2025-01-01 --dry-run
        devmem forget notes.db --matching "blue folder" --tombstone
        devmem forget notes.db --where session=s1 --where metadata.room=5 --yes
        devmem forget notes.db --all-users --keep 1000
        devmem forget notes.db --lift 5f2c
        devmem forget "postgresql://localhost/team?store=notes&tenant=acme" --drop
    """
    if drop or lift:
        selects = choice != Choice() or not selection.is_empty()
        if (drop and lift) or selects or manner.tombstone or manner.dry_run or (drop and terminal.as_json):
            raise CommandError("--drop and --lift cannot be combined with other options that select items.")
        place = find_store(terminal, memory, [store] if store else [], session or DEFAULT_SESSION)
        if lift:
            _lift(terminal, place, lift)
        else:
            _drop(terminal, place, yes=manner.yes)
        return
    if choice.keep is not None and (choice.ids or choice.matching is not None or choice.run is not None):
        raise CommandError("--keep is by age: it cannot be combined with --id, --matching or --run.")
    request = choice.request(selection, tombstone=manner.tombstone)
    if store is None and choice.keep is None and is_workflow(memory):
        _forget_in_workflow(terminal, Path(memory), request, session, manner)
    else:
        place = find_store(terminal, memory, [store] if store else [], session or DEFAULT_SESSION)
        _forget_in_store(terminal, place, request, choice.keep, manner)


def _forget_in_workflow(
    terminal: Terminal,
    file: Path,
    request: EraseRequest,
    session: str | None,
    manner: Manner,
) -> None:
    """Forget items in every store of a workflow, after asking, and print the receipt."""
    workflow, dry_run = load(terminal, file), manner.dry_run
    if session is not None:
        check_session(workflow, session)
    if request.ids:
        ids = full_ids_in_workflow(terminal, workflow, session or DEFAULT_SESSION, request.ids)
        request = replace(request, ids=tuple(ids))
    with WorkflowForgetting(workflow, session=session) as forgetting:
        selection = forgetting.select(request, settle=not dry_run)
        there = {name for each in selection.targets for name in each.found}
        if missing := [name for name in request.ids or () if name not in there]:
            raise CommandError(f"no store has an item {', '.join(map(repr, missing))}.")
        items, derived = selection.items, {name for each in selection.targets for name in each.derived}
        if (items or selection.writes) and not dry_run and not manner.yes:
            _confirm(terminal, items, derived, of=str(file))
        receipt = forgetting.preview(selection) if dry_run else forgetting.execute(selection, vacuum=manner.vacuum)
    lines = workflow_receipt_lines(receipt, dry_run=dry_run)
    _show(terminal, receipt, {"dry_run": dry_run, "items": receipt.items}, items if dry_run else (), derived, lines)


def _forget_in_store(
    terminal: Terminal,
    place: StoreAddress,
    request: EraseRequest,
    keep: int | None,
    manner: Manner,
) -> None:
    """Forget items of one store, after asking, and print the receipt."""
    dry_run = manner.dry_run
    with place.opened_existing(save=True) as store:
        scope, ids = request.where.scope, request.ids and tuple(full_ids(store, request.ids))
        trace = scope.trace and full_scope_id(store, "trace", scope.trace)
        where = replace(request.where, scope=replace(scope, trace=trace))
        if keep is not None:
            ids = tuple(item.id for item in store.recent(ANY_NUMBER, where, offset=keep) if not is_pinned(item))
        run = request.run and full_run([store], request.run)
        request = replace(request, ids=ids, where=where, run=run)
        selection = select_erasure(store, request)
        check_all_there(store.name, request.ids or (), selection.selected)
        if request.text is None and request.run is None:
            report_hidden(terminal, store, request.where)
        if selection.items and not dry_run and not manner.yes:
            _confirm(terminal, selection.items, selection.derived, of=place.store)
        receipt = preview(store, selection) if dry_run else execute(store, selection, vacuum=manner.vacuum)
        total = store.count()
    lines = receipt_lines(receipt, total, dry_run=dry_run)
    listed = selection.items if dry_run else ()
    _show(terminal, receipt, {"dry_run": dry_run, "total": total}, listed, selection.derived, lines)


def _show(
    terminal: Terminal,
    receipt: ForgetReceipt | WorkflowReceipt,
    about: dict[str, Any],
    items: Sequence[MemoryItem],
    derived: Container[str],
    lines: Iterable[str],
) -> None:
    """Print a receipt, and end the command with `EXIT_PARTLY` where something could not be done."""
    if terminal.as_json:
        # The hashes of exports say nothing to a reader.
        own: dict[str, Any] = {"exports": {"__all__": {"scope", "ids", "salt"}}}
        terminal.json({**about, **to_jsonable_python(receipt, exclude={**own, "stores": {"__all__": own}})})
    else:
        _print(terminal, items, derived, lines)
    if any(left.failed for left in (receipt.left if isinstance(receipt, WorkflowReceipt) else receipt.residues)):
        raise typer.Exit(EXIT_PARTLY)


def _confirm(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str], *, of: str) -> None:
    """Ask for confirmation; raises `CommandError` when no one can answer, and ends the command unless it is yes."""
    count = number_of(len(items), "item")
    if not can_ask():
        raise CommandError(f"{count} of {of} would be forgotten, and there is no terminal to confirm it: add --yes.")
    _print(terminal, items, derived, ())
    typer.confirm(f"Forget {count} of {of}?", abort=True, err=True)


def _print(terminal: Terminal, items: Sequence[MemoryItem], derived: Container[str], lines: Iterable[str]) -> None:
    """Print some of the items that are to be forgotten, and other lines."""
    for item in items[-_SHOWN:]:
        owner = f"  user {item.scope.user}" if item.scope.user else ""
        how = "  (derived)" if item.id in derived else ""
        text = shorten(one_line(item.content_summary), _SNIPPET)
        terminal.print(f"{item_date(item)}  {item.id}{how}{owner}  {text}")
    if len(items) > _SHOWN:
        terminal.print(f"and {len(items) - _SHOWN:,} more")
    for line in lines:
        terminal.print(line)


def _lift(terminal: Terminal, place: StoreAddress, ids: Sequence[str]) -> None:
    """Remove tombstones, so that the store takes their texts again."""
    with place.opened_existing(save=True) as store:
        kept = tombstones_of(store)
        known = [each.id for each in kept.tombstones()]
        chosen = None if list(ids) == [_ALL] else [whole_id("erasure", one, known) for one in ids]
        texts = kept.remove_tombstones(chosen)
    text = f"{place.store}: {number_of(texts, 'text')} may be stored again"
    terminal.answer({"store": place.store, "removed": texts}, text)


def _drop(terminal: Terminal, place: StoreAddress, *, yes: bool) -> None:
    """Drop a store of a database, after asking."""
    location = location_of(place.make())
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
