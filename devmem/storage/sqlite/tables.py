"""The tables of a SQLite database: inserting, copying, ending and reading versions with all that belongs to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.conditions import Scalar, after_prefix
from devmem.model.filters import Filter, metadata_key
from devmem.model.items import MemoryItem, Vector, dump_item_json, load_item_json
from devmem.model.versions import Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.models.given_vectors import PREFIX
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.attachments import externalized, inlined
from devmem.storage.sql import Dialect, Sql
from devmem.storage.sqlite import database
from devmem.storage.sqlite.compact_rows import (
    PARTS_OF_PASSAGE,
    joined_codes,
    pack_terms,
    parts_of,
    split_codes,
)
from devmem.storage.sqlite.predicates import TEXT_MARK
from devmem.storage.sqlite.schema import metadata_type, metadata_value
from devmem.storage.tables import CURRENT, MISSING, NOW, ORIGIN, NewItem, Origin, State, StoreTables
from devmem.storage.writing import (
    COLUMNS,
    PreparedItem,
    VersionEnd,
    embeddings_from,
    item_columns,
    stored_hash,
)

_LARGEST: Final = 127


def encode_vector(vector: Vector, *, exact: bool) -> bytes:
    """Return the stored form of a unit vector: one byte per component, or float32.

    Bytes need no scale, as the length of a vector is 1: the largest component is 127. Their form starts with the
    number of zeros that end it, so that its length, unlike that of float32, is no multiple of 4.
    """
    if exact:
        return np.asarray(vector, dtype="<f4").tobytes()
    codes: NDArray[np.int8] = np.rint(vector * (_LARGEST / max(float(np.abs(vector).max()), 1e-30))).astype(np.int8)
    padding = int((1 + len(codes)) % 4 == 0)
    return b"".join((bytes([padding]), codes.tobytes(), bytes(padding)))


def decode_vectors(stored: Sequence[bytes]) -> Vector:
    """Return vectors of one dimension from their stored forms, shape (n, dimension).

    Raises:
        sqlite3.DatabaseError: they are of several dimensions; `translate_errors` reports it as damage.
    """
    found = np.empty((0, 0), dtype=np.float32)
    for length in {len(raw) for raw in stored}:
        places = [at for at, raw in enumerate(stored) if len(raw) == length]
        vectors = _decoded([stored[at] for at in places], length)
        if len(places) == len(stored):
            return vectors
        found = found if found.size else np.empty((len(stored), vectors.shape[1]), dtype=np.float32)
        check_dimension(vectors.shape[1], found.shape[1])
        found[places] = vectors
    return found


def check_dimension(dimension: int, known: int) -> None:
    """Refuse vectors of another dimension than that of others.

    Raises:
        sqlite3.DatabaseError: it is another; `translate_errors` reports it as damage.
    """
    if dimension != known:
        raise database.damage_error(
            f"embeddings of {dimension} and {known} dimensions; `devmem reindex --force` makes new ones"
        )


def _decoded(stored: Sequence[bytes], length: int) -> Vector:
    """Return vectors of which every stored form has the same length, which is at least 1."""
    joined = b"".join(stored)
    if length % 4 == 0:
        return np.frombuffer(joined, dtype="<f4").reshape(len(stored), -1).astype(np.float32)
    codes = np.frombuffer(joined, dtype=np.int8).reshape(len(stored), length)
    vectors: Vector = codes[:, 1 : length - int(codes[0, 0])].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
    return vectors


CONTENT: Final = ", ".join((*COLUMNS, "derived", "waiting", "refusal", "body"))
"""Columns that a copy of a version has in common with it."""
_INSERT: Final = f"INSERT INTO items({CONTENT}, {ORIGIN}) VALUES ({', '.join('?' * (len(COLUMNS) + 10))})"
_COPY: Final = f"INSERT INTO items({CONTENT}, {ORIGIN}) SELECT {CONTENT}, ?, ?, ?, ?, ?, ? FROM items WHERE row = ?"
_MARK: Final = f"INSERT INTO items({CONTENT}, {ORIGIN}) SELECT {CONTENT}, ?, ?, ?, ?, ?, row FROM items WHERE row = ?"
_END: Final = (
    "UPDATE items SET slot = 'was:' || row, ended = ?, end_operation = ?, end_run = ?, end_actor = ?, archived = ? "
    f"WHERE {NOW} AND "
)
_CHANGES_KEPT: Final = 20_000
"""A cache that missed more changes than about this number is rebuilt."""
_INSERT_PASSAGE: Final = "INSERT INTO passages(row, term_hashes, term_counts, term_length) VALUES (?, ?, ?, ?)"
_COPY_PASSAGE: Final = (
    "INSERT INTO passages(row, term_hashes, term_counts, term_length) "
    "SELECT ?, term_hashes, term_counts, term_length FROM passages WHERE passage = ?"
)
_COPY_PASSAGES: Final = (
    "INSERT INTO passages(row, term_hashes, term_counts, term_length) "
    "SELECT ?, term_hashes, term_counts, term_length FROM passages WHERE row = ? ORDER BY passage"
)
_PASSAGES_OF: Final = "SELECT passage FROM passages WHERE row = ? ORDER BY passage"
_SELECT_WHOLE: Final = (
    "SELECT row, CAST(body AS BLOB), content_hash, (SELECT vector FROM vectors WHERE vectors.passage = "
    "(SELECT min(passage) FROM passages WHERE passages.row = items.row)) FROM items"
)
_INDEXED_COLUMNS: Final = frozenset({"agent", "user", "conversation", "trace"})
_WALK: Final = """
WITH RECURSIVE walk(value) AS (
    SELECT min({value}) FROM items WHERE {first}
    UNION ALL
    SELECT (SELECT min({value}) FROM items WHERE {next}) FROM walk WHERE walk.value IS NOT NULL
)
SELECT value FROM walk WHERE value IS NOT NULL LIMIT ? OFFSET ?
"""
_VALUE_COUNTS: Final = """
SELECT value, kind IN ('true', 'false'), count(*)
FROM (
    SELECT CASE entry.type WHEN 'array' THEN element.type ELSE entry.type END AS kind,
        CASE entry.type WHEN 'array' THEN element.atom ELSE entry.atom END AS value
    FROM items
    LEFT JOIN json_each(body, '$.metadata') AS entry
        ON entry.key = ?
    LEFT JOIN json_each(CASE entry.type WHEN 'array' THEN entry.value ELSE '[]' END) AS element
    WHERE {condition})
GROUP BY 1, 2
"""


class SqliteTables(StoreTables):
    """The tables of a SQLite database."""

    restamp_after = 5_000

    def __init__(
        self,
        connection: sqlite3.Connection,
        location: str,
        dialect: Dialect,
        indexed: frozenset[str],
    ) -> None:
        """Take a connection in a transaction, the file's path, and how filters are written.

        `indexed` are the metadata keys that have an index.
        """
        super().__init__(dialect, location)
        self._indexed = indexed
        self.connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, if it has any."""
        return self.connection.execute(statement, tuple(values)).fetchall()

    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement that changes rows; return their number."""
        return self.connection.execute(statement, tuple(values)).rowcount

    def change_many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run a statement that changes rows once with each of some values."""
        self.connection.executemany(statement, values)

    def fetch_items(self, rows: Iterable[int]) -> dict[int, MemoryItem]:
        """Return versions by row number, without their embeddings; one that is not there is `MISSING`."""
        return fetch_items(self.connection, list(rows))

    def load(self, row: int, body: bytes) -> MemoryItem:  # noqa: ARG002 - the error names the file
        """Return the item of a row."""
        return load_item_json(body)

    def whole(self, clause: str, values: Sequence[object]) -> list[tuple[int, MemoryItem]]:
        """Return the rows and the items, with embeddings and attachments, that a clause after `WHERE` selects."""
        found = self.execute(f"{_SELECT_WHOLE} WHERE {clause}", values)
        items = [
            load_item_json(body, digest, None if raw is None else decode_vectors([raw])[0])
            for _, body, digest, raw in found
        ]
        return list(zip((row for row, *_ in found), inlined(items, self.read_attachments), strict=True))

    def embeddings(self, ids: Sequence[str], shown: str) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of some items of a state that have them, by id."""
        found: dict[str, PassageEmbeddings] = {}
        of_row = "SELECT passage, vector FROM passages JOIN vectors USING (passage) WHERE row = ? ORDER BY passage"
        parts = f"SELECT passage, codes FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE} WHERE row = ? "
        query = f"SELECT row, content_hash, CAST(body AS BLOB) FROM items WHERE id = ? AND {shown}"
        for item_id in ids:
            for row, content_hash, body in self.execute(query, (item_id,)):
                if vectors := self.execute(of_row, (row,)):
                    codes = dict(joined_codes(self.connection.execute(f"{parts} ORDER BY passage, part", (row,))))
                    decoded = decode_vectors([vector for _, vector in vectors])
                    each = zip(decoded, (codes.get(passage) for passage, _ in vectors), strict=True)
                    found[item_id] = embeddings_from(list(each), stored_hash(content_hash, body))
        return found

    def values(
        self, state: State, key: str, where: Filter, now: float, *, prefix: str, limit: int | None, offset: int
    ) -> list[Scalar]:
        """Return the distinct values that the items of a state have."""
        indexed, name = self._indexed, metadata_key(key)
        filtered, parameters = self.dialect.where(where, now)
        condition = f"{state.shown} AND {filtered}"
        # Where an index has all that the filter admits in the order of the values, each is sought in the index behind
        # the one before, instead of reading entry by entry.
        if where.everything():
            in_order = key in _INDEXED_COLUMNS or name in indexed
        else:
            is_of_one = (where.scope.user is not None and not where.include_unscoped) or "user" in where.unbound
            in_order = key == "source_name" and is_of_one
        expired = f"SELECT 1 FROM items WHERE {NOW} AND expires_at <= ? LIMIT 1"
        walks = state is CURRENT and in_order and not self.execute(expired, (now,))
        if walks and where.everything():
            condition, parameters = NOW, []
        table, value, kind = "items", key, "'text'"
        if name is not None and name in indexed:
            value, kind = metadata_value(name), metadata_type(name)
        elif name is not None:
            table, value, kind = "items, json_each(body, '$.metadata') AS entry", "entry.atom", "entry.type"
            condition, parameters = f"{condition} AND entry.key = ?", [*parameters, name]
        others: list[Scalar] = []
        if name is not None and not prefix:
            # Numbers come before texts in an index.
            query = (
                f"SELECT DISTINCT {value}, {kind} IN ('true', 'false') FROM {table} WHERE {condition} AND {value} < '' "
                f"AND {kind} IN ('true', 'false', 'integer', 'real') ORDER BY 2 DESC, 1"
            )
            others = [bool(found) if is_flag else found for found, is_flag in self.execute(query, parameters)]
        end = after_prefix(prefix)
        texts = f"{condition} AND {kind} = 'text'{'' if end is None else f' AND {value} < {TEXT_MARK}'} AND {value}"
        bounds = [*parameters, *([] if end is None else [end])]
        first, values = f"{texts} >= {TEXT_MARK}", [*bounds, prefix]
        if walks:
            query = _WALK.format(value=value, first=first, next=f"{texts} > walk.value")
            values += bounds
        else:
            query = f"SELECT DISTINCT {value} FROM {table} WHERE {first} ORDER BY 1 LIMIT ? OFFSET ?"
        chosen = others[offset:][:limit]
        wanted = -1 if limit is None else limit - len(chosen)
        found = self.execute(query, (*values, wanted, max(offset - len(others), 0)))
        return [*chosen, *(text for (text,) in found)]

    def value_counts(self, key: str, where: Sql) -> Iterator[tuple[Scalar | None, int]]:
        """Yield the values of a key, which is not a path, with the number of items that have each."""
        condition, parameters = where
        name = metadata_key(key)
        if name is None:
            query = f"SELECT {key}, 0, count(*) FROM items WHERE {condition} GROUP BY 1"
        else:
            query, parameters = _VALUE_COUNTS.format(condition=condition), [name, *parameters]
        for value, is_flag, count in self.execute(query, parameters):
            yield (bool(value) if is_flag and value is not None else value), count

    def size_bytes(self, items: int) -> int:  # noqa: ARG002 - as the files are
        """Return the size of the files on disk."""
        files = (Path(self.location + suffix) for suffix in ("", "-wal", ".faiss"))
        return sum(file.stat().st_size for file in files if file.exists())

    def property(self, name: str) -> str | int | None:
        """Return a recorded property of the store; None where it has none of the name."""
        found = self.connection.execute("SELECT value FROM meta WHERE key = ?", (name,)).fetchone()
        return None if found is None else found[0]

    def set_property(self, name: str, value: str | int | None) -> None:
        """Record a property of the store."""
        database.set_meta(self.connection, name, value)

    def insert(self, new: Sequence[NewItem], origins: Sequence[Origin]) -> list[int]:
        """Insert versions with their passages and embeddings, each as its origin says; return their rows."""
        return [self._insert(one, origin) for one, origin in zip(new, origins, strict=True)]

    def _insert(self, new: NewItem, origin: Origin) -> int:
        prepared, item = new.prepared, new.prepared.item
        body, attachments = externalized(item)
        derived = 1 if item.provenance.parents else None
        values = (
            *item_columns(prepared),
            derived,
            int(new.waiting),
            prepared.refusal,
            dump_item_json(body, is_stored=True).decode(),
        )
        row = self.connection.execute(_INSERT, (*values, *origin)).lastrowid or 0
        copied = new.like is not None and self.change(_COPY_PASSAGES, (row, new.like))
        passages = [] if copied else insert_passages(self.connection, row, prepared)
        if new.embeddings is not None:
            insert_embeddings(self.connection, passages or passages_of_row(self.connection, row), new.embeddings)
        if attachments:
            self.insert_attachments(row, attachments)
        return row

    def copy(self, row: int, origin: Origin) -> None:
        """Insert a copy of a version as the current one, with all that belongs to it."""
        copied = self.connection.execute(_COPY, (*origin, row)).lastrowid
        for passage in passages_of_row(self.connection, row):
            copy_passage(self.connection, passage, copied or 0)
        self.execute("INSERT INTO attachment_uses SELECT ?, sha256 FROM attachment_uses WHERE row = ?", (copied, row))

    def mark_deleted(self, rows: Sequence[int], origin: Origin) -> None:
        """Insert, for each of some current versions, the mark of a pending run that it deletes the item."""
        self.connection.executemany(_MARK, [(*origin[:-1], row) for row in rows])

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd, at: int) -> int:
        """End the current versions that match a condition; return their number."""
        archived = 1 if ending.operation is Operation.ARCHIVE else None
        change = (at, ending.operation.value, ending.run, ending.actor, archived)
        return self._pruned(self.change(f"{_END}({condition})", (*change, *values)))

    def delete(self, condition: str, values: Sequence[object]) -> int:
        """Delete versions permanently, with what only they use; return their number."""
        return self._pruned(self.change(f"DELETE FROM items WHERE {condition}", values))

    def _pruned(self, changed: int) -> int:
        """Delete the oldest of the recorded changes where there are many, after some more."""
        if not changed:
            return 0
        # As two aggregates of one SELECT, SQLite would read the whole table.
        ((newest, oldest),) = self.execute(
            "SELECT (SELECT max(number) FROM changes), (SELECT min(number) FROM changes)"
        )
        if newest is not None and newest - oldest > _CHANGES_KEPT:
            floor = newest - _CHANGES_KEPT // 2
            self.change("DELETE FROM changes WHERE number <= ?", (floor,))
            self.set_property("changes_floor", floor)
        return changed

    def embed(self, embeddings: Sequence[tuple[int, PassageEmbeddings]]) -> None:
        """Insert the embeddings of versions that have none, by row."""
        for row, encoding in embeddings:
            insert_embeddings(self.connection, passages_of_row(self.connection, row), encoding)
        self._note([row for row, _ in embeddings], "embedded")

    def replace_terms(self, row: int, terms: Sequence[EncodedTerms]) -> None:
        """Replace the terms of a version's passages, given in their order."""
        statement = "UPDATE passages SET term_hashes = ?, term_counts = ?, term_length = ? WHERE passage = ?"
        passages = passages_of_row(self.connection, row)
        self.change_many(
            statement, [(*pack_terms(each), passage) for passage, each in zip(passages, terms, strict=True)]
        )

    def replace_passages(self, changed: Mapping[int, PreparedItem]) -> None:
        """Replace the passages of some versions, and number all in the order of the rows.

        What has the higher row has the higher passages.
        """
        owned: dict[int, list[int]] = {}
        for row, passage in self.execute("SELECT row, passage FROM passages ORDER BY row, passage"):
            owned.setdefault(row, []).append(passage)
        for row in sorted({*owned, *changed}):
            old = owned.get(row, [])
            if row in changed:
                insert_passages(self.connection, row, changed[row])
            else:
                for passage in old:
                    copy_passage(self.connection, passage, row)
            for table in ("vectors", "passages"):
                self.change_many(f"DELETE FROM {table} WHERE passage = ?", [(passage,) for passage in old])
            self.change_many("DELETE FROM tokens WHERE part BETWEEN ? AND ?", list(map(parts_of, old)))

    def delete_embeddings(self) -> None:
        """Delete every vector and token code."""
        self.execute("DELETE FROM vectors")
        self.execute("DELETE FROM tokens")
        self.note_other_terms()

    def note_other_terms(self) -> None:
        """Have caches built again: other passages, or vectors, have the old numbers."""
        self.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")

    def note_hidden(self, rows: Sequence[int]) -> None:
        """Note that a pending run does not show some current versions any more."""
        self._note(rows, "hidden")

    def _note(self, rows: Sequence[int], kind: str) -> None:
        self.change_many("INSERT INTO changes(row, kind) VALUES (?, ?)", [(row, kind) for row in rows])
        self._pruned(len(rows))


def copy_passage(connection: sqlite3.Connection, passage: int, row: int) -> None:
    """Insert a copy of a passage, with its vector and token codes, for the version in a row."""
    number = connection.execute(_COPY_PASSAGE, (row, passage)).lastrowid or 0
    connection.execute("INSERT INTO vectors SELECT ?, vector FROM vectors WHERE passage = ?", (number, passage))
    shift = parts_of(number)[0] - parts_of(passage)[0]
    copied = "SELECT part + ?, codes FROM tokens WHERE part BETWEEN ? AND ?"
    connection.execute(f"INSERT INTO tokens {copied}", (shift, *parts_of(passage)))


def insert_passages(connection: sqlite3.Connection, row: int, prepared: PreparedItem) -> list[int]:
    """Insert the terms of the passages of the version in a row; return the passages' numbers."""
    return [connection.execute(_INSERT_PASSAGE, (row, *pack_terms(terms))).lastrowid or 0 for terms in prepared.terms()]


def passages_of_row(connection: sqlite3.Connection, row: int) -> list[int]:
    """Return the numbers of a version's passages, in order."""
    return [passage for (passage,) in connection.execute(_PASSAGES_OF, (row,))]


def insert_embeddings(connection: sqlite3.Connection, passages: Sequence[int], encoding: PassageEmbeddings) -> None:
    """Insert the embeddings of an item's passages; a single vector is that of the first passage."""
    if len(encoding.vectors) not in (1, len(passages)):
        raise ValueError(f"{len(encoding.vectors)} embeddings for an item of {len(passages)} passages")
    # To the last bit: those that the caller made, and all outside of a file, as a JSON file, which other programs may
    # write, is held in memory and written again.
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    (model,) = connection.execute("SELECT value FROM meta WHERE key = 'model'").fetchone() or (None,)
    exact = not file or (isinstance(model, str) and model.startswith(PREFIX))
    vectors = (encode_vector(vector, exact=exact) for vector in encoding.vectors)
    connection.executemany(
        "INSERT OR REPLACE INTO vectors(passage, vector) VALUES (?, ?)", zip(passages, vectors, strict=False)
    )
    for passage, codes in zip(passages, encoding.tokens or (), strict=False):
        # Earlier codes of the passage may have more parts.
        connection.execute("DELETE FROM tokens WHERE part BETWEEN ? AND ?", parts_of(passage))
        insert_codes(connection, passage, codes.tobytes())


def insert_codes(connection: sqlite3.Connection, passage: int, codes: bytes) -> None:
    """Insert the token codes of a passage that has none."""
    parts = enumerate(split_codes(codes), parts_of(passage)[0])
    connection.executemany("INSERT INTO tokens(part, codes) VALUES (?, ?)", parts)


def fetch_items(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, MemoryItem]:
    """Return items by row number, without their embeddings; one that is not there is `MISSING`."""
    found = dict.fromkeys(rows, MISSING)
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        query = f"SELECT row, CAST(body AS BLOB) FROM items WHERE row IN ({', '.join('?' * len(part))})"
        found |= {row: load_item_json(body) for row, body in connection.execute(query, part)}
    return found
