"""`devmem runs`: list the runs of a memory, and end those whose process died."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from devmem.cli.describe import date_text
from devmem.cli.failures import CommandError
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened
from devmem.collections import VersionedCollection
from devmem.model.versions import RunInfo
from devmem.runtime import DEFAULT_SESSION
from devmem.stores.versioned import versions_of
from devmem.views.versions import run_info_json

_COLUMNS = ("run", "state", "started", "ended", "changes", "by")


def runs(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    commit: Annotated[str | None, typer.Option(metavar="RUN", help="Commit this pending run.")] = None,
    discard: Annotated[str | None, typer.Option(metavar="RUN", help="Discard this pending run.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest runs.")] = 20,
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """List the runs of a memory, and end those that are pending.

    A run is `pending` until it ends, also when its process died: nobody else sees what it wrote. `--commit` and
    `--discard` end such a run, after which its state is shown.

    Examples:
        devmem runs team.yaml notes
        devmem runs notes.db --discard 5f2c
    """
    terminal: Terminal = ctx.obj
    if commit is not None and discard is not None:
        raise CommandError("give either --commit or --discard, not both.")
    place = find_place(terminal, memory, store)
    with opened(terminal, place.workflow, place.store, session) as source:
        found = _runs(versions_of(source), commit, discard, limit)
    if as_json:
        terminal.json([run_info_json(info) for info in found])
    else:
        terminal.table(_COLUMNS, [_row(info) for info in found], numbers=("changes",))


def _runs(versions: VersionedCollection, commit: str | None, discard: str | None, limit: int) -> Sequence[RunInfo]:
    """Return the run that is ended, or the newest ones."""
    if commit is not None:
        return [versions.commit(commit)]
    return [versions.discard(discard)] if discard is not None else versions.runs(limit)


def _row(info: RunInfo) -> Sequence[str]:
    times = date_text(info.started_at), date_text(info.ended_at)
    return info.run, info.state.value, *times, str(info.changes), info.actor or ""
