"""The memory that a command is about: a file, a workflow's store, or a workflow and the name of a store."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.failures import CommandError, unknown
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import announce, load
from devmem.config import Workflow
from devmem.memory.places import declared_store, declared_to_read, is_workflow
from devmem.runtime.loading import load_workflow

MemoryPlace: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MEMORY", help="A file (notes.db), a workflow (team.yaml), or a store of one (team.yaml#notes)."
    ),
]
OptionalStore: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="STORE", help="Store of the workflow; not needed where there is only one.")
]

ANY_NUMBER: Final = 1_000_000
_DATABASE_URL: Final = re.compile(r"postgres(ql)?:/", re.IGNORECASE)
"""How the URL of a database begins as a path, which has no double slashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store, declared by a workflow file or by the path of its own file."""

    workflow: Workflow
    store: str
    words: tuple[str, ...] = ()
    """The arguments after the store."""


def find_place(terminal: Terminal, place: str, store: str | None = None, *, reading: bool = False) -> Place:
    """Return the store that the arguments MEMORY and STORE name, after printing the workflow's warnings.

    Args:
        terminal: where warnings are printed.
        place: the argument MEMORY.
        store: the argument STORE.
        reading: whether the store is only read, so that no model is recorded in one that has none.

    Raises:
        CommandError: there is no such store, or the workflow has several and none is named.
        ConfigError: the workflow cannot be used.
    """
    words = [] if store is None else [store]
    return split_words(terminal, place, words, least=0, most=0, usage="MEMORY [STORE]", reading=reading)


def require_file(path: Path, advice: str) -> None:
    """Raise `CommandError`, with the advice, where the argument FILE of a command is the URL of a database."""
    if _DATABASE_URL.match(str(path)):
        raise CommandError(f"{path} is the URL of a database, not a file: {advice}.")


def several_stores(place: str, words: Sequence[str], *, after: int) -> Workflow | None:
    """Return the workflow where MEMORY is one, has several stores, and `words` names none of them.

    Args:
        place: the argument MEMORY.
        words: the arguments after it.
        after: number of words that come after the name of a store.

    Raises:
        ConfigError: the workflow cannot be used.
    """
    if not is_workflow(place) or len(words) != after:
        return None
    workflow = load_workflow(Path(place))
    names = [store.name for store in workflow.memory]
    return workflow if len(names) > 1 and not (words and words[0] in names) else None


def split_words(
    terminal: Terminal, place: str, words: Sequence[str], *, least: int, most: int, usage: str, reading: bool = False
) -> Place:
    """Separate the name of a store from the words after it, as in `MEMORY [STORE] QUERY`.

    After a workflow, the first word is the store's name if a store has that name, or if there is a word too many.

    Args:
        terminal: where warnings are printed.
        place: the argument MEMORY.
        words: the arguments after it.
        least: minimum number of words after the store.
        most: maximum number of words after the store.
        usage: the arguments as the help has them, for an error.
        reading: see `find_place`.

    Raises:
        CommandError: there is no such store, or the number of words is wrong.
        ConfigError: the workflow cannot be used.
    """
    if is_workflow(place):
        workflow = load(terminal, Path(place))
        store, rest = _store_and_rest(workflow, words, most)
    else:
        workflow, store = declared_to_read(place) if reading else declared_store(place)
        announce(terminal, workflow)
        rest = tuple(words)
    if not least <= len(rest) <= most:
        problem = "missing" if len(rest) < least else "too many"
        raise CommandError(f"{problem} arguments: expected {usage}, and {place} is the MEMORY.")
    return Place(workflow=workflow, store=store, words=rest)


def _store_and_rest(workflow: Workflow, words: Sequence[str], most: int) -> tuple[str, tuple[str, ...]]:
    names = [store.name for store in workflow.memory]
    file = str(workflow.file or "workflow")
    if words and (words[0] in names or len(words) > most):
        if words[0] not in names:
            raise unknown("store", words[0], names, file=file)
        return words[0], tuple(words[1:])
    if len(names) == 1:
        return names[0], tuple(words)
    listed = f"it has {', '.join(names)}" if names else "it has none"
    raise CommandError(f"{file}: name a store of this workflow; {listed}.")
