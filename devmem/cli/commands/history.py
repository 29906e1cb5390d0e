"""`devmem history`: show the versions of an item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from devmem.cli.describe import date_text
from devmem.cli.failures import CommandError
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_existing
from devmem.model.versions import Change, ItemVersion
from devmem.runtime import DEFAULT_SESSION
from devmem.stores.versioned import versions_of
from devmem.views.versions import version_json

_COLUMNS = ("recorded", "change", "run", "by", "text")


def history(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] ID", help="Id of the item.")],
    as_json: AsJson = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Show the versions of an item.

    Each has what changed it, when, and in which run. Versions are kept as long as the store's `history` says: 30 days
    without it. What was forgotten has none.

    Examples:
        devmem history notes.db 5f2c
        devmem history team.yaml notes 5f2c --json
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] ID", reading=True)
    with opened_existing(terminal, place.workflow, place.store, session) as store:
        versions = versions_of(store).history(place.words[0])
    if not versions:
        raise CommandError(f"memory store {place.store!r} has no version of an item {place.words[0]!r}.")
    if as_json:
        terminal.json([version_json(version) for version in versions])
    else:
        terminal.table(_COLUMNS, list(_rows(versions)))


def _rows(versions: Sequence[ItemVersion]) -> Iterator[Sequence[str]]:
    """Yield a row for each version, and one for the deletion that ended the last of them, if any did."""
    for version in versions:
        yield _row(version.began, version.item.content_summary)
    if (ended := versions[-1].ended) is not None:
        yield _row(ended, "")


def _row(change: Change, text: str) -> Sequence[str]:
    return date_text(change.at), change.operation.value, change.run or "", change.actor or "", text
