"""Pending work and shown memories in the state of sessions: found by a selection of items, and removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from devmem.model.interactions import Interaction
from devmem.model.items import MemoryItem, Scope
from devmem.recording.forwarder import records_in, send_records
from devmem.recording.log import InteractionStore
from devmem.storage.erasure import EraseRequest, Residue
from devmem.storage.pending import RECORD, WRITE, PendingRow, pending_rows, remove_rows
from devmem.storage.recall_log import RecallLog
from devmem.workflow.rescue import TEMPORARY, read_write

_PATIENCE: Final = 30.0
"""Seconds to wait for another process that sends records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingParts:
    """Parts of a file of state that are to be erased."""

    kind: Literal["pending", "recalls"]
    """Rows of pending work, or parts of the log of what agents were shown."""
    file: Path
    names: tuple[str, ...]


def find_shown(file: Path, request: EraseRequest, items: Sequence[MemoryItem]) -> WaitingParts:
    """Return the parts of a log that show, or asked for, what is erased.

    Raises:
        DevmemError: the log cannot be read.
    """
    return WaitingParts(kind="recalls", file=file, names=RecallLog(file).select(request, items))


def find_waiting(file: Path, request: EraseRequest) -> WaitingParts:
    """Return the writes and the records in a file that are selected; stores select their own deliveries.

    Raises:
        DevmemError: the file cannot be read.
    """
    rows = pending_rows(file, WRITE, RECORD)
    names = tuple(str(row.number) for row in rows if any(map(request.admits, _items_of(row))))
    return WaitingParts(kind="pending", file=file, names=names)


def temporary_writes() -> list[Path]:
    """Return the files of writes that found no place but the machine's folder for temporary files."""
    return sorted(Path(tempfile.gettempdir()).glob(TEMPORARY))


def _items_of(row: PendingRow) -> tuple[MemoryItem, ...]:
    """Return the items by which a row is selected; a record is of both of its sides."""
    try:
        if row.kind == WRITE:
            payload = read_write(row.payload)
            said = [payload.inputs_text, payload.output_text()]
            return (
                MemoryItem(
                    id="",
                    content_summary="\n".join(text for text in said if text),
                    metadata=payload.metadata,
                    scope=payload.scope,
                    event_time=payload.event_time,
                    trust=payload.trust,
                ),
            )
        record = Interaction.load(row.payload)
    except ValueError:
        # An unreadable row belongs to no user; the search of the files finds it if it has a word of the items.
        return ()
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


def remove_parts(kind: str, file: Path, names: Iterable[str]) -> list[Residue]:
    """Remove parts of a file of state, down to the bytes; return what could not be reached.

    Raises:
        DevmemError: the file cannot be changed.
    """
    if kind == "pending":
        return remove_rows(file, map(int, names))
    with closing(RecallLog(file)) as log:
        return log.remove(names)


def settle_records(store: InteractionStore, file: Path, name: str) -> list[Residue]:
    """Store the records that wait for a store in a file; return the file where some are left."""
    if not file.exists():
        return []
    with closing(records_in(file, name)) as records:
        error = send_records(store, records, _PATIENCE)
    if error is None:
        return []
    return [Residue(place=str(file), reason=f"records wait that the store does not take: {error}", failed=True)]
