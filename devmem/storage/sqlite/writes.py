"""Adding items within one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from devmem.errors import VersionConflictError
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import PINNED, MemoryItem, version_hash
from devmem.model.results import WriteOutcome
from devmem.model.versions import Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.runs import Runs, VersionEnd
from devmem.storage.searching import check_length, check_name
from devmem.storage.sql import Sql
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.reader import Opened
from devmem.storage.sqlite.runs import SqliteTables
from devmem.storage.sqlite.tombstones import erased_among
from devmem.storage.sqlite.version_writer import VersionWriter, prune_changes, remove_versions
from devmem.storage.writing import (
    DamagedRows,
    PreparedItem,
    Unique,
    check_item,
    duplicate_of,
    kept_out,
    stored_outcome,
    usable_embeddings,
)


def check_embeddings(
    connection: sqlite3.Connection, location: str, model: str | None, embeddings: Iterable[PassageEmbeddings | None]
) -> None:
    """Refuse embeddings of another model or length; the first embedding of all sets the length.

    Args:
        connection: in a write transaction.
        location: location of the collection, for the error.
        model: name of the model that made the embeddings; None when it is not known.
        embeddings: embeddings that are to be stored.

    Raises:
        EmbeddingMismatchError: the model or the length is another.
    """
    lengths = {encoding.vectors.shape[1] for encoding in embeddings if encoding is not None}
    if not lengths:
        return
    meta = database.read_meta(connection)
    check_name(location, made=meta.get("model"), given=model)
    recorded = meta.get("dimension")
    if recorded is None:
        recorded = min(lengths)
        database.set_meta(connection, "dimension", recorded)
    for length in lengths:
        check_length(location, made=int(recorded), given=length)


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

    def __init__(
        self,
        version_writer: VersionWriter,
        damaged: DamagedRows,
        *,
        has_model: bool,
        now: float,
        erased: Collection[str] = (),
    ) -> None:
        """Prepare to add items at `now`, in seconds since the epoch: what had expired by then is not there.

        `erased` are the ids of those that a tombstone keeps out, unless their content is stored already.
        """
        self._erased = erased
        self._version_writer, self._damaged, self._has_model, self._now = version_writer, damaged, has_model, now
        self._connection, self._attachments = version_writer.connection, version_writer.attachments

    def add(self, prepared: PreparedItem, unique: Unique) -> WriteOutcome:
        """Store an item, unless it is stored already."""
        item = prepared.item
        check_item(item)
        older = _stored(self._connection, self._damaged, item.id)
        if older is not None and older.has_expired(self._now):
            self._version_writer.remove("row = ?", [older.row])
            older = None
        if older is not None and older.item is not None and version_hash(older.item) == version_hash(item):
            return duplicate_of(item.id, by=Unique.ID)
        if item.id in self._erased and (older is None or older.content_hash != item.content_hash):
            return kept_out()
        if unique is Unique.CONTENT and (twin := self._twin(item)):
            return duplicate_of(twin, by=Unique.CONTENT)
        if older is not None:
            prepared = self._with_embeddings_of(older, prepared)
            self._version_writer.end("row = ?", [older.row], VersionEnd(operation=Operation.UPDATE, run=item.scope.run))
        # Without a model the item is marked too: one may be added to the workflow later.
        embeddings = usable_embeddings(item.id, prepared.embeddings)
        without_vector = embeddings is None and has_text(item)
        operation = Operation.ADD if older is None else Operation.UPDATE
        passages = self._version_writer.insert(
            prepared, self._body_of(item), waiting=without_vector, operation=operation
        )
        if embeddings is not None:
            rows.insert_embeddings(self._connection, passages, embeddings)
        waiting = without_vector and self._has_model
        return stored_outcome(item.id, replaced=older.content_hash if older else None, waiting=waiting)

    def _body_of(self, item: MemoryItem) -> MemoryItem:
        """Return an item with its large attachments as references."""
        has_none = item.input_snapshot is None and item.output_snapshot is None
        return item if has_none or self._attachments is None else self._attachments.externalize(item)

    def _with_embeddings_of(self, older: _Stored, prepared: PreparedItem) -> PreparedItem:
        """Return an item with the embeddings of its older version, where it has none and the content is the same."""
        before = older.content_hash if older.item is None else embedded_hash(older.item)
        if prepared.embeddings is not None or before != embedded_hash(prepared.item):
            return prepared
        return replace(prepared, embeddings=rows.read_embeddings(self._connection, prepared.item.id))

    def _twin(self, item: MemoryItem) -> str | None:
        # The plus signs keep SQLite from taking the scope's index, which lists every item of the agent.
        found = self._connection.execute(
            "SELECT id FROM items WHERE content_hash = ? AND +agent IS ? AND +user IS ? AND id IS NOT ? "
            "AND (+expires_at IS NULL OR +expires_at > ?)",
            (item.content_hash, *map(rows.sql_text, (item.scope.agent, item.scope.user, item.id)), self._now),
        ).fetchone()
        return found[0] if found else None


_FORGOTTEN: Final = VersionEnd(operation=Operation.FORGET)


def surplus_of(connection: sqlite3.Connection, total: int, keep: int, now: float) -> int:
    """Return by how many a number of items is more than `keep`; what has expired at `now` takes no item's place."""
    if total <= keep:
        return 0
    (expired,) = connection.execute("SELECT count(*) FROM items WHERE expires_at <= ?", (now,)).fetchone()
    return max(total - int(expired) - keep, 0)


class SqliteItemChanges:
    """Changes items by a version writer; see `ItemChanges`."""

    def __init__(self, version_writer: VersionWriter, opened: Opened, *, model: str | None, has_model: bool) -> None:
        """Take what the changes need.

        Args:
            version_writer: that of the write transaction.
            opened: the database.
            model: name of the model that made the embeddings; None when it is not known.
            has_model: whether items are embedded at all.
        """
        self._version_writer, self._opened, self._model, self._has_model = version_writer, opened, model, has_model
        self._now = opened.clock()

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        connection, damaged = self._version_writer.connection, self._opened.damaged
        self._version_writer.prune()
        made = (item.embeddings for item in batch)
        check_embeddings(connection, self._opened.location, self._model, made)
        check_versions(connection, damaged, expected, self._now)
        if absent is not None:
            check_absent(connection, self._condition(absent))
        erased = erased_among(connection, (prepared.item for prepared in batch))
        writer = ItemWriter(self._version_writer, damaged, has_model=self._has_model, now=self._now, erased=erased)
        outcomes = [writer.add(item, unique) for item in batch]
        self._version_writer.stamp(self._opened.clock())
        return outcomes

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last, at most `count`; return those that can be read."""
        condition, values = self._condition(where)
        clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ?"
        query, parameters = f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))
        found = self._version_writer.connection.execute(query, parameters).fetchall()
        read = (rows.item_from_row(self._opened.damaged, *each) for each in found)
        items = [item for item in read if item is not None]
        for number, *_ in found:
            self._version_writer.end("row = ?", [number], _FORGOTTEN)
        attachments = self._opened.attachments
        return items if attachments is None else [attachments.resolve(item) for item in items]

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter."""
        condition, values = self._condition(where)
        if ids is None:
            deleted = self._version_writer.end(condition, values, _FORGOTTEN)
        else:
            one_of = f"id = ? AND {condition}"
            named = map(rows.sql_text, ids)
            deleted = sum(self._version_writer.end(one_of, [one, *values], _FORGOTTEN) for one in named)
        self._version_writer.stamp(self._opened.clock())
        return deleted

    def erase(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items as `delete` does, and permanently the versions that match with all others of deleted items.

        The version writer keeps versions: as such, the items that match lead to their older versions, which need not
        match.
        """
        deleted = self.delete(ids, where)
        condition, values = self._condition(where)
        gone = f"id IN (SELECT id FROM versions WHERE {condition}) AND id NOT IN (SELECT id FROM items)"
        if ids is None:
            self._erase_versions(f"({condition}) OR ({gone})", [*values, *values])
        for one in map(rows.sql_text, ids or ()):
            self._erase_versions(f"id = ? AND (({condition}) OR ({gone}))", [one, *values, *values])
        return deleted

    def _erase_versions(self, condition: str, values: Sequence[object]) -> None:
        opened, connection = self._opened, self._version_writer.connection
        runs = Runs(SqliteTables(connection, opened.attachments, opened.damaged, opened.location))
        named = runs.naming("versions", condition, values)
        remove_versions(connection, opened.attachments, condition, values)
        runs.forget(named)

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, permanently; pinned ones stay."""
        version_writer, deleted = self._version_writer, 0
        pinned, values = SqliteDialect().metadata({PINNED: True})
        if stored_before is not None:
            before = f"created_at < ? AND ({pinned}) IS NOT TRUE"
            deleted += version_writer.remove(before, [stored_before, *values])
        if keep is not None:
            surplus = surplus_of(version_writer.connection, version_writer.count(), keep, self._now)
            oldest = "row IN (SELECT row FROM items WHERE expires_at IS NULL OR expires_at > ? ORDER BY row LIMIT ?)"
            unpinned = f"{oldest} AND ({pinned}) IS NOT TRUE"
            deleted += version_writer.remove(unpinned, [self._now, surplus, *values]) if surplus else 0
        return deleted

    def _condition(self, where: Filter | None) -> Sql:
        if where is None:
            return "1", []
        indexed = frozenset(self._opened.index.metadata if self._opened.index else ())
        return SqliteDialect(indexed).where(where, self._now)


_SELECT_BODIES: Final = "SELECT row, CAST(body AS BLOB), body_checksum FROM items"


def set_embeddings(connection: sqlite3.Connection, embeddings: Mapping[str, PassageEmbeddings]) -> int:
    """Store the embeddings of waiting items, by id; return the number of items that took theirs."""
    done = 0
    for item_id, encoding in embeddings.items():
        found = connection.execute(
            f"SELECT row, {rows.HASHED} FROM items WHERE id = ? AND waiting", (rows.sql_text(item_id),)
        ).fetchone()
        usable = usable_embeddings(item_id, encoding)
        if found is None or usable is None or not usable.is_of(rows.embedded_hash_of(*found[1:])):
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
    with_text = [(row,) for row, item in items if item is not None and has_text(item)]
    connection.executemany("UPDATE items SET waiting = 1 WHERE row = ?", with_text)
    database.set_meta(connection, "model", model)
    database.set_meta(connection, "dimension", dimension)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return int(connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0])
