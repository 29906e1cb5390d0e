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
from devmem.model.items import PINNED, MemoryItem, load_item_json
from devmem.model.results import WriteOutcome
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.searching import check_length, check_name
from devmem.storage.sql import Sql
from devmem.storage.sqlite import database, rows
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.reader import Opened
from devmem.storage.sqlite.rows import Origin
from devmem.storage.sqlite.schema import CURRENT, NOW, State, of_run
from devmem.storage.tombstones import erased_items
from devmem.storage.writing import (
    HistoryLimit,
    PreparedItem,
    StoredVersion,
    Unique,
    VersionEnd,
    check_item,
    recorded,
    stored_hash,
    stored_outcome,
    unstored_outcome,
    usable_embeddings,
)

_LONG: Final = 5_000
"""Microseconds for which a write takes the time at which it began for that of its commit."""
_STAMP: Final = (
    "UPDATE items SET began = :until WHERE row > :newest AND began = :before",
    "UPDATE items SET ended = :until WHERE ended = :before",
)
_SWEEP_LIMIT: Final = 200
"""Maximum number of items, and of versions, that one write removes because they expired or are too old."""
_END: Final = (
    "UPDATE items SET slot = 'was:' || row, ended = ?, end_operation = ?, end_run = ?, end_actor = ?, archived = ? "
    f"WHERE {NOW} AND "
)
_CHANGES_KEPT: Final = 20_000
"""A cache that missed more changes than about this number is rebuilt."""


class VersionWriter(Protocol):
    """Changes the items of a state within one write transaction."""

    connection: sqlite3.Connection
    attachments: AttachmentFiles | None
    state: State

    def insert(self, prepared: PreparedItem, body: MemoryItem, operation: Operation, *, waiting: bool) -> list[int]:
        """Insert an item and the terms of its passages; return the passages' numbers.

        Args:
            prepared: the item.
            body: the item with its large attachments as references.
            operation: begins this version.
            waiting: whether its embeddings are pending.
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

    state = CURRENT

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

    def origin(self, operation: Operation, item_run: str | None, actor: str | None = None) -> Origin:
        """Return the change that begins a version now; `actor` made it, where that is not who changes items now."""
        run, by = self._actor.run or item_run, actor or self._actor.name
        return Origin(operation=operation.value, run=run, actor=by, at=self.at)

    def insert(self, prepared: PreparedItem, body: MemoryItem, operation: Operation, *, waiting: bool) -> list[int]:
        """Insert a current item."""
        origin = self.origin(operation, prepared.item.scope.run)
        return rows.insert_item(self.connection, prepared, body, origin, waiting=waiting)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """End the current versions; delete them where no versions are kept, unless they are archived."""
        is_archived = ending.operation is Operation.ARCHIVE
        if not (self._limit.keeps or is_archived):
            return self.remove(condition, values)
        run, actor = self._actor.run or ending.run, ending.actor or self._actor.name
        change = (self.at, ending.operation.value, run, actor, 1 if is_archived else None)
        ended = self.connection.execute(f"{_END}{condition}", (*change, *values)).rowcount
        if ended:
            prune_changes(self.connection)
        return ended

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Delete items and release their attachments."""
        return remove_versions(self.connection, self.attachments, f"{NOW} AND {condition}", values)

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
        if self.connection.execute("SELECT 1 FROM items WHERE expires_at <= ? LIMIT 1", (self._now,)).fetchone():
            expired = f"SELECT row FROM items WHERE {NOW} AND expires_at <= ? ORDER BY expires_at, row"
            part = f"{expired} LIMIT {_SWEEP_LIMIT}"
            # What replaces an expired item is in no conflict with its expiry.
            forgotten = f"UPDATE items SET base = NULL WHERE began IS NULL AND base IN ({part})"
            self.connection.execute(forgotten, (self._now,))
            self.remove(f"row IN ({part})", [self._now])
            self._prune_versions("expires_at <= ? AND ended IS NOT NULL", [self._now])
        if (oldest := self._limit.oldest(self._now)) is not None:
            self._prune_versions("ended < ? AND archived IS NULL", [oldest])

    def _prune_versions(self, condition: str, values: Sequence[object]) -> None:
        """Remove some of the versions that match a condition: a write that does a little is never slow."""
        if self.connection.execute(f"SELECT 1 FROM items WHERE {condition} LIMIT 1", tuple(values)).fetchone():
            part = f"row IN (SELECT row FROM items WHERE {condition} LIMIT {_SWEEP_LIMIT})"
            remove_versions(self.connection, self.attachments, part, values)


class RunVersionWriter:
    """Changes the items that a pending run sees; see `VersionWriter`."""

    def __init__(self, connection: sqlite3.Connection, attachments: AttachmentFiles | None, run: str) -> None:
        """Prepare the changes of one write transaction."""
        self.connection, self.attachments, self.state = connection, attachments, of_run(run)
        self._run, self._slot, self._actor = run, f"run:{run}", current_actor().name

    def insert(self, prepared: PreparedItem, body: MemoryItem, operation: Operation, *, waiting: bool) -> list[int]:  # noqa: ARG002 - what it is among all items
        """Insert a version of the run in the place of the one that it has of the item."""
        found = self._own("base", "id = ?", prepared.item.id)
        base = None if found is None else found[0]
        self._take_back("id = ?", prepared.item.id)
        begun = (Operation.ADD if base is None else Operation.UPDATE).value
        origin = Origin(operation=begun, run=self._run, actor=self._actor, at=None)
        return rows.insert_item(self.connection, prepared, body, origin, waiting=waiting, slot=self._slot, base=base)

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd) -> int:
        """Hide items from the run; the rest is decided on commit."""
        query = f"SELECT row, slot FROM items WHERE {self.state.shown} AND {condition}"
        found = self.connection.execute(query, tuple(values)).fetchall()
        for row, slot in found:
            if slot == "now":
                self._mark_deleted(row, ending.operation)
            else:
                self._delete_own(row, ending.operation)
            self.connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'hidden')", (row,))
        if found:
            prune_changes(self.connection)
        return len(found)

    def _mark_deleted(self, row: int, operation: Operation) -> None:
        """Insert the mark that the run deletes a current item."""
        columns = f"{rows.CONTENT}, slot, operation, change_run, change_actor, base"
        marked = f"SELECT {rows.CONTENT}, ?, ?, ?, ?, row FROM items WHERE row = ?"
        values = (self._slot, operation.value, self._run, self._actor, row)
        self.connection.execute(f"INSERT INTO items({columns}) {marked}", values)

    def _delete_own(self, row: int, operation: Operation) -> None:
        """Delete a version of the run, which leaves a mark where others have the item.

        The row that the version replaces stays recorded, so that a commit sees what others changed meanwhile.
        """
        others = f"base IS NOT NULL OR EXISTS (SELECT 1 FROM items AS now WHERE now.id = items.id AND now.{NOW})"
        found = self._own(others, "row = ?", row)
        if found is not None and found[0]:
            marked = "UPDATE items SET operation = ?, change_actor = ? WHERE row = ?"
            self.connection.execute(marked, (operation.value, self._actor, row))
        else:
            self._take_back("row = ?", row)

    def remove(self, condition: str, values: Sequence[object]) -> int:
        """Hide items from the run."""
        return self.end(condition, values, VersionEnd(operation=Operation.FORGET))

    def stamp(self, now: float) -> None:
        """Do nothing: what a run writes is recorded when it is committed."""

    def count(self) -> int:
        """Return the number of items."""
        query = f"SELECT count(*) FROM items WHERE {self.state.shown}"
        return int(self.connection.execute(query).fetchone()[0])

    def prune(self) -> None:
        """Do nothing: what others see is not the run's to remove."""

    def _own(self, wanted: str, condition: str, value: object) -> tuple[int | None] | None:
        """Return a value of the run's version that matches a condition; None where it has none."""
        query = f"SELECT {wanted} FROM items WHERE {condition} AND slot = ?"
        found: tuple[int | None] | None = self.connection.execute(query, (value, self._slot)).fetchone()
        return found

    def _take_back(self, condition: str, value: object) -> None:
        """Remove a version of the run, if it has that."""
        remove_versions(self.connection, self.attachments, f"{condition} AND slot = ?", [value, self._slot])


def remove_versions(
    connection: sqlite3.Connection, attachments: AttachmentFiles | None, condition: str, values: Sequence[object]
) -> int:
    """Delete versions permanently, and release their attachments for the last of whose versions the file goes.

    Return the number of deleted versions.
    """
    if attachments is not None:
        query = f"SELECT body FROM items WHERE ({condition}) AND instr(body, '.files/')"
        for (body,) in connection.execute(query, tuple(values)).fetchall():
            attachments.release(body)
    deleted = connection.execute(f"DELETE FROM items WHERE {condition}", tuple(values)).rowcount
    if deleted:
        prune_changes(connection)
    return deleted


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
    known = meta.get("dimension")
    if known is None:
        known = min(lengths)
        database.set_meta(connection, "dimension", known)
    for length in lengths:
        check_length(location, made=int(known), given=length)


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


_FORGOTTEN: Final = VersionEnd(operation=Operation.FORGET)
_ARCHIVED: Final = VersionEnd(operation=Operation.ARCHIVE)


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
        self._connection, self._now, self._of = version_writer.connection, opened.clock(), version_writer.state.shown

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        self._version_writer.prune()
        check_embeddings(self._connection, self._opened.location, self._model, (item.embeddings for item in batch))
        read = self._check_versions(expected)
        if absent is not None:
            condition, values = self._condition(absent)
            query = f"SELECT id FROM items WHERE {self._of} AND {condition} LIMIT 1"
            if (found := self._connection.execute(query, values).fetchone()) is not None:
                raise VersionConflictError(found[0], expected=None, found="")
        erased = erased_among(self._connection, (prepared.item for prepared in batch))
        outcomes = [self._add(item, unique, erased, read) for item in batch]
        self._version_writer.stamp(self._opened.clock())
        return outcomes

    def _check_versions(self, expected: Mapping[str, str | None]) -> dict[str, StoredVersion | None]:
        """Compare the stored versions of items with those that are expected, by id; an expired item has none.

        Return the stored ones.

        Raises:
            VersionConflictError: one is another, is missing, or should be missing.
        """
        read: dict[str, StoredVersion | None] = {}
        for item_id, wanted in expected.items():
            older = read[item_id] = self._stored(item_id)
            found = None if older is None or older.has_expired(self._now) else older.version
            if found != wanted:
                raise VersionConflictError(item_id, expected=wanted, found=found)
        return read

    def _stored(self, item_id: str) -> StoredVersion | None:
        query = f"SELECT row, content_hash, CAST(body AS BLOB) FROM items WHERE id = ? AND {self._of}"
        found = self._connection.execute(query, (item_id,)).fetchone()
        if found is None:
            return None
        return StoredVersion(row=found[0], content_hash=found[1], item=load_item_json(found[2]))

    def _add(
        self, prepared: PreparedItem, unique: Unique, erased: Collection[str], read: dict[str, StoredVersion | None]
    ) -> WriteOutcome:
        """Store an item, unless it is stored already, or is one that a tombstone keeps out with the ids `erased`.

        The versions in `read` were read before, and are taken out of it, since an id may be there twice.
        """
        item = prepared.item
        check_item(item)
        older = read.pop(item.id) if item.id in read else self._stored(item.id)
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
        passages = self._version_writer.insert(prepared, self._body_of(item), operation, waiting=without_vector)
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
        return replace(prepared, embeddings=rows.read_embeddings(self._connection, prepared.item.id, self._of))

    def _twin(self, item: MemoryItem) -> str | None:
        # The plus signs keep SQLite from taking the scope's index, which lists every item of the agent.
        found = self._connection.execute(
            f"SELECT id FROM items WHERE content_hash = ? AND {self._of} AND +agent IS ? AND +user IS ? "
            "AND id IS NOT ? AND (+expires_at IS NULL OR +expires_at > ?)",
            (item.content_hash, item.scope.agent, item.scope.user, item.id, self._now),
        ).fetchone()
        return found[0] if found else None

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last, at most `count`; return them."""
        condition, values = self._condition(where)
        clause = f"WHERE {self._of} AND {condition} ORDER BY items.row DESC LIMIT ?"
        found = self._connection.execute(f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))).fetchall()
        items = [rows.item_from_row(*each) for each in found]
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
            deleted = sum(self._version_writer.end(one_of, [one, *values], _FORGOTTEN) for one in ids)
        self._version_writer.stamp(self._opened.clock())
        return deleted

    def archive(self, ids: Sequence[str]) -> int:
        """Move the items with these ids into the archive."""
        # All at once: each statement in a run looks at everything that the run has changed.
        moved = self._version_writer.end("id IN (SELECT value FROM json_each(?))", [json.dumps(list(ids))], _ARCHIVED)
        self._version_writer.stamp(self._opened.clock())
        return moved

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, permanently; pinned ones stay."""
        version_writer, deleted = self._version_writer, 0
        pinned, values = SqliteDialect().metadata({PINNED: True})
        if stored_before is not None:
            before = f"created_at < ? AND ({pinned}) IS NOT TRUE"
            deleted += version_writer.remove(before, [stored_before, *values])
            connection, attachments = version_writer.connection, version_writer.attachments
            deleted += remove_versions(connection, attachments, "archived = 1 AND created_at < ?", [stored_before])
        if keep is not None and (surplus := surplus_of(self._connection, version_writer.count(), keep, self._now)):
            lives = f"{self._of} AND (expires_at IS NULL OR expires_at > ?)"
            oldest = f"row IN (SELECT row FROM items WHERE {lives} ORDER BY row LIMIT ?)"
            unpinned = f"{oldest} AND ({pinned}) IS NOT TRUE"
            deleted += version_writer.remove(unpinned, [self._now, surplus, *values])
        return deleted

    def _condition(self, where: Filter | None) -> Sql:
        if where is None:
            return "1", []
        indexed = frozenset(self._opened.index.metadata if self._opened.index else ())
        return SqliteDialect(indexed).where(where, self._now)


def surplus_of(connection: sqlite3.Connection, total: int, keep: int, now: float) -> int:
    """Return by how many a number of items is more than `keep`; what has expired at `now` takes no item's place."""
    if total <= keep:
        return 0
    query = f"SELECT count(*) FROM items WHERE {NOW} AND expires_at <= ?"
    (expired,) = connection.execute(query, (now,)).fetchone()
    return max(total - int(expired) - keep, 0)


def set_embeddings(
    connection: sqlite3.Connection, embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal], shown: str = NOW
) -> int:
    """Store the embeddings of waiting items, by id, or why they get none; return the number that took embeddings."""
    done = 0
    for item_id, encoding in embeddings.items():
        query = f"SELECT row, content_hash, CAST(body AS BLOB) FROM items WHERE id = ? AND waiting AND {shown}"
        found = connection.execute(query, (item_id,)).fetchone()
        usable = encoding if isinstance(encoding, EmbeddingRefusal) else usable_embeddings(item_id, encoding)
        if found is None or usable is None or not usable.is_of(stored_hash(*found[1:])):
            continue
        row = found[0]
        if isinstance(usable, EmbeddingRefusal):
            connection.execute("UPDATE items SET refusal = ? WHERE row = ?", (usable.reason, row))
            continue
        rows.insert_embeddings(connection, rows.passages_of_row(connection, row), usable)
        connection.execute("UPDATE items SET waiting = 0, refusal = NULL WHERE row = ?", (row,))
        connection.execute("INSERT INTO changes(row, kind) VALUES (?, 'embedded')", (row,))
        done += 1
    if done:
        prune_changes(connection)
    return done


def replace_model(connection: sqlite3.Connection, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    connection.execute("DELETE FROM vectors")
    connection.execute("DELETE FROM tokens")
    done = connection.execute(f"SELECT row, CAST(body AS BLOB) FROM items WHERE {NOW} AND NOT waiting").fetchall()
    with_text = [(row,) for row, body in done if has_text(load_item_json(body))]
    connection.executemany("UPDATE items SET waiting = 1 WHERE row = ?", with_text)
    connection.execute("UPDATE items SET refusal = NULL WHERE refusal IS NOT NULL")
    database.set_meta(connection, "model", model)
    database.set_meta(connection, "dimension", dimension)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return int(connection.execute(f"SELECT count(*) FROM items WHERE waiting AND {NOW}").fetchone()[0])
