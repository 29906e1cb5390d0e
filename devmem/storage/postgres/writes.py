"""Adding items within one write transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from psycopg import Cursor

from devmem.errors import VersionConflictError
from devmem.model.fields import embedded_hash
from devmem.model.filters import Filter
from devmem.model.items import PINNED, MemoryItem
from devmem.model.results import WriteOutcome
from devmem.model.versions import Operation
from devmem.models.embedder import EmbeddingRefusal, PassageEmbeddings
from devmem.search.indexes.passages import has_text
from devmem.storage.postgres import rows
from devmem.storage.postgres.attachments import externalized, inlined, insert_attachments, read_attachments
from devmem.storage.postgres.claim import check_embeddings
from devmem.storage.postgres.database import Connection, composed, pipelined, read_text, stored_text
from devmem.storage.postgres.erasing import StoredTombstones
from devmem.storage.postgres.hnsw import drop_hnsw
from devmem.storage.postgres.inserting import NewEmbeddings, NewItem, insert_embeddings
from devmem.storage.postgres.predicates import DIALECT
from devmem.storage.postgres.rows import ITEM_TABLES, Tables
from devmem.storage.postgres.runs import PostgresTables
from devmem.storage.postgres.schema import PASSAGE_BITS, owns_tables
from devmem.storage.postgres.version_writer import ARCHIVED, FORGOTTEN, VersionWriter, forget_terms, remove_versions
from devmem.storage.runs import Runs
from devmem.storage.sql import Sql
from devmem.storage.writing import (
    PreparedItem,
    StoredVersion,
    Unique,
    VersionEnd,
    stored_hash,
    stored_outcome,
    unstored_outcome,
    usable_embeddings,
)

_Content: TypeAlias = tuple[str, str | None, str | None]
"""Hash of a content, agent and user: what is the same for `Unique.CONTENT`."""


_STORED: Final = "SELECT row, id, content_hash, body FROM items WHERE store = %s AND id_key = ANY(%s) ORDER BY row"


class BatchWriter:
    """Adds a batch of items: decides on each in its turn, then deletes and inserts all at once."""

    def __init__(self, version_writer: VersionWriter, *, has_model: bool, clock: Callable[[], float]) -> None:
        """Prepare to add items; what has expired by now is not there.

        `clock` returns seconds since the epoch.
        """
        self._version_writer, self._has_model = version_writer, has_model
        self._clock, self._now = clock, clock()
        self._connection, self._store = version_writer.connection, version_writer.store
        self._stored: dict[str, StoredVersion] = {}
        """Versions that are there, by id."""
        self._embeddings: dict[str, PassageEmbeddings] = {}
        """Embeddings of those that items without embeddings replace, by id."""
        self._holders: dict[_Content, list[str]] = {}
        """Ids of the items with a content."""
        self._new: dict[str, NewItem] = {}
        self._attachments: dict[str, dict[str, bytes]] = {}
        """Contents of the large attachments of new items, by id and SHA-256."""
        self._erased: Collection[str] = ()
        """Ids of the items that a tombstone keeps out."""
        self._expired: list[int] = []
        self._superseded: dict[str | None, list[int]] = {}
        """Rows of versions that are replaced, by the run that does so."""

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already; see `Collection.add`."""
        for prepared in batch:
            rows.check_storable(prepared)
        ids = {*(prepared.item.id for prepared in batch), *expected}
        tombstones = StoredTombstones(self._connection, self._store)
        with pipelined(self._connection):
            stored = self._connection.execute(_STORED, (self._store, [rows.key_of(each) for each in ids]))
            asked = tombstones.ask_for_keys()
            self._version_writer.tick([rows.key_of(each) for each in ids])
        self._read_stored(stored)
        for item_id, wanted in expected.items():
            version = self._stored[item_id].version if item_id in self._stored else None
            if version != wanted:
                raise VersionConflictError(item_id, expected=wanted, found=version)
        if absent is not None:
            self._check_absent(absent)
        self._erased = tombstones.erased_among(tombstones.keys(asked), (prepared.item for prepared in batch))
        self._read_embeddings(batch)
        if unique is Unique.CONTENT:
            self._read_holders(batch)
        outcomes = [self._decide(prepared, unique) for prepared in batch]
        # As near to the commit as the order of the statements allows.
        self._version_writer.stamp(self._clock())
        if self._expired:
            self._version_writer.remove("row = ANY(%s)", [self._expired])
        for run, replaced in self._superseded.items():
            self._version_writer.end("row = ANY(%s)", [replaced], VersionEnd(operation=Operation.UPDATE, run=run))
        self._insert()
        return outcomes

    def _read_stored(self, selected: Cursor[tuple[Any, ...]]) -> None:
        for row, name, content_hash, body in selected.fetchall():
            found = StoredVersion(row=row, content_hash=content_hash, item=rows.item_from(row, body))
            if found.has_expired(self._now):
                self._expired.append(row)
            else:
                self._stored[read_text(name) or ""] = found

    def _check_absent(self, where: Filter) -> None:
        condition, values = DIALECT.where(where, self._now)
        query = composed(f"SELECT id FROM items WHERE store = %s AND {condition} LIMIT 1")
        found = self._connection.execute(query, (self._store, *values)).fetchone()
        if found is not None:
            raise VersionConflictError(read_text(found[0]) or "", expected=None, found="")

    def _read_embeddings(self, batch: Sequence[PreparedItem]) -> None:
        without = (each.item for each in batch if each.embeddings is None)
        kept = [item.id for item in without if item.id in self._stored]
        if kept:
            self._embeddings = rows.read_embeddings(self._connection, self._store, kept)

    def _read_holders(self, batch: Sequence[PreparedItem]) -> None:
        hashes = sorted({prepared.item.content_hash for prepared in batch})
        found = self._connection.execute(
            'SELECT id, content_hash, agent, "user" FROM items WHERE store = %s AND content_key = ANY(%s) '
            "AND (expires_at IS NULL OR expires_at > %s) ORDER BY row",
            (self._store, list(map(rows.key_of, hashes)), self._now),
        ).fetchall()
        for name, *content in found:
            self._holders.setdefault((content[0], content[1], content[2]), []).append(read_text(name) or "")

    def _decide(self, prepared: PreparedItem, unique: Unique) -> WriteOutcome:
        item = prepared.item
        older = self._stored.get(item.id)
        twin = self._twin if unique is Unique.CONTENT else None
        refused = unstored_outcome(item, older, erased=self._erased, twin=twin)
        if refused is not None:
            return refused
        if older is not None:
            self._supersede(item.id, older.row, item.scope.run)
        waiting = self._append(prepared, replaces=self._replaces(item.id, older))
        return stored_outcome(item.id, replaced=older.content_hash if older else None, waiting=waiting)

    def _twin(self, item: MemoryItem) -> str | None:
        """Return the id of another item with the same content."""
        return next((holder for holder in self._holders.get(_content(item), ()) if holder != item.id), None)

    def _replaces(self, item_id: str, older: StoredVersion | None) -> bool:
        """Whether a version that was stored before the batch is replaced."""
        if older is None or older.row is not None:
            return older is not None
        return self._new[item_id].replaces

    def _supersede(self, item_id: str, row: int | None, run: str | None) -> None:
        if row is not None:
            self._superseded.setdefault(run, []).append(row)
        for holders in self._holders.values():
            if item_id in holders:
                holders.remove(item_id)

    def _embeddings_of(self, prepared: PreparedItem) -> PassageEmbeddings | None:
        """Return the embeddings of an item, or else those of its older version where that has the same content."""
        item = prepared.item
        if prepared.embeddings is not None:
            return usable_embeddings(item.id, prepared.embeddings)
        if item.id in self._new:
            older = self._new[item.id]
            return older.embeddings if embedded_hash(older.item) == embedded_hash(item) else None
        found = self._embeddings.get(item.id)
        return found if found is not None and found.content_hash == embedded_hash(item) else None

    def _append(self, prepared: PreparedItem, *, replaces: bool) -> bool:
        """Prepare an item for insertion; return whether it waits for its embeddings."""
        item, embeddings = prepared.item, self._embeddings_of(prepared)
        # Without a model the item is marked too: one may be added to the workflow later.
        without_vector = embeddings is None and has_text(item)
        body, self._attachments[item.id] = externalized(item)
        self._new[item.id] = NewItem(prepared, body, embeddings, without_vector, replaces)
        self._stored[item.id] = StoredVersion(row=None, content_hash=item.content_hash, item=item)
        self._holders.setdefault(_content(item), []).append(item.id)
        return without_vector and self._has_model

    def _insert(self) -> None:
        numbers = self._version_writer.insert(list(self._new.values()))
        insert_attachments(self._connection, self._store, numbers, [self._attachments[name] for name in self._new])


def _content(item: MemoryItem) -> _Content:
    return item.content_hash, stored_text(item.scope.agent), stored_text(item.scope.user)


class PostgresItemChanges:
    """Changes items by a version writer; see `ItemChanges`."""

    def __init__(
        self,
        version_writer: VersionWriter,
        location: str,
        *,
        model: str | None,
        clock: Callable[[], float],
    ) -> None:
        """Take what the changes need.

        Args:
            version_writer: that of the write transaction.
            location: place of the store, for errors.
            model: name of the model that made the embeddings; None when it is not known.
            clock: current time in seconds since the epoch; what has expired by now is not there.
        """
        self._version_writer, self._location, self._model = version_writer, location, model
        self._clock, self._now = clock, clock()
        self._connection, self._store = version_writer.connection, version_writer.store

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        made = [item.embeddings for item in batch]
        has_model = check_embeddings(self._connection, self._location, self._store, self._model, made)
        self._version_writer.prune()
        return BatchWriter(self._version_writer, has_model=has_model, clock=self._clock).add(
            batch, unique, expected, absent
        )

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last; return them with attachments, newest first."""
        condition, values = DIALECT.where(where, self._now)
        found = self._connection.execute(
            composed(f"{rows.SELECT_WHOLE} WHERE items.store = %s AND {condition} ORDER BY items.row DESC LIMIT %s"),
            (self._store, *values, max(count, 0)),
            binary=True,
        ).fetchall()
        items = inlined(
            [rows.item_from(*each) for each in found],
            lambda names: read_attachments(self._connection, self._store, names),
        )
        if found:
            self._version_writer.stamp(self._clock())
            self._version_writer.end("row = ANY(%s)", [[row for row, *_ in found]], FORGOTTEN)
        return items

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter."""
        self._version_writer.stamp(self._clock())
        return self._version_writer.end(*self._selection(ids, where), FORGOTTEN)

    def archive(self, ids: Sequence[str]) -> int:
        """Move the items with these ids into the archive."""
        self._version_writer.stamp(self._clock())
        return self._version_writer.end(*self._selection(ids, None), ARCHIVED)

    def erase(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items as `delete` does, and permanently the versions that match with all others of deleted items.

        The version writer keeps versions: as such, the items that match lead to their older versions, which need not
        match.
        """
        condition, values = self._selection(ids, where)
        query = composed(f"SELECT count(*) FROM versions WHERE store = %s AND archived AND {condition}")
        archived = self._connection.execute(query, (self._store, *values)).fetchone() or (0,)
        deleted = self.delete(ids, where) + int(archived[0])
        gone = (
            f"id_key IN (SELECT id_key FROM versions WHERE store = %s AND {condition}) "
            "AND NOT EXISTS (SELECT FROM items WHERE items.store = versions.store AND items.id_key = versions.id_key)"
        )
        erased, both = f"({condition}) OR ({gone})", [*values, self._store, *values]
        Runs(PostgresTables(self._connection, self._store, self._location)).erase_versions(erased, both)
        forget_terms(self._connection, self._store)
        return deleted

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, permanently; pinned ones stay."""
        deleted = 0
        pinned, values = DIALECT.metadata({PINNED: True})
        unpinned = f"({pinned}) IS NOT TRUE"
        if stored_before is not None:
            deleted += self._version_writer.remove(f"created_at < %s AND {unpinned}", [stored_before, *values])
            too_old = "archived AND created_at < %s"
            deleted += remove_versions(self._connection, self._store, too_old, [stored_before])
        if keep is not None:
            current = "(expires_at IS NULL OR expires_at > %s)"
            query = f"SELECT row FROM items WHERE store = %s AND {current} ORDER BY row DESC OFFSET %s LIMIT 1"
            newest_surplus = self._connection.execute(composed(query), (self._store, self._now, max(keep, 0)))
            if (found := newest_surplus.fetchone()) is not None:
                surplus = f"row <= %s AND {current} AND {unpinned}"
                deleted += self._version_writer.remove(surplus, [found[0], self._now, *values])
        return deleted

    def _selection(self, ids: Sequence[str] | None, where: Filter | None) -> Sql:
        """Return the condition of items with these ids that match the filter; None for either does not restrict."""
        condition, values = DIALECT.where(where, self._now) if where is not None else ("true", [])
        if ids is not None:
            return f"id_key = ANY(%s) AND {condition}", [list(map(rows.key_of, ids)), *values]
        return condition, values


def set_embeddings(
    connection: Connection,
    store: int,
    embeddings: Mapping[str, PassageEmbeddings | EmbeddingRefusal],
    tables: Tables = ITEM_TABLES,
    which: Sql = ("true", []),
) -> int:
    """Store the embeddings of waiting items, by id, or why they get none; return the number that took embeddings.

    Args:
        connection: in a write transaction.
        store: number of the store.
        embeddings: embeddings or refusals by id.
        tables: where the items are.
        which: restricts the items.
    """
    condition, values = which
    keys = {rows.key_of(item_id): item_id for item_id in embeddings}
    waiting = connection.execute(
        composed(
            f"SELECT id_key, row, {rows.HASHED}, "
            f"(SELECT count(*) FROM {tables.passages} AS passages WHERE passages.store = items.store "
            f"AND passage >= items.row << {PASSAGE_BITS} AND passage < (items.row + 1) << {PASSAGE_BITS}) "
            f"FROM {tables.items} AS items WHERE store = %s AND id_key = ANY(%s) AND waiting AND {condition} "
            "ORDER BY row"
        ),
        (store, list(keys), *values),
    ).fetchall()
    usable: list[NewEmbeddings] = []
    for key, row, content_hash, body, passages in waiting:
        given = embeddings[keys[key]]
        found = given if isinstance(given, EmbeddingRefusal) else usable_embeddings(keys[key], given)
        if found is None or not found.is_of(stored_hash(content_hash, body)):
            continue
        if isinstance(found, EmbeddingRefusal):
            refuse = composed(f"UPDATE {tables.items} SET refusal = %s WHERE store = %s AND row = %s")
            connection.execute(refuse, (found.reason, store, row))
        else:
            usable.append(NewEmbeddings(row, passages, found))
    insert_embeddings(connection, store, usable, tables)
    done = [each.row for each in usable]
    if done:
        done_now = composed(
            f"UPDATE {tables.items} SET waiting = false, refusal = NULL WHERE store = %s AND row = ANY(%s)"
        )
        connection.execute(done_now, (store, done))
    return len(done)


def replace_model(connection: Connection, store: int, model: str, dimension: int | None) -> int:
    """Delete every embedding and record the new model; return the number of items that wait for it."""
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(
        composed(
            "UPDATE versions SET waiting = true WHERE store = %(store)s AND row IN "
            f"(SELECT passage >> {PASSAGE_BITS} FROM version_vectors WHERE store = %(store)s)"
        ),
        {"store": store},
    )
    for table in ("version_vectors", "version_tokens", "vectors", "tokens"):
        connection.execute(composed(f"DELETE FROM {table} WHERE store = %s"), (store,))
    with_text = [row for row, body in rows.each_body(connection, store) if has_text(rows.item_from(row, body))]
    connection.execute(
        "UPDATE items SET waiting = true WHERE store = %s AND NOT waiting AND row = ANY(%s)", (store, with_text)
    )
    connection.execute("UPDATE items SET refusal = NULL WHERE store = %s AND refusal IS NOT NULL", (store,))
    connection.execute("UPDATE stores SET model = %s, dimension = %s WHERE store = %s", (model, dimension, store))
    ((waiting,),) = connection.execute("SELECT count(*) FROM items WHERE store = %s AND waiting", (store,)).fetchall()
    # Last, as it excludes searches of all stores.
    if owns_tables(connection):
        drop_hnsw(connection, store)
    return int(waiting)
