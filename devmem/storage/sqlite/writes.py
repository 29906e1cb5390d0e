"""Changing items within one write transaction: what is replaced or deleted stays as a version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol

from devmem.errors import VersionConflictError
from devmem.model.caller import Actor, current_actor
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import PINNED, MemoryItem
from devmem.model.results import WriteOutcome
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.runs import Runs
from devmem.storage.searching import check_length, check_name
from devmem.storage.sql import Sql
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.json_sql import json_list, listed
from devmem.storage.sqlite.predicates import BEGAN, CHANGE, SqliteDialect
from devmem.storage.sqlite.reader import Opened
from devmem.storage.sqlite.rows import CHANGE_CHECKSUMS, ItemValues, end_checksum
from devmem.storage.tombstones import erased_items
from devmem.storage.writing import (
    DamagedRows,
    HistoryLimit,
    PreparedItem,
    StoredVersion,
    Unique,
    VersionEnd,
    check_item,
    recorded,
    stored_outcome,
    unstored_outcome,
    usable_embeddings,
)

_LONG: Final = 5_000
"""Microseconds for which a write takes the time at which it began for that of its commit."""
_STAMP: Final = tuple(
    f"UPDATE {table} SET {column} = :until, change_checksum = {CHANGE_CHECKSUMS[table].replace(column, ':until')} "
    f"WHERE {which}"
    for table, column, which in (
        ("items", "recorded_from", "row > :newest AND recorded_from = :before"),
        ("versions", "recorded_until", "recorded_until = :before"),
        # What was replaced by the same write was never seen.
        ("versions", "recorded_from", "recorded_until = :until AND recorded_from = :before"),
    )
)
_SWEEP_LIMIT: Final = 200
"""Maximum number of items, and of versions, that one write removes because they expired or are too old."""
_KEEP: Final = (
    f"INSERT INTO versions({rows.ITEM_COLUMNS}, operation, change_run, recorded_from, change_actor, "
    "recorded_until, end_operation, end_run, end_actor, change_checksum, archived) "
    f"SELECT {rows.ITEM_COLUMNS}, {CHANGE}, ?, ?, ?, ?, {end_checksum(BEGAN, '????')}, "
    f"CASE WHEN ? = '{Operation.ARCHIVE.value}' THEN 1 END FROM items WHERE "
)
_CHANGES_KEPT: Final = 20_000
"""A cache that missed more changes than about this number is rebuilt."""


class VersionWriter(Protocol):
    """Changes items within one write transaction; reading `items` by its connection shows what it changed."""

    connection: sqlite3.Connection
    attachments: AttachmentFiles | None

    def insert(self, prepared: PreparedItem, values: ItemValues, operation: Operation) -> list[int]:
        """Insert an item and the terms of its passages; return the passages' numbers.

        Args:
            prepared: the item.
            values: what `item_values` returned of it.
            operation: begins this version.
        """
        ...

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Delete the items that match a condition, which stay as versions where these are kept; return their number."""
        ...

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete the items that match a condition permanently, as retention does; return their number."""
        ...

    def stamp(self, now: float) -> None:
        """Record what was changed as of `now` (seconds since the epoch); the commit comes next."""
        ...

    def count(self) -> int:
        """Return the number of items, expired ones that are still there included."""
        ...

    def prune(self) -> None:
        """Remove some of what retention removes, where that is due."""
        ...


class CurrentVersionWriter:
    """Changes the items that everybody sees; see `VersionWriter`."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        attachments: AttachmentFiles | None,
        *,
        limit: HistoryLimit,
        now: float,
        run: str | None = None,
    ) -> None:
        """Prepare the changes of one write transaction.

        Args:
            connection: in a write transaction.
            attachments: files of the collection; None in memory.
            limit: how long versions are kept.
            now: seconds since the epoch.
            run: the run that is being committed or reverted; None takes that of each item's scope.
        """
        self.connection, self.attachments = connection, attachments
        self._limit, self._now = limit, now
        self._at: int | None = None
        # What a run writes on commit has the actors that wrote it.
        self._actor = Actor(run=run) if run is not None else current_actor()

    @property
    def at(self) -> int:
        """Recorded time of the transaction."""
        if self._at is None:
            self._at = self._next_time()
        return self._at

    def _next_time(self) -> int:
        (self._newest,) = self.connection.execute("SELECT COALESCE(max(row), 0) FROM items").fetchone()
        found = self.connection.execute("SELECT value FROM meta WHERE key = 'recorded'").fetchone()
        # Later than that of every one before: where the clock was set back, the last recorded time counts on.
        time = max(recorded(self._now), 0 if found is None else int(found[0]) + 1)
        database.set_meta(self.connection, "recorded", time)
        return time

    def stamp(self, now: float) -> None:
        """Record what was changed as of `now`, where it took long: no one sees it before the commit."""
        before, until = self._at, recorded(now)
        if before is None or until - before < _LONG:
            return
        self._at = until
        for statement in _STAMP:
            self.connection.execute(statement, {"until": until, "before": before, "newest": self._newest})
        database.set_meta(self.connection, "recorded", until)

    def insert(
        self,
        prepared: PreparedItem,
        values: ItemValues,
        operation: Operation,
        *,
        actor: str | None = None,
    ) -> list[int]:
        """Insert a current item; `actor` wrote it, where that is not who changes items now."""
        run, by = self._actor.run or prepared.item.scope.run, actor or self._actor.name
        origin = (operation.value, rows.sql_text(run), self.at, rows.sql_text(by))
        return rows.insert_item(self.connection, prepared, values, origin=origin)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Move items to the versions; delete them where no versions are kept, unless they are archived."""
        if not (self._limit.keeps or ending.operation is Operation.ARCHIVE):
            return self.remove(condition, values)
        by = replace(ending, run=self._actor.run or ending.run, actor=ending.actor or self._actor.name)
        ended = (self.at, by.operation.value, rows.sql_text(by.run), rows.sql_text(by.actor))
        self.connection.execute(_KEEP + condition, (*ended, *ended, by.operation.value, *values))
        return self._delete(condition, values)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete items and release their attachments."""
        release(self.connection, self.attachments, "items", condition, values)
        return self._delete(condition, values)

    def _delete(self, condition: str, values: Sequence[object]) -> int:
        deleted = self.connection.execute(f"DELETE FROM items WHERE {condition}", tuple(values)).rowcount
        if deleted:
            prune_changes(self.connection)
        return deleted

    def keeps_since(self, at: int) -> bool:
        """Whether every version that ended at a recorded time, or later, is still kept."""
        return self._limit.keeps_since(at, self._now)

    def count(self) -> int:
        """Return the number of items, which the database keeps."""
        return int(database.read_meta(self.connection)["count"] or 0)

    def prune(self) -> None:
        """Remove some of what is past its `expires_at`, and of the versions that ended too long ago.

        At most `_SWEEP_LIMIT` of each go with one write, so that none is slow; what is left is not found meanwhile.
        """
        expired = "expires_at <= ?"
        if rows.any_expired(self.connection, self._now):
            part = f"SELECT row FROM items WHERE {expired} ORDER BY expires_at, row LIMIT {_SWEEP_LIMIT}"
            # What replaces an expired item is in no conflict with its expiry.
            based = f"recorded_until IS NULL AND base IN ({part})"
            self.connection.execute(f"UPDATE versions SET base = NULL WHERE {based}", (self._now,))
            self.remove(f"row IN ({part})", [self._now])
        self._prune_versions(f"{expired} AND recorded_until IS NOT NULL", [self._now])
        if (oldest := self._limit.oldest(self._now)) is not None:
            self._prune_versions("recorded_until < ? AND archived IS NULL", [oldest])

    def _prune_versions(self, condition: str, values: Sequence[object]) -> None:
        """Remove some of the versions that match a condition: a write that does a little is never slow."""
        part = f"row IN (SELECT row FROM versions WHERE {condition} LIMIT {_SWEEP_LIMIT})"
        if self.connection.execute(f"SELECT 1 FROM versions WHERE {condition} LIMIT 1", tuple(values)).fetchone():
            remove_versions(self.connection, self.attachments, part, values)


def remove_versions(
    connection: sqlite3.Connection, attachments: AttachmentFiles | None, condition: str, values: Sequence[object]
) -> int:
    """Delete versions permanently and release their attachments; return their number."""
    release(connection, attachments, "versions", condition, values)
    deleted = connection.execute(f"DELETE FROM versions WHERE {condition}", tuple(values)).rowcount
    if deleted:
        prune_changes(connection)
    return deleted


def release(
    connection: sqlite3.Connection,
    attachments: AttachmentFiles | None,
    table: str,
    condition: str,
    values: Sequence[object],
) -> None:
    """Record the attachments of rows that are about to be deleted; the last of an attachment's rows takes its file."""
    if attachments is None:
        return
    query = f"SELECT CAST(body AS BLOB) FROM {table} WHERE ({condition}) AND instr(body, ?)"
    for (body,) in connection.execute(query, (*values, ".files/")).fetchall():
        attachments.release(body.decode(errors="replace"))


def prune_changes(connection: sqlite3.Connection) -> None:
    """Delete the oldest of the recorded changes where there are many."""
    # As two aggregates of one SELECT, SQLite would read the whole table.
    newest, oldest = connection.execute(
        "SELECT (SELECT max(number) FROM changes), (SELECT min(number) FROM changes)"
    ).fetchone()
    if newest is None or newest - oldest <= _CHANGES_KEPT:
        return
    floor = newest - _CHANGES_KEPT // 2
    connection.execute("DELETE FROM changes WHERE number <= ?", (floor,))
    database.set_meta(connection, "changes_floor", floor)


def check_embeddings(
    connection: sqlite3.Connection,
    location: str,
    model: str | None,
    embeddings: Iterable[PassageEmbeddings | EmbeddingRefusal | None],
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
    lengths = {encoding.vectors.shape[1] for encoding in embeddings if isinstance(encoding, PassageEmbeddings)}
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
        found = None if older is None else older.version
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


TOMBSTONE_KEYS: Final = "tombstone_keys"
_LOOKUP: Final = "SELECT digest FROM json_each(?) CROSS JOIN tombstones ON digest = value"


def tombstone_keys(connection: sqlite3.Connection) -> tuple[bytes, ...]:
    """Return the keys of a database; none where it has no tombstones."""
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (TOMBSTONE_KEYS,)).fetchone()
    return tuple(map(bytes.fromhex, json.loads(found[0]))) if found and found[0] else ()


def find_tombstones(connection: sqlite3.Connection, digests: Sequence[bytes]) -> set[bytes]:
    """Return those of some digests for which a tombstone stands."""
    listed = json.dumps([digest.hex() for digest in digests])
    return {bytes.fromhex(found) for (found,) in connection.execute(_LOOKUP, (listed,))}


def erased_among(connection: sqlite3.Connection, items: Iterable[MemoryItem]) -> frozenset[str]:
    """Return the ids of the items that a tombstone keeps out."""
    keys = tombstone_keys(connection)
    return erased_items(keys, items, partial(find_tombstones, connection)) if keys else frozenset()


def _stored(connection: sqlite3.Connection, damaged: DamagedRows, item_id: str) -> StoredVersion | None:
    query = "SELECT content_hash, row, CAST(body AS BLOB), body_checksum FROM items WHERE id = ?"
    found = connection.execute(query, (rows.sql_text(item_id),)).fetchone()
    if found is None:
        return None
    return StoredVersion(row=found[1], content_hash=found[0], item=rows.item_from_row(damaged, *found[1:]))


_FORGOTTEN: Final = VersionEnd(operation=Operation.FORGET)
_ARCHIVED: Final = VersionEnd(operation=Operation.ARCHIVE)


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
        self._connection, self._now = version_writer.connection, opened.clock()

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        connection, damaged = self._connection, self._opened.damaged
        self._version_writer.prune()
        made = (item.embeddings for item in batch)
        check_embeddings(connection, self._opened.location, self._model, made)
        check_versions(connection, damaged, expected, self._now)
        if absent is not None:
            check_absent(connection, self._condition(absent))
        erased = erased_among(connection, (prepared.item for prepared in batch))
        outcomes = [self._add(item, unique, erased) for item in batch]
        self._version_writer.stamp(self._opened.clock())
        return outcomes

    def _add(self, prepared: PreparedItem, unique: Unique, erased: Collection[str]) -> WriteOutcome:
        """Store an item, unless it is stored already, or is one that a tombstone keeps out with the ids `erased`."""
        item = prepared.item
        check_item(item)
        older = _stored(self._connection, self._opened.damaged, item.id)
        if older is not None and older.has_expired(self._now):
            self._version_writer.remove("row = ?", [older.row])
            older = None
        twin = self._twin if unique is Unique.CONTENT else None
        refused = unstored_outcome(item, older, erased=erased, twin=twin)
        if refused is not None:
            return refused
        if older is not None:
            prepared = self._with_embeddings_of(older, prepared)
            self._version_writer.end("row = ?", [older.row], VersionEnd(operation=Operation.UPDATE, run=item.scope.run))
        # Without a model the item is marked too: one may be added to the workflow later.
        embeddings = usable_embeddings(item.id, prepared.embeddings)
        without_vector = embeddings is None and has_text(item)
        operation = Operation.ADD if older is None else Operation.UPDATE
        values = rows.item_values(prepared, self._body_of(item), waiting=without_vector)
        passages = self._version_writer.insert(prepared, values, operation)
        if embeddings is not None:
            rows.insert_embeddings(self._connection, passages, embeddings)
        waiting = without_vector and self._has_model
        return stored_outcome(item.id, replaced=older.content_hash if older else None, waiting=waiting)

    def _body_of(self, item: MemoryItem) -> MemoryItem:
        """Return an item with its large attachments as references."""
        has_none, attachments = item.input_snapshot is None and item.output_snapshot is None, self._opened.attachments
        return item if has_none or attachments is None else attachments.externalize(item)

    def _with_embeddings_of(self, older: StoredVersion, prepared: PreparedItem) -> PreparedItem:
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

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last, at most `count`; return those that can be read."""
        condition, values = self._condition(where)
        clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ?"
        query, parameters = f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))
        found = self._connection.execute(query, parameters).fetchall()
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

    def archive(self, ids: Sequence[str]) -> int:
        """Move the items with these ids into the archive."""
        # All at once: each statement in a run looks at everything that the run has changed.
        named = json_list(map(rows.sql_text, ids))
        moved = self._version_writer.end(f"id IN ({listed('?')})", [named], _ARCHIVED)
        self._version_writer.stamp(self._opened.clock())
        return moved

    def erase(self, runs: Runs, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items as `delete` does, and permanently the versions that match with all others of deleted items.

        The version writer keeps versions: as such, the items that match lead to their older versions, which need not
        match. `runs` are those of the collection.
        """
        deleted = self.delete(ids, where) + self._count_archived(ids, where)
        condition, values = self._condition(where)
        gone = f"id IN (SELECT id FROM versions WHERE {condition}) AND id NOT IN (SELECT id FROM items)"
        if ids is None:
            runs.erase_versions(f"({condition}) OR ({gone})", [*values, *values])
        for one in map(rows.sql_text, ids or ()):
            runs.erase_versions(f"id = ? AND (({condition}) OR ({gone}))", [one, *values, *values])
        return deleted

    def _count_archived(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Return the number of archived items with these ids that match the filter."""
        condition, values = self._condition(where)
        query = f"SELECT count(*) FROM versions WHERE archived AND {condition}"
        clauses = [(query, values)]
        if ids is not None:
            clauses = [(f"{query} AND id = ?", [*values, one]) for one in map(rows.sql_text, ids)]
        return sum(int(self._connection.execute(*clause).fetchone()[0]) for clause in clauses)

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, permanently; pinned ones stay."""
        version_writer, deleted = self._version_writer, 0
        pinned, values = SqliteDialect().metadata({PINNED: True})
        if stored_before is not None:
            before = f"created_at < ? AND ({pinned}) IS NOT TRUE"
            deleted += version_writer.remove(before, [stored_before, *values])
            connection, attachments = version_writer.connection, version_writer.attachments
            deleted += remove_versions(connection, attachments, "archived AND created_at < ?", [stored_before])
        if keep is not None:
            surplus = surplus_of(self._connection, version_writer.count(), keep, self._now)
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


def set_embeddings(
    connection: sqlite3.Connection, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal]
) -> int:
    """Store the embeddings of waiting items, by id, or why they get none; return the number that took embeddings."""
    done = 0
    for item_id, encoding in embeddings.items():
        found = connection.execute(
            f"SELECT row, {rows.HASHED} FROM items WHERE id = ? AND waiting", (rows.sql_text(item_id),)
        ).fetchone()
        usable = encoding if isinstance(encoding, EmbeddingRefusal) else usable_embeddings(item_id, encoding)
        if found is None or usable is None or not usable.is_of(rows.embedded_hash_of(*found[1:])):
            continue
        row = found[:1]
        if isinstance(usable, EmbeddingRefusal):
            for table in ("main.items", "main.versions"):
                connection.execute(f"UPDATE {table} SET refusal = ? WHERE row = ?", (usable.reason, *row))
            continue
        passages = connection.execute("SELECT passage FROM passages WHERE row = ? ORDER BY passage", row).fetchall()
        rows.insert_embeddings(connection, [number for (number,) in passages], usable)
        for table in ("main.items", "main.versions"):
            connection.execute(f"UPDATE {table} SET waiting = 0, refusal = NULL WHERE row = ?", row)
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
    connection.execute("UPDATE items SET refusal = NULL WHERE refusal IS NOT NULL")
    database.set_meta(connection, "model", model)
    database.set_meta(connection, "dimension", dimension)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return int(connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()[0])
