"""Reading and printing the records of a global memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.terminal import Terminal
from devmem.recording import Interaction, InteractionLog
from devmem.stores import MemoryBase

Full: TypeAlias = Annotated[bool, typer.Option("--full", help="Show the whole of long contents.")]


def log_of(memory: MemoryBase, name: str) -> InteractionLog:
    """Return the store as a log of interactions.

    Raises:
        CommandError: it is of a type that keeps none.
    """
    if not isinstance(memory, InteractionLog):
        raise CommandError(f"memory store {name!r} keeps no interactions; a store of type `conversation` does.")
    return memory


def print_records(
    terminal: Terminal, records: Sequence[Interaction], lines: Iterable[str], what: str, *, as_json: bool
) -> None:
    """Print records as lines, or as JSON.

    Raises:
        CommandError: there is none.
    """
    if as_json:
        terminal.json([record.to_json() for record in records])
        return
    if not records:
        raise CommandError(f"nothing is recorded of {what}.")
    for line in lines:
        terminal.print(line)
