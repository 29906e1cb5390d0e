"""`devmem import`: fill a store from data files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from devmem.cli.describe import items_text
from devmem.cli.failures import CommandError
from devmem.cli.inputs import STDIN
from devmem.cli.item_options import Fields, checked_fields
from devmem.cli.places import ANY_NUMBER, MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, check_lasting, make, opened
from devmem.errors import DataFileError, DevmemError
from devmem.runtime import DEFAULT_SESSION
from devmem.transfer.filling import Filler
from devmem.transfer.importing import DataFile, FileFormat, Record, open_data
from devmem.transfer.importing.tables import KEYS

Data: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="[STORE] DATA...", help="Data files, plain or gzipped; - is standard input.")
]
Column: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=NAME", help=f"Column of a table: text=Body. Keys: {', '.join(KEYS)}. Repeatable."),
]

_STDIN_NAME: Final = "standard input"
_ONCE: Final = "items that are stored already are not stored twice."


def import_data(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Data,
    data_format: Annotated[FileFormat, typer.Option("--format", help="Format of the files.")] = FileFormat.AUTO,
    column: Column = None,
    field: Fields = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encoding of texts and tables; without it, it is detected.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the files and store nothing.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Fill a store from data files.

    A file holds JSON lines with `text` and optionally `id`, `speaker`, `time`, `metadata`, `user` and so on; or an
    export of devmem, ChatGPT, Claude or Slack, a session of Claude Code or Codex, chat messages, a memory of mem0,
    DevAll or MetaGPT, a table, text, or one of the other formats below. What is stored already is not stored twice.

    Examples:
        devmem import notes.db notes.json
        devmem import notes.db conversations.json session.jsonl
        devmem import notes.db table.csv --column text=Body --column time=Sent --field Subject
        cat notes.txt | devmem import notes.db - --format text
        devmem import configs/demo/team.yaml notes configs/demo/conversation.jsonl --session demo
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=ANY_NUMBER, usage="MEMORY [STORE] DATA...")
    columns, fields, encoding = _columns(column or ()), checked_fields(field), _encoding(encoding)
    store = make(place.workflow, place.store, session)
    with tempfile.TemporaryDirectory(prefix="devmem-") as folder:
        opening = partial(open_data, format=data_format, columns=columns, encoding=encoding)
        files = [_source(word, Path(folder), opening) for word in place.words]
        if dry_run:
            _check(terminal, files)
            return
        check_lasting(store, "an import")
        with opened(terminal, place.workflow, place.store, session, save=True) as target:
            filler = Filler(target, fields=fields)
            for name, open_file in files:
                _fill(terminal, filler, name, open_file)
            total = target.count_memories()
    terminal.print(f"{place.store}: {_counted(filler.counts)}; the store has {items_text(total)} now")
    for note in filler.notes():
        terminal.report("warning", note)


def _check(terminal: Terminal, files: Sequence[tuple[str, Callable[[], DataFile]]]) -> None:
    """Read all records and store none."""
    for name, open_file in files:
        found = open_file()
        usable = _take(terminal, found, lambda _: None)
        terminal.print(f"{name}: {found.format.value}: {usable:,} records, all usable")


def _columns(options: Sequence[str]) -> dict[str, str]:
    """Return the names of columns by their keys; raises `CommandError` for what is no such pair."""
    columns = {}
    for option in options:
        key, equals, name = option.partition("=")
        if key not in KEYS or not equals or not name:
            raise CommandError(f"--column {option!r}: write KEY=NAME, with one of the keys {', '.join(KEYS)}.")
        columns[key] = name
    return columns


def _encoding(name: str | None) -> str | None:
    """Return the name of an encoding; raises `CommandError` where there is none of it."""
    if name is not None:
        try:
            "".encode(name)
        except LookupError as error:
            raise CommandError(f"--encoding {name!r}: there is no such encoding of texts.") from error
    return name


def _source(word: str, folder: Path, opening: Callable[..., DataFile]) -> tuple[str, Callable[[], DataFile]]:
    """Return the name of a file, and what opens it."""
    if word == STDIN:
        return _STDIN_NAME, partial(opening, _spooled(folder), name=_STDIN_NAME)
    return str(Path(word)), partial(opening, Path(word))


def _spooled(folder: Path) -> Path:
    """Return a file that holds what standard input had; formats are detected by reading it more than once."""
    path = folder / "stdin"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _fill(terminal: Terminal, filler: Filler, name: str, open_file: Callable[[], DataFile]) -> None:
    before = Counter(filler.counts)
    try:
        try:
            found = open_file()
            filler.take_fields(found.fields)
            _take(terminal, found, filler.put)
        except DataFileError:
            # The records before the bad one are good.
            filler.flush()
            raise
        filler.flush()
    except KeyboardInterrupt:
        stored = _counted(filler.counts - before)
        note = f"{name}: {stored} before the interruption. Run the same command again to go on: {_ONCE}"
        terminal.report("note", note)
        raise
    except DevmemError as error:
        done = filler.counts - before
        if not done:
            raise
        raise CommandError(
            f"{name}: the import stopped after {_counted(done)}: {str(error).rstrip('.')}. Run the same command again "
            f"when that is corrected: {_ONCE}"
        ) from error
    terminal.print(f"{name}: {_counted(filler.counts - before)}")


def _take(terminal: Terminal, found: DataFile, put: Callable[[Record], None]) -> int:
    """Pass on all records of a file; return their number."""
    taken = 0
    with terminal.progress(found.path.name, found.total) as bar:
        for record in found.records:
            put(record)
            bar.advance(bar.task_ids[0])
            taken += 1
    return taken


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"
