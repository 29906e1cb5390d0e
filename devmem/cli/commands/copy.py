"""`devmem copy` and `devmem TYPE migrate`: copy every item of one store into another."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

import typer

from devmem.cli.failures import EXIT_PARTLY, CommandError
from devmem.cli.lazy import CONTEXT, help_of
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, WorkflowFile, check_lasting, load, opened
from devmem.config import Workflow
from devmem.runtime import DEFAULT_SESSION
from devmem.transfer.copy import CopyReport, copy_items

Source: TypeAlias = Annotated[str, typer.Argument(metavar="FROM", help="Store to copy from.")]
Target: TypeAlias = Annotated[str, typer.Argument(metavar="TO", help="Store to copy into.")]

_SHOWN: Final = 5


def copy(
    ctx: typer.Context,
    file: WorkflowFile,
    source: Source,
    target: Target,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Copy every item of one store into another.

    Both stores belong to the same workflow. Each item is read back and compared, and what the other store could not
    keep is reported. An interrupted copy continues when it is run again.

    Examples:
        devmem copy configs/mem0.yaml hosted archive
    """
    terminal: Terminal = ctx.obj
    workflow = load(terminal, file)
    if source == target:
        raise CommandError(f"memory store {source!r} cannot be copied into itself.")
    with (
        opened(terminal, workflow, source, session) as origin,
        opened(terminal, workflow, target, session, save=True) as place,
    ):
        check_lasting(place, "a copy")
        with terminal.progress(f"{source} -> {target}", origin.count_memories()) as bar:
            report = copy_items(origin, place, lambda done: bar.advance(bar.task_ids[0], done))
        total = place.count_memories()
    if as_json:
        terminal.json(_as_json(report, total))
    else:
        _show(terminal, report, f"{source} -> {target}", f"{target} has {total:,} items now")
    if not report.complete:
        raise typer.Exit(EXIT_PARTLY)


def _show(terminal: Terminal, report: CopyReport, direction: str, now: str) -> None:
    counted = ", ".join(f"{count:,} {name}" for name, count in report.counts.items() if count) or "nothing to copy"
    terminal.print(f"{direction}: {counted}; {now}")
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
        _check_type(load(terminal, file), store_type, source, target)
        copy(ctx, file, source, target, session, as_json)

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
