"""Inputs of `devmem run`: texts from the command line, a file, a pipe or the keyboard."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.failures import CommandError
from devmem.cli.ids import full_ids
from devmem.cli.targets import make, why_empty
from devmem.cli.terminal import Terminal
from devmem.config.workflow import Workflow
from devmem.errors import DataFileError
from devmem.model.items import MemoryItem
from devmem.search.query import Filter, Order
from devmem.stores.abilities import every_item
from devmem.stores.memory import MemoryBase
from devmem.text.files import replace_file
from devmem.transfer.importing.files import is_sqlite, read_lines

_KEYS: Final = ("text", "question", "input", "content")
_FEW: Final = 3
"""Maximum number of inputs without a progress bar."""
STDIN: Final = "-"
"""Argument that stands for standard input."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The texts to run, one after another."""

    texts: Iterator[str]
    total: int | None
    """Number of texts; None when it is not known before the end."""

    @property
    def few(self) -> bool:
        """Whether each input is looked at on its own, rather than a bar over all of them."""
        return self.total is None or self.total <= _FEW


def well_formed(text: str) -> str:
    """Replace bytes of the command line that are not UTF-8, which no store could keep."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def find_inputs(terminal: Terminal, text: str | None, file: Path | None) -> Inputs:
    """Return the texts from where the options say.

    Raises:
        CommandError: there is no input, or there are two.
        DataFileError: the file, or (while it is read) a line of it, cannot be used.
    """
    if text is not None and file is not None:
        raise CommandError("give either --input or --input-file, not both.")
    if text == STDIN:
        return Inputs(texts=iter([read_stdin()]), total=1)
    if text is not None:
        return Inputs(texts=iter([well_formed(text)]), total=1)
    if file == Path(STDIN):
        return Inputs(texts=_from_stdin(), total=None)
    if file is not None:
        texts = [_text(file, number, line) for number, line in read_lines(file)]
        return Inputs(texts=iter(texts), total=len(texts))
    if _at_terminal():
        return Inputs(texts=_asked_for(terminal), total=None)
    raise CommandError("nothing to run: give --input TEXT, --input-file FILE, or --input-file - to read a pipe.")


def read_stdin() -> str:
    """Return all of standard input as one text."""
    return sys.stdin.buffer.read().removeprefix(_BOM).decode("utf-8", "replace").strip()


def _at_terminal() -> bool:
    return sys.stdin.isatty()


def _from_stdin() -> Iterator[str]:
    for number, raw in enumerate(sys.stdin.buffer, start=1):
        line = raw.removeprefix(_BOM).decode("utf-8", "replace").strip()
        if line:
            yield _text(Path(STDIN), number, line)


def _asked_for(terminal: Terminal) -> Iterator[str]:
    while True:
        try:
            line = terminal.err.input("> ").strip()
        except EOFError:
            terminal.err.print()
            return
        if line:
            yield well_formed(line)


def _text(file: Path, number: int, line: str) -> str:
    """Return a line, or the text of the JSON object on it."""
    if not line.startswith("{"):
        return line
    try:
        raw = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        if file.name.removesuffix(".gz").endswith(".jsonl"):
            raise DataFileError(file, "the line is not JSON", line=number) from error
        return line
    text = next((raw[key] for key in _KEYS if key in raw), None) if isinstance(raw, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise DataFileError(file, f"no text: expected one of the keys {', '.join(_KEYS)}", line=number)
    return text


Ids: TypeAlias = Annotated[
    list[str] | None, typer.Option("--id", metavar="ID", help="Only this item; may be repeated.")
]
Newest: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Number of the newest items; without it, all.")
]
ListOrder: TypeAlias = Annotated[
    Order,
    typer.Option("--order", help="`stored`: in which they were stored; `event`: by when it happened, then `sequence`."),
]
Offset: TypeAlias = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="Number of the newest items to pass over.")
]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write; without it, stdout.")
]


def check_anything_there(workflow: Workflow, store: str, session: str) -> None:
    """Raise `CommandError` when nothing was ever written to the store: an empty file would help nobody."""
    if (reason := why_empty(make(workflow, store, session))) is not None:
        raise CommandError(f"{reason}; nothing was written.")


def check_output(workflow: Workflow, store: str, session: str, output: Path | None) -> None:
    """Raise `CommandError` when the file to write is the workflow, a file of the store, or any database."""
    if output is None:
        return
    place = Path(os.path.realpath(output))
    own = [*make(workflow, store, session).files(), *([workflow.file] if workflow.file is not None else [])]
    if any(_is_in(place, Path(os.path.realpath(file))) for file in own):
        raise CommandError(f"{output} belongs to the memory itself and was not changed; name another file.")
    if place.is_file() and is_sqlite(place):
        raise CommandError(f"{output} is a database and was not changed; name another file.")


def _is_in(place: Path, kept: Path) -> bool:
    """Whether a file is another one, also by a second name of it, or is in that folder."""
    return kept == place or kept in place.parents or (place.exists() and kept.exists() and place.samefile(kept))


def pick(
    memory: MemoryBase, ids: Sequence[str] | None, newest: int | None, where: Filter, order: Order = Order.STORED
) -> Iterator[MemoryItem]:
    """Return the items, oldest first in their order; raises `CommandError` when a named one is missing."""
    if ids := full_ids(memory, ids):
        found = memory.get(ids)
        check_all_there(memory.name, ids, found)
        yield from found
    elif newest is not None:
        yield from reversed(memory.recent(newest, where, order=order))
    else:
        yield from every_item(memory, where, order)


def check_all_there(store: str, ids: Sequence[str], found: Sequence[MemoryItem]) -> None:
    """Raise `CommandError` when a named item is not among those that were found."""
    there = {item.id for item in found}
    if missing := [wanted for wanted in ids if wanted not in there]:
        raise CommandError(f"memory store {store!r} has no item {', '.join(repr(wanted) for wanted in missing)}.")


def deliver(terminal: Terminal, parts: Iterable[str], output: Path | None) -> None:
    """Write the parts into the file as a whole, or print them."""
    if output is None:
        for part in parts:
            terminal.write(part)
        terminal.out.file.flush()
        return
    replace_file(output, (part.encode("utf-8") for part in parts))
    terminal.report("note", f"written to {output}")
