"""`devmem edit`: change an item's text, metadata, time, expiry or searched fields."""

from __future__ import annotations

from datetime import timedelta
from types import EllipsisType
from typing import Annotated, Final, TypeVar

import typer

from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.inputs import STDIN, read_stdin, well_formed
from devmem.cli.item_options import NEVER, Expires, Fields, Metadata, Time, Ttl, checked_fields, expiry_of, metadata_of
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, opened_to_change
from devmem.memory import Memory
from devmem.runtime import DEFAULT_SESSION
from devmem.views import item_json

_OPTIONS: Final = "--metadata, --remove, --time, --expires-at, --ttl or --field"
W = TypeVar("W", bound=str | timedelta)


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
    ttl: Ttl = None,
    field: Fields = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Change an item and keep its id.

    What is not given stays as it is. `none` removes a time, an expiry or the fields.

    Examples:
        devmem edit notes.db 5f2c "Ann moved the launch to June 3rd."
        devmem edit team.yaml notes 5f2c --metadata room=6 --remove mood --expires-at none
        devmem edit notes.db 5f2c --metadata title="The launch" --field title
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=2, usage="MEMORY [STORE] ID [TEXT]")
    item_id, text = place.words[0], place.words[1] if len(place.words) == 2 else None
    if text is not None:
        text = read_stdin() if text == STDIN else well_formed(text)
    changes = {**metadata_of(metadata), **dict.fromkeys(remove or ())}
    expiry, fields = expiry_of(expires, ttl), checked_fields(field)
    if not changes and all(one is None for one in (text, time, expiry, fields)):
        raise CommandError(f"nothing to change: give a TEXT, {_OPTIONS}.")
    with opened_to_change(terminal, place.workflow, place.store, session) as store, usage_errors():
        when, until, searched = _when(time), _when(expiry), ... if fields is None else fields
        record = Memory(store).update(
            item_id, text, metadata=changes or None, time=when, expires_at=until, fields=searched
        )
    if as_json:
        terminal.json(item_json(record.item))
    else:
        terminal.print(f"{place.store}: changed {record.id}")


def _when(given: W | None) -> W | EllipsisType | None:
    """Return the argument of `Memory.update`: unchanged when nothing is given, none when the word says so."""
    if given is None:
        return ...
    return None if isinstance(given, str) and given.lower() == NEVER else given
