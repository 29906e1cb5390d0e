"""`devmem context`: print the latest interactions of a global memory as a text for a prompt."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.filter_options import Selection, report_hidden, selecting
from devmem.cli.places import MemoryPlace, OptionalStore, find_place
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, opened_if_written
from devmem.recording import PromptContext
from devmem.runtime import DEFAULT_SESSION


class _Language(StrEnum):
    EN = "en"
    ZH = "zh"


@selecting(by_user=True)
def context(
    ctx: typer.Context,
    memory: MemoryPlace,
    store: OptionalStore = None,
    max_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Estimated tokens of the text.")] = 2000,
    language: Annotated[_Language | None, typer.Option(help="Of the sentences; the store's otherwise.")] = None,
    session: Session = DEFAULT_SESSION,
    *,
    selection: Selection,
) -> None:
    """Print what an agent may know of a conversation, for a prompt.

    Each record of a store of the type `conversation` is a sentence, the oldest first; `--agent` reads it, sees its own
    exchanges and is "you". The newest records stay within the tokens.

    Examples:
        devmem context team.yaml global --agent writer --conversation monday --max-tokens 500 --language zh
    """
    terminal: Terminal = ctx.obj
    place = find_place(terminal, memory, store, reading=True)
    where = selection.visible
    with opened_if_written(terminal, place.workflow, place.store, session) as found:
        if found is None:
            return
        if not isinstance(found, PromptContext):
            raise CommandError(f"memory store {place.store!r} words no conversation; one of type `conversation` does.")
        text = found.context(
            agent=where.scope.agent,
            where=replace(where, scope=replace(where.scope, agent=None)),
            max_tokens=max_tokens,
            language=language.value if language else None,
        )
        report_hidden(terminal, found, where)
    if not text:
        terminal.report("note", "nothing is recorded")
    else:
        terminal.print(text)
