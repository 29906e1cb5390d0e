"""`devmem edit`: change an item's text, metadata, time or expiry."""

from __future__ import annotations

from types import EllipsisType
from typing import Annotated, Final

import typer

from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.inputs import STDIN, read_stdin, well_formed
from devmem.cli.item_options import Expires, Metadata, Time, metadata_of
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_to_change
from devmem.memory import Memory
from devmem.runtime import DEFAULT_SESSION
from devmem.views import item_json

_NONE: Final = "none"


def edit(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[
        list[str],
        typer.Argument(metavar="[STORE] ID [TEXT]", help="Id of the item, and its new text; `-` reads standard input."),
    ],
    metadata: Metadata = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Metadata to remove; may be repeated.")
    ] = None,
    time: Time = None,
    expires: Expires = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Change an item and keep its id.

    What is not given stays as it is. `none` removes a time or an expiry.

    Examples:
        devmem edit notes.db 5f2c "Ann moved the launch to June 3rd."
        devmem edit team.yaml notes 5f2c --metadata room=6 --remove mood --expires none
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=2, usage="MEMORY [STORE] ID [TEXT]")
    item_id, text = place.words[0], place.words[1] if len(place.words) == 2 else None
    if text is not None:
        text = read_stdin() if text == STDIN else well_formed(text)
    changes = {**metadata_of(metadata), **dict.fromkeys(remove or ())}
    if text is None and not changes and time is None and expires is None:
        raise CommandError("nothing to change: give a TEXT, --metadata, --remove, --time or --expires.")
    with opened_to_change(terminal, place.workflow, place.store, session) as store, usage_errors():
        record = Memory(store).update(
            item_id, text, metadata=changes or None, time=_when(time), expires_at=_when(expires)
        )
    if as_json:
        terminal.json(item_json(record.item))
    else:
        terminal.print(f"{place.store}: changed {record.id}")


def _when(given: str | None) -> str | EllipsisType | None:
    """Return the argument of `Memory.update`: unchanged when nothing is given, none when the word says so."""
    if given is None:
        return ...
    return None if given.lower() == _NONE else given
