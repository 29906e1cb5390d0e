"""The operations of a write transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from devmem.collections.attachments import AttachmentFiles
from devmem.collections.filter_sql import Sql
from devmem.collections.item_columns import check_item
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.collections.recorded import Ending, HistoryLimit
from devmem.collections.sqlite import database, rows
from devmem.collections.sqlite.integrity import DamagedRows
from devmem.collections.sqlite.recorder import CurrentRecorder, Recorder, prune_changes, remove_versions
from devmem.collections.sqlite.sealing import sealed_transaction
from devmem.collections.transactions import write_transaction
from devmem.collections.unit_vectors import usable_embeddings
from devmem.embedding import PassageEmbeddings
from devmem.errors import VersionConflictError
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome, WriteStatus
from devmem.model.version_hash import version_hash
from devmem.model.versions import Operation

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_SELECT_BODIES: Final = "SELECT row, CAST(body AS BLOB), body_checksum FROM items"
FORGOTTEN: Final = Ending(operation=Operation.FORGET)


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
        if prepared.embeddings is not None or older.content_hash != prepared.item.content_hash:
            return prepared
        return replace(prepared, embeddings=rows.read_embeddings(self._connection, prepared.item.id))

    def _insert(self, prepared: PreparedItem, operation: Operation) -> bool:
        """Insert an item and its embeddings; return whether it waits for these."""
        item = prepared.item
        body = self._attachments.externalize(item) if self._attachments else item
        # Without a model the item is marked too: one may be added to the workflow later.
        embeddings = usable_embeddings(item.id, prepared.embeddings)
        without_vector = embeddings is None and bool(item.content_summary.strip())
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


def commit(connection: sqlite3.Connection, attachments: AttachmentFiles | None, operation: Callable[[], T]) -> T:
    """Run an operation in a write transaction, then remove the attachments that no item refers to any more."""
    try:
        result = sealed_transaction(connection, operation)
    except BaseException:
        if attachments is not None:
            attachments.discard_released()
        raise
    if attachments is not None and attachments.released:
        _remove_released(connection, attachments)
    return result


def _remove_released(connection: sqlite3.Connection, attachments: AttachmentFiles) -> None:
    def remove() -> None:
        attachments.remove_released(lambda name: is_named(connection, name))

    try:
        # Under the write lock: nobody may begin to refer to a file while it is removed.
        write_transaction(connection, remove)
    except sqlite3.Error as error:
        # The deletion itself is committed.
        _LOG.warning("%s: attachments of deleted items were not removed (%s).", attachments.folder, error)
        attachments.discard_released()


def is_named(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an item or a version refers to an attachment."""
    query = "SELECT 1 FROM {} WHERE instr(body, ?) LIMIT 1"
    tables = ("items", "versions")
    return any(connection.execute(query.format(table), (name,)).fetchone() is not None for table in tables)


def pop(recorder: Recorder, damaged: DamagedRows, count: int, where: Sql) -> list[MemoryItem]:
    """Delete the items stored last that match a condition, at most `count`, and return those that can be read."""
    condition, values = where
    clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ?"
    found = recorder.connection.execute(f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))).fetchall()
    items = [rows.item_from_row(damaged, *columns) for columns in found]
    for number, *_ in found:
        recorder.end("row = ?", [number], FORGOTTEN)
    return [item for item in items if item is not None]


def delete(recorder: Recorder, ids: Sequence[str] | None, where: Sql) -> int:
    """Delete the items that match a condition; None for ids does not restrict. Return their number."""
    condition, values = where
    if ids is None:
        return recorder.end(condition, values, FORGOTTEN)
    named = map(rows.sql_text, ids)
    return sum(recorder.end(f"id = ? AND {condition}", [one, *values], FORGOTTEN) for one in named)


def erase(
    connection: sqlite3.Connection,
    attachments: AttachmentFiles | None,
    ids: Sequence[str] | None,
    where: Sql,
    now: float,
) -> int:
    """Delete items as `delete` does, and for good the versions that match with all others of items that are gone.

    Return the number of items.
    """
    # As versions, the items that match lead to their older versions, which need not match.
    recorder = CurrentRecorder(connection, attachments, limit=HistoryLimit(days=None), now=now)
    deleted = delete(recorder, ids, where)
    condition, values = where
    gone = f"id IN (SELECT id FROM versions WHERE {condition}) AND id NOT IN (SELECT id FROM items)"
    if ids is None:
        remove_versions(connection, attachments, f"({condition}) OR ({gone})", [*values, *values])
    for one in map(rows.sql_text, ids or ()):
        condition_of_id = f"id = ? AND (({condition}) OR ({gone}))"
        remove_versions(connection, attachments, condition_of_id, [one, *values, *values])
    return deleted


def trim(recorder: Recorder, keep: int | None, stored_before: float | None, now: float) -> int:
    """Delete all but the newest `keep` items, and those stored before a time, for good; return their number.

    What had expired at `now` (seconds since the epoch) and is still there takes no item's place.
    """
    deleted = 0
    if stored_before is not None:
        deleted += recorder.remove("created_at < ?", [stored_before])
    if keep is not None and recorder.count() > keep:
        expired = recorder.connection.execute("SELECT count(*) FROM items WHERE expires_at <= ?", (now,)).fetchone()[0]
        surplus = max(recorder.count() - expired - keep, 0)
        oldest = "row IN (SELECT row FROM items WHERE expires_at IS NULL OR expires_at > ? ORDER BY row LIMIT ?)"
        deleted += recorder.remove(oldest, [now, surplus])
    return deleted


def set_embeddings(connection: sqlite3.Connection, embeddings: Mapping[str, PassageEmbeddings]) -> int:
    """Store the embeddings of waiting items, by id; return the number of items that took theirs."""
    done = 0
    for item_id, encoding in embeddings.items():
        found = connection.execute(
            "SELECT row, content_hash FROM items WHERE id = ? AND waiting", (rows.sql_text(item_id),)
        ).fetchone()
        usable = usable_embeddings(item_id, encoding)
        if found is None or usable is None or not usable.is_of(found[1]):
            continue
        row = found[:1]
        passages = connection.execute("SELECT passage FROM passages WHERE row = ? ORDER BY passage", row).fetchall()
        rows.insert_embeddings(connection, [number for (number,) in passages], usable)
        for table in ("main.items", "main.versions"):
            connection.execute(f"UPDATE {table} SET waiting = 0 WHERE row = ?", row)
        connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'embedded')", row)
        done += 1
    if done:
        prune_changes(connection)
    return done


def await_embeddings(connection: sqlite3.Connection, damaged: DamagedRows) -> None:
    """Delete the vectors that were found damaged and let their items wait for new ones."""
    for passage in damaged.take("vectors"):
        connection.execute("DELETE FROM vectors WHERE passage = ?", (passage,))
        connection.execute(
            "UPDATE items SET waiting = 1 WHERE row = (SELECT row FROM passages WHERE passage = ?)", (passage,)
        )


def replace_model(connection: sqlite3.Connection, model: str, dimension: int | None, damaged: DamagedRows) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    connection.execute("DELETE FROM vectors")
    connection.execute("DELETE FROM tokens")
    done = connection.execute(f"{_SELECT_BODIES} WHERE NOT waiting").fetchall()
    items = ((row, rows.item_from_row(damaged, row, *rest)) for row, *rest in done)
    with_text = [(row,) for row, item in items if item is not None and item.content_summary.strip()]
    connection.executemany("UPDATE items SET waiting = 1 WHERE row = ?", with_text)
    database.set_meta(connection, "model", model)
    database.set_meta(connection, "dimension", dimension)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return int(connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0])
