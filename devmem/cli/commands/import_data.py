"""`devmem import`: fill a store from data files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from devmem.cli.failures import CommandError
from devmem.cli.places import ANY_NUMBER, MemoryPlace, split_words
from devmem.cli.terminal import Terminal
from devmem.cli.workflow_stores import Session, check_lasting, make, opened
from devmem.errors import DataFileError, DevmemError
from devmem.runtime import DEFAULT_SESSION
from devmem.transfer.filling import Filler
from devmem.transfer.importing import DataFile, FileFormat, Record, open_data


def import_data(
    ctx: typer.Context,
    memory: MemoryPlace,
    words: Annotated[list[str], typer.Argument(metavar="[STORE] DATA...", help="Data files, plain or gzipped.")],
    data_format: Annotated[FileFormat, typer.Option("--format", help="Format of the files.")] = FileFormat.AUTO,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the files and store nothing.")] = False,
    session: Session = DEFAULT_SESSION,
) -> None:
    """Fill a store from data files.

    A file holds JSON lines with `text` (or `content`) and optionally `id`, `speaker`, `time`, `metadata`, `user`,
    `agent`, `session`, `conversation`, `expires_at`; or it is an export, a memory of DevAll or MetaGPT, or one of the
    formats below. Items that are stored already are not stored twice.

    Examples:
        devmem import notes.db notes.json
        devmem import configs/demo/team.yaml notes configs/demo/conversation.jsonl --session demo
    """
    terminal: Terminal = ctx.obj
    place = split_words(terminal, memory, words, least=1, most=ANY_NUMBER, usage="MEMORY [STORE] DATA...")
    data = [Path(word) for word in place.words]
    store = make(place.workflow, place.store, session)
    if dry_run:
        for path in data:
            found = open_data(path, data_format)
            _take(terminal, found, lambda _: None)
            terminal.print(f"{path}: {found.format.value}: {found.total:,} records, all usable")
        return
    check_lasting(store, "an import")
    with opened(terminal, place.workflow, place.store, session, save=True) as target:
        filler = Filler(target)
        for path in data:
            _fill(terminal, filler, path, data_format)
        total = target.count_memories()
    terminal.print(f"{place.store}: {_counted(filler.counts)}; the store has {total:,} items now")
    for note in filler.notes():
        terminal.report("warning", note)


def _fill(terminal: Terminal, filler: Filler, path: Path, data_format: FileFormat) -> None:
    before = Counter(filler.counts)
    try:
        try:
            _take(terminal, open_data(path, data_format), filler.put)
        except DataFileError:
            # The records before the bad one are good.
            filler.flush()
            raise
        filler.flush()
    except DevmemError as error:
        done = filler.counts - before
        if not done:
            raise
        raise CommandError(
            f"{path}: the import stopped after {_counted(done)}: {str(error).rstrip('.')}. Run the same command again "
            "when that is corrected: items that are stored already are not stored twice."
        ) from error
    terminal.print(f"{path}: {_counted(filler.counts - before)}")


def _take(terminal: Terminal, found: DataFile, put: Callable[[Record], None]) -> None:
    with terminal.progress(found.path.name, found.total) as bar:
        for record in found.records:
            put(record)
            bar.advance(bar.task_ids[0])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"
