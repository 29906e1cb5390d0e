"""`devmem diff`: show what changed between two times, or in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_existing, seconds_of_option
from devmem.model.versions import ItemDifference
from devmem.runtime import DEFAULT_SESSION
from devmem.stores.versioned import versions_of
from devmem.views.versions import difference_json

_COLUMNS = ("change", "id", "before", "after")


def diff(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    since: Annotated[str | None, typer.Option("--from", metavar="TIME", help="The earlier time.")] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="The later time; without it, now.")] = None,
    run: Annotated[str | None, typer.Option(metavar="RUN", help="What this run changed, or is about to.")] = None,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show what changed between two times, or in a run.

    Examples:
        devmem diff notes.db --from 2026-06-01 --to 2026-06-02T14:30
        devmem diff team.yaml notes --run 5f2c
    """
    terminal: Terminal = ctx.obj
    if (since is None) == (run is None) or (run is not None and until is not None):
        raise CommandError("give either --from, with --to where it is not now, or --run.")
    place = find_place(terminal, memory, store, reading=True)
    with opened_existing(terminal, place.workflow, place.store, session) as source:
        if run is not None:
            found = versions_of(source).diff(run)
        else:
            after = None if until is None else seconds_of_option("--to", until)
            found = versions_of(source).diff(seconds_of_option("--from", since or ""), after)
    if as_json:
        terminal.json([difference_json(each) for each in found])
    else:
        terminal.table(_COLUMNS, [_row(each) for each in found])


def _row(found: ItemDifference) -> Sequence[str]:
    texts = ("" if item is None else item.content_summary for item in (found.before, found.after))
    return found.operation.value, found.item_id, *texts
