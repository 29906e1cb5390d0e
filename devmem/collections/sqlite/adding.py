"""Adding items within one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace

from devmem.collections.filter_sql import Sql
from devmem.collections.item_columns import check_item
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.collections.recorded import Ending
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.recorder import Recorder
from devmem.collections.unit_vectors import usable_embeddings
from devmem.errors import VersionConflictError
from devmem.model.indexed_fields import embedded_hash, has_text
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.model.version_hash import version_hash
from devmem.model.versions import Operation


def check_versions(
    connection: sqlite3.Connection, damaged: DamagedRows, expected: Mapping[str, str | None], now: float
) -> None:
    """Compare the stored versions of items with those that are expected, by id; an expired item has none.

    `now` is in seconds since the epoch.

    Raises:
        VersionConflictError: one is another, is missing, or should be missing.
    """
    for item_id, wanted in expected.items():
        older = _stored(connection, damaged, item_id)
        if older is not None and older.has_expired(now):
            older = None
        # A damaged item is no version that anybody knows.
        found = None if older is None else "" if older.item is None else version_hash(older.item)
        if found != wanted:
            raise VersionConflictError(item_id, expected=wanted, found=found)


def check_absent(connection: sqlite3.Connection, where: Sql) -> None:
    """Make sure that no item matches a condition.

    Raises:
        VersionConflictError: one does.
    """
    condition, values = where
    found = connection.execute(f"SELECT id FROM items WHERE {condition} LIMIT 1", values).fetchone()
    if found is not None:
        raise VersionConflictError(found[0], expected=None, found="")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """The stored version of an item."""

    row: int
    content_hash: str
    item: MemoryItem | None
    """None where it is damaged."""

    def has_expired(self, now: float) -> bool:
        """Whether it is past its `expires_at` at `now` (seconds since the epoch), and only waits to be removed."""
        return self.item is not None and self.item.expired(now)


def _stored(connection: sqlite3.Connection, damaged: DamagedRows, item_id: str) -> _Stored | None:
    query = "SELECT content_hash, row, CAST(body AS BLOB), body_checksum FROM items WHERE id = ?"
    found = connection.execute(query, (rows.sql_text(item_id),)).fetchone()
    if found is None:
        return None
    return _Stored(row=found[1], content_hash=found[0], item=rows.item_from_row(damaged, *found[1:]))


class ItemWriter:
    """Adds items within one write transaction."""

    def __init__(self, recorder: Recorder, damaged: DamagedRows, *, has_model: bool, now: float) -> None:
        """Prepare to add items at `now`, in seconds since the epoch: what had expired by then is not there."""
        self._recorder, self._damaged, self._has_model, self._now = recorder, damaged, has_model, now
        self._connection, self._attachments = recorder.connection, recorder.attachments

    def add(self, prepared: PreparedItem, unique: Unique) -> WriteOutcome:
        """Store an item, unless it is stored already."""
        item = prepared.item
        check_item(item)
        older = _stored(self._connection, self._damaged, item.id)
        if older is not None and older.has_expired(self._now):
            self._recorder.remove("row = ?", [older.row])
            older = None
        if older is not None and older.item is not None and version_hash(older.item) == version_hash(item):
            return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=item.id, reason="this item is stored already")
        if unique is Unique.CONTENT and (twin := self._twin(item)):
            return WriteOutcome(status=WriteStatus.DUPLICATE, item_id=twin, reason="the same content is stored already")
        if older is not None:
            prepared = self._with_embeddings_of(older, prepared)
            self._recorder.end("row = ?", [older.row], Ending(operation=Operation.UPDATE, run=item.scope.run))
        waiting = self._insert(prepared, Operation.ADD if older is None else Operation.UPDATE)
        return WriteOutcome(
            status=WriteStatus.SUPERSEDED if older else WriteStatus.STORED,
            item_id=item.id,
            replaced=older.content_hash if older else None,
            waiting=waiting,
            reason="its embedding is still to be made" if waiting else "",
        )

    def _with_embeddings_of(self, older: _Stored, prepared: PreparedItem) -> PreparedItem:
        """Return an item with the embeddings of its older version, where it has none and the content is the same."""
        before = older.content_hash if older.item is None else embedded_hash(older.item)
        if prepared.embeddings is not None or before != embedded_hash(prepared.item):
            return prepared
        return replace(prepared, embeddings=rows.read_embeddings(self._connection, prepared.item.id))

    def _insert(self, prepared: PreparedItem, operation: Operation) -> bool:
        """Insert an item and its embeddings; return whether it waits for these."""
        item = prepared.item
        body = self._attachments.externalize(item) if self._attachments else item
        # Without a model the item is marked too: one may be added to the workflow later.
        embeddings = usable_embeddings(item.id, prepared.embeddings)
        without_vector = embeddings is None and has_text(item)
        passages = self._recorder.insert(prepared, body, waiting=without_vector, operation=operation)
        if embeddings is not None:
            rows.insert_embeddings(self._connection, passages, embeddings)
        return without_vector and self._has_model

    def _twin(self, item: MemoryItem) -> str | None:
        # The plus signs keep SQLite from taking the scope's index, which lists every item of the agent.
        found = self._connection.execute(
            "SELECT id FROM items WHERE content_hash = ? AND +agent IS ? AND +user IS ? AND id IS NOT ? "
            "AND (+expires_at IS NULL OR +expires_at > ?)",
            (item.content_hash, *map(rows.sql_text, (item.scope.agent, item.scope.user, item.id)), self._now),
        ).fetchone()
        return found[0] if found else None
