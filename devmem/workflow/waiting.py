"""Writes and records that wait beside the stores of a workflow: found by a selection of items, removed, or stored."""

from __future__ import annotations

import glob
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from devmem.encryption import read_file, sealed_for
from devmem.errors import DevmemError
from devmem.model.interactions import Interaction
from devmem.model.items import MemoryItem, Scope
from devmem.recording.forwarder import REFUSED, lock_refused_records, waiting_records
from devmem.recording.journal import abandoned_journals
from devmem.recording.log import InteractionStore
from devmem.storage.erasure import EraseRequest, Residue
from devmem.storage.outbox import Outbox
from devmem.storage.recall_log import FILE_NAME, RecallLog
from devmem.text.files import replace_file
from devmem.workflow.rescue import file_stem, load_payload

_RESCUED: Final = "unsaved-*"
"""Pattern of the files in which writes are that no store took."""
_BATCH_SIZE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingWrites:
    """Writes in a file that are to be forgotten."""

    file: Path
    checksums: tuple[str, ...]
    """Of their lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownParts:
    """Parts of a log of what agents were shown that are to be forgotten."""

    file: Path
    names: tuple[str, ...]


def find_shown(folder: Path, request: EraseRequest, items: Sequence[MemoryItem]) -> ShownParts:
    """Return the parts of the log in a session's folder that show, or asked for, what is erased.

    Raises:
        DevmemError: the log cannot be read.
    """
    file = folder / FILE_NAME
    return ShownParts(file=file, names=RecallLog(file).select(request, items))


def remove_shown(file: Path, names: Iterable[str]) -> list[Residue]:
    """Remove parts of a log, which `find_shown` named; return what could not be reached.

    Raises:
        DevmemError: the log cannot be changed.
    """
    with closing(RecallLog(file)) as log:
        return log.remove(names)


def checksum_of(line: str) -> str:
    """Return the checksum by which a line is found again."""
    return hashlib.sha256(line.encode()).hexdigest()


def rescued_files(folder: Path) -> list[Path]:
    """Return the files of rescued writes in a session's folder."""
    return sorted(file for file in folder.glob(_RESCUED) if file.suffix in (".db", ".jsonl")) if folder.is_dir() else []


def temporary_rescues(stores: Iterable[str]) -> list[Path]:
    """Return the rescued writes to stores that found no place but the machine's folder for temporary files."""
    folder = Path(tempfile.gettempdir())
    stems = {file_stem(store) for store in stores}
    return sorted(file for stem in stems for file in folder.glob(f"unsaved-{glob.escape(stem)}-*.jsonl"))


def find_rescued(file: Path, request: EraseRequest) -> WaitingWrites:
    """Return the rescued writes of a file that are selected.

    Raises:
        DevmemError, OSError: the file cannot be read.
    """
    return _selected(file, lambda line: (_item_of_write(line),), request)


def find_refused(folder: Path, request: EraseRequest) -> WaitingWrites:
    """Return the records, in a folder of journals, that the store refused and that are selected.

    Raises:
        OSError: the file cannot be read.
    """
    return _selected(folder / REFUSED, _items_of_record, request)


def _selected(file: Path, read: Callable[[str], tuple[MemoryItem, ...]], request: EraseRequest) -> WaitingWrites:
    def is_selected(line: str) -> bool:
        try:
            return any(request.admits(item) for item in read(line))
        except (ValueError, KeyError, TypeError):
            # An unreadable line belongs to no user; the search of the files finds it if it has a word of the items.
            return False

    return WaitingWrites(file=file, checksums=tuple(checksum_of(line) for line in _lines(file) if is_selected(line)))


def _lines(file: Path) -> Iterator[str]:
    if not file.exists():
        return
    if file.suffix == ".db":
        with closing(_raw_outbox(file)) as outbox:
            yield from [entry.value for entry in outbox.entries(rejected=True)]
    else:
        yield from read_file(file).decode("utf-8", "surrogateescape").splitlines()


def _raw_outbox(file: Path) -> Outbox[str]:
    return Outbox(file, dump=str, load=str)


def _item_of_write(line: str) -> MemoryItem:
    """Return an item by which a rescued write is selected."""
    payload = load_payload(json.loads(line)["payload"])
    said = [payload.inputs_text, payload.output_text()]
    return MemoryItem(
        id="",
        content_summary="\n".join(text for text in said if text),
        metadata=payload.metadata,
        scope=payload.scope,
        event_time=payload.event_time,
        trust=payload.trust,
    )


def _items_of_record(line: str) -> tuple[MemoryItem, ...]:
    """Return the items by which a refused record is selected: it is of both of its sides."""
    record = Interaction.from_json(json.loads(line))
    return tuple(
        MemoryItem(
            id=record.id,
            content_summary=record.content,
            scope=Scope(
                user=record.user, agent=agent, conversation=record.conversation or None, trace=record.trace or None
            ),
            event_time=record.event_time,
        )
        for agent in (record.source.name, record.target.name)
    )


def remove_waiting(file: Path, checksums: set[str]) -> list[Residue]:
    """Remove writes from a file by the checksums of their lines; return what could not be reached.

    Raises:
        DevmemError, OSError: the file cannot be changed.
    """
    if not file.exists():
        return []
    if file.suffix == ".db":
        with closing(_raw_outbox(file)) as outbox:
            gone = [entry.key for entry in outbox.entries(rejected=True) if checksum_of(entry.value) in checksums]
            outbox.remove(gone)
            return outbox.rewrite()
    with lock_refused_records(file.parent) if file.name == REFUSED else nullcontext():
        _remove_lines(file, checksums)
    return []


def _remove_lines(file: Path, checksums: set[str]) -> None:
    kept = [line for line in _lines(file) if checksum_of(line) not in checksums]
    if kept:
        replace_file(file, sealed_for(file, [f"{line}\n".encode("utf-8", "surrogateescape") for line in kept]))
    else:
        file.unlink(missing_ok=True)


def settle_journals(store: InteractionStore, folder: Path) -> list[Residue]:
    """Store what waits in the journals of processes that are gone; return the journals that are left.

    What a living process still writes is its own: it moves the records into the store itself.
    """
    if not folder.is_dir():
        return []
    try:
        for journal in abandoned_journals(folder):
            while (batch := journal.next_batch(_BATCH_SIZE)) is not None:
                store.record([Interaction.from_row(row) for row in batch.records])
                journal.acknowledge(batch.end)
    except (DevmemError, OSError, ValueError) as error:
        return [Residue(place=str(folder), reason=f"records wait that the store does not take: {error}", failed=True)]
    return [
        Residue(place=str(journal.path), reason="a running process writes it, and removes it when it ends")
        for journal in waiting_records(folder).journals
        if journal.in_use
    ]
