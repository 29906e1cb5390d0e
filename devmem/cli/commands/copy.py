"""`devmem copy` and `devmem TYPE migrate`: copy every item of one store into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.lazy import CONTEXT, help_of
from devmem.cli.places import Place, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import (
    AsJson,
    Session,
    WorkflowFile,
    announce,
    check_lasting,
    load,
    location_of,
    opened,
    opened_existing,
)
from devmem.config import Workflow
from devmem.credentials import location_without_credentials
from devmem.memory.places import declared_like
from devmem.runtime import DEFAULT_SESSION
from devmem.stores import CollectionMemory, MemoryBase
from devmem.transfer.copy import CopyReport, copy_items

Places: TypeAlias = Annotated[
    list[str],
    typer.Argument(metavar="[FILE] FROM TO", help="Two memories, or a workflow and two of its stores."),
]
Source: TypeAlias = Annotated[str, typer.Argument(metavar="FROM", help="Store to copy from.")]
Target: TypeAlias = Annotated[str, typer.Argument(metavar="TO", help="Store to copy into.")]

_SHOWN: Final = 5
_TWO_MEMORIES: Final = 2
_IN_ONE_WORKFLOW: Final = 3


def copy(
    ctx: typer.Context,
    places: Places,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Copy every item of one store into another.

    A memory is a file (notes.db), a URL (postgresql://...) or a store of a workflow (team.yaml#notes); one that is not
    there yet becomes a store of the same type. Each item is read back and compared, and what the other store could not
    keep is reported. An interrupted copy continues when it is run again.

    Examples:
        devmem copy notes.db "postgresql://localhost/team?store=notes"
        devmem copy "postgresql://localhost/team?store=notes" backup.db
        devmem copy configs/mem0.yaml hosted archive
    """
    terminal: Terminal = ctx.obj
    if len(places) == _IN_ONE_WORKFLOW:
        workflow = load(terminal, Path(places[0]))
        source, target = (Place(workflow=workflow, store=name) for name in places[1:])
        names = places[1], places[2]
    elif len(places) == _TWO_MEMORIES:
        source = find_place(terminal, places[0], reading=True)
        declared, store = declared_like(places[1], source.workflow, source.store)
        announce(terminal, declared)
        target = Place(workflow=declared, store=store)
        names = location_without_credentials(places[0]), location_without_credentials(places[1])
    else:
        raise CommandError("expected FROM TO, two memories, or FILE FROM TO, a workflow and two of its stores.")
    _copy(terminal, source, target, names, session=session, as_json=as_json)


def _copy(
    terminal: Terminal, source: Place, target: Place, names: tuple[str, str], *, session: str, as_json: bool
) -> None:
    first, second = names
    if first == second:
        raise CommandError(f"memory store {first!r} cannot be copied into itself.")
    with (
        opened_existing(terminal, source.workflow, source.store, session) as origin,
        opened(terminal, target.workflow, target.store, session, save=True) as place,
    ):
        check_lasting(place, "a copy")
        _check_apart(origin, place)
        with terminal.progress(f"{first} -> {second}", origin.count_memories()) as bar:
            report = copy_items(origin, place, lambda done: bar.advance(bar.task_ids[0], done))
        total = place.count_memories()
    if as_json:
        terminal.json(_as_json(report, total))
    else:
        _show(terminal, report, f"{first} -> {second}", f"{second} has {items_text(total)} now")
    if not report.complete:
        raise typer.Exit(EXIT_PARTLY)


def _check_apart(origin: MemoryBase, place: MemoryBase) -> None:
    """Raise `CommandError` where two names mean one place."""
    stores = [store for store in (origin, place) if isinstance(store, CollectionMemory) and location_of(store)]
    locations = [store.info().location for store in stores]
    if len(locations) > len(set(locations)):
        raise CommandError(f"{locations[0]} cannot be copied into itself.")


def _show(terminal: Terminal, report: CopyReport, direction: str, now: str) -> None:
    counted = ", ".join(f"{count:,} {name}" for name, count in report.counts.items() if count) or "nothing to copy"
    checked = f", the same by SHA-256 ({report.source_hash:064x})" if report.identical and report.counts else ""
    terminal.print(f"{direction}: {counted}; {now}{checked}")
    if report.states:
        terminal.print(f"{report.states:,} states beside the items were taken over")
    if report.vectors_left:
        terminal.report("warning", report.vectors_left)
    for part, count in sorted(report.lost.items()):
        terminal.report("warning", f"{part} of {count:,} item(s) could not be carried over")
    if report.unseen:
        listed = ", ".join(report.unseen[:_SHOWN])
        terminal.report(
            "error", f"{len(report.unseen):,} item(s) were taken but are not there yet ({listed}); run it again"
        )
    for item_id, reason in list(report.skipped.items())[:_SHOWN]:
        terminal.report("error", f"{item_id} was not taken: {reason}")
    if len(report.skipped) > _SHOWN:
        terminal.report("error", f"and {len(report.skipped) - _SHOWN:,} more were not taken; `--json` names them all")


def _as_json(report: CopyReport, total: int) -> dict[str, Any]:
    return {
        "counts": {name: count for name, count in report.counts.items() if count},
        "not_carried_over": dict(sorted(report.lost.items())),
        "not_there_yet": report.unseen,
        "not_taken": report.skipped,
        "vectors_left": report.vectors_left,
        "states": report.states,
        "identical": report.identical,
        "items": total,
    }


def commands_of(store_type: str) -> typer.Typer:
    """Return the commands of one store type: `migrate`, a `copy` into or out of a store of this type."""

    def migrate(
        ctx: typer.Context,
        file: WorkflowFile,
        source: Source,
        target: Target,
        session: Session = DEFAULT_SESSION,
        as_json: AsJson = False,
    ) -> None:
        terminal: Terminal = ctx.obj
        workflow = load(terminal, file)
        _check_type(workflow, store_type, source, target)
        origin, place = (Place(workflow=workflow, store=name) for name in (source, target))
        _copy(terminal, origin, place, (source, target), session=session, as_json=as_json)

    migrate.__doc__ = f"""Copy every item out of a `{store_type}` store, or into one.

    This is `devmem copy` with a check that one of the two stores is of this type.

    Examples:
        devmem {store_type} migrate team.yaml {store_type} archive
    """
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=f"Commands for `{store_type}` stores.")

    @group.callback()
    def _group() -> None:
        """Keep the group: typer would put its only command in its place."""

    group.command("migrate", help=help_of(migrate), context_settings=CONTEXT)(migrate)
    return group


def _check_type(workflow: Workflow, store_type: str, *names: str) -> None:
    types = {store.name: store.type for store in workflow.memory}
    if all(name in types for name in names) and store_type not in [types[name] for name in names]:
        found = " and ".join(f"{name!r} is `{types[name]}`" for name in names)
        raise CommandError(f"neither store is of type `{store_type}`: {found}; `devmem copy` copies any store.")
