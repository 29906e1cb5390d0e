"""`devmem add`: remember a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from devmem.cli.conditions import checked_name
from devmem.cli.describe import items_text
from devmem.cli.failures import CommandError, usage_errors
from devmem.cli.inputs import STDIN, read_stdin, well_formed
from devmem.cli.item_options import Expires, Fields, Metadata, Time, Ttl, checked_fields, expiry_of, metadata_of
from devmem.cli.places import MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import AsJson, Session, check_lasting, make, opened
from devmem.memory import Memory
from devmem.memory.handle import AddOptions
from devmem.runtime import DEFAULT_SESSION


def add(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[
        list[str], typer.Argument(metavar="[STORE] TEXT", help="Text to remember; `-` reads standard input.")
    ],
    lines: Annotated[bool, typer.Option("--lines", help="Remember each line as an item of its own.")] = False,
    item_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the item; an item that has it is replaced.")
    ] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="User that the item belongs to.")] = None,
    agent: Annotated[str | None, typer.Option(metavar="ID", help="Agent that the item belongs to.")] = None,
    conversation: Annotated[str | None, typer.Option(metavar="ID", help="Conversation that the item is in.")] = None,
    metadata: Metadata = None,
    field: Fields = None,
    time: Time = None,
    expires: Expires = None,
    ttl: Ttl = None,
    session: Session = DEFAULT_SESSION,
    as_json: AsJson = False,
) -> None:
    """Remember a text.

    A file that does not exist yet is created. The item belongs to nobody in particular unless `--user` names a user.

    Examples:
        devmem add notes.db "Ann moved the launch to June 2nd."
        devmem add team.yaml notes "The venue is the old mill." --user ann --metadata room=5
        devmem add notes.db "The door code is 4711." --ttl 12h
        devmem add notes.db "We met at noon." --metadata title=Launch --field title
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=1, usage="MEMORY [STORE] TEXT")
    texts = _texts(place.words[0], lines=lines)
    scope = _scope(user=user, agent=agent, conversation=conversation)
    check_lasting(make(place.workflow, place.store, session), "an item")
    with opened(terminal, place.workflow, place.store, session, save=True) as store, usage_errors():
        options: AddOptions = {**_about(metadata, field), "time": time, "expires_at": expiry_of(expires, ttl)}
        ids = _remember(Memory(store).scoped(**scope) if scope else Memory(store), texts, item_id, options)
        total = store.count_memories()
    if as_json:
        terminal.json({"store": place.store, "ids": ids, "items": total})
        return
    stored = f"stored {ids[0]}" if len(ids) == 1 else f"{items_text(len(ids))} stored"
    terminal.print(f"{place.store}: {stored}; {items_text(total)} now")


def _texts(word: str, *, lines: bool) -> list[str]:
    text = read_stdin() if word == STDIN else well_formed(word)
    return [line.strip() for line in text.splitlines() if line.strip()] if lines else [text]


def _scope(**parts: str | None) -> dict[str, str]:
    return {part: checked_name(f"--{part}", value) for part, value in parts.items() if value is not None}


def _about(metadata: Sequence[str] | None, fields: Sequence[str] | None) -> AddOptions:
    return {"metadata": metadata_of(metadata), "fields": checked_fields(fields)}


def _remember(memory: Memory, texts: Sequence[str], item_id: str | None, options: AddOptions) -> list[str]:
    """Add the texts and return the ids of their items."""
    if item_id is None:
        return memory.add(texts, **options)
    if len(texts) != 1:
        raise CommandError("`--id` names the item of one text.")
    return [memory.add(texts[0], id=item_id, **options)]
