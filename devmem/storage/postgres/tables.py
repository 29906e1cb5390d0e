"""The tables of one store of a PostgreSQL database: inserting, copying, ending and reading versions.

Rows and passages are numbered by the client, see `schema`; how often terms occur among the current passages is counted
in the statements that begin and end these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from psycopg.types.json import Jsonb

from devmem.model.conditions import Scalar
from devmem.model.filters import SCOPE_PARTS, Filter, metadata_key
from devmem.model.items import MemoryItem, dump_item_json
from devmem.model.versions import Operation
from devmem.models.embedder import PassageEmbeddings
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.attachments import externalized, inlined
from devmem.storage.postgres.database import Connection, composed, pipelined
from devmem.storage.postgres.hnsw import drop_hnsw
from devmem.storage.postgres.rows import (
    Insertion,
    Row,
    fetch_bodies,
    hashed_terms,
    insert_rows,
    item_from,
    json_value,
    of_item,
    owner_number,
    vector_from,
)
from devmem.storage.postgres.schema import PASSAGE_BITS, STORE_TABLES, dropped, owns_tables
from devmem.storage.sql import Dialect, Sql
from devmem.storage.tables import NOW, NewItem, Origin, State, StoreTables
from devmem.storage.writing import (
    COLUMNS,
    INTEGER_COLUMNS,
    REAL_COLUMNS,
    PreparedItem,
    VersionEnd,
    embeddings_from,
    item_columns,
    stored_hash,
)

_MOST_CHARACTERS: Final = 500
"""Characters of a name that an index holds."""
_CONTENT: Final = (*(f'"{name}"' for name in COLUMNS), "derived", "waiting", "refusal", "metadata", "body")
_COPIED: Final = ", ".join(_CONTENT)
"""Columns that a copy of a version has in common with it."""
_ORIGIN: Final = ("slot", "operation", "change_run", "change_actor", "began", "base")
_SELECT_WHOLE: Final = (
    "SELECT row, body, (SELECT vector_send(vector) FROM vectors WHERE vectors.store = items.store "
    f"AND vectors.passage = items.row << {PASSAGE_BITS}) FROM items"
)
"""Selects row numbers and the arguments of `item_from`."""
PROPERTIES: Final = "devmem"
"""Kind of the values that are properties of the store without a column in `stores`."""
_COLUMN_PROPERTIES: Final = frozenset({"store_type", "analysis", "model", "dimension", "recorded"})


_OF_COLUMN: Final = """
SELECT DISTINCT "{column}" AS value FROM items
WHERE {where} AND "{column}" IS NOT NULL AND starts_with("{column}", ?)
ORDER BY value LIMIT ? OFFSET ?
"""
_OF_METADATA: Final = """
SELECT value FROM (SELECT DISTINCT metadata -> ?::text AS value FROM items WHERE {where}) AS found
WHERE jsonb_typeof(value) IN ('boolean', 'number', 'string')
    AND (? = '' OR jsonb_typeof(value) = 'string' AND starts_with(value #>> '{{}}', ?))
ORDER BY array_position(ARRAY['boolean', 'number', 'string'], jsonb_typeof(value)),
    CASE WHEN jsonb_typeof(value) = 'number' THEN value::numeric END,
    (value #>> '{{}}') COLLATE "C"
LIMIT ? OFFSET ?
"""
_OF_EACH_COLUMN: Final = 'SELECT "{column}", count(*) FROM items WHERE {where} GROUP BY 1'
_OF_EACH_VALUE: Final = """
SELECT CASE jsonb_typeof(found) WHEN 'array' THEN element ELSE found END, count(*)
FROM (SELECT metadata -> ?::text AS found FROM items WHERE {where}) AS with_key
LEFT JOIN LATERAL jsonb_array_elements(CASE jsonb_typeof(found) WHEN 'array' THEN found END) AS element ON true
GROUP BY 1
"""
_SIZE: Final = """
SELECT COALESCE(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint,
    COALESCE(max(reltuples) FILTER (WHERE relname = 'items'), -1)
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY(?) AND relkind = 'r'
"""


class PostgresTables(StoreTables):
    """The tables of one store within a transaction."""

    restamp_after = 1_000_000

    def __init__(self, connection: Connection, store: int, location: str, dialect: Dialect) -> None:
        """Take a connection in a transaction, the number of the store, its place, and how statements are written."""
        super().__init__(dialect, location)
        self.connection, self.store = connection, store

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run a statement; return its rows, if it has any."""
        done = self.connection.execute(composed(statement), tuple(values) or None, binary=True)
        return done.fetchall() if done.description else []

    def change(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run a statement that changes rows; return their number."""
        return self.connection.execute(composed(statement), tuple(values) or None).rowcount

    def change_many(self, statement: str, values: Sequence[Sequence[object]]) -> None:
        """Run a statement that changes rows once with each of some values."""
        if values:
            with pipelined(self.connection), self.connection.cursor() as cursor:
                cursor.executemany(composed(statement), values)

    def fetch_items(self, rows: Iterable[int]) -> dict[int, MemoryItem]:
        """Return versions by row number, without their embeddings; one that is not there is `MISSING`."""
        return fetch_bodies(self.connection, self.store, list(rows))

    def load(self, row: int, body: str) -> MemoryItem:
        """Return the item of a row."""
        return item_from(row, body)

    def whole(self, clause: str, values: Sequence[object]) -> list[tuple[int, MemoryItem]]:
        """Return the rows and the items, with embeddings and attachments, that a clause after `WHERE` selects."""
        found = self.execute(f"{_SELECT_WHOLE} WHERE {clause}", values)
        items = inlined([item_from(*each) for each in found], self.read_attachments)
        return list(zip((row for row, *_ in found), items, strict=True))

    def embeddings(self, ids: Sequence[str], shown: str) -> dict[str, PassageEmbeddings]:
        """Return the embeddings of those of some items of a state that have them, by id."""
        query = (
            "SELECT id, content_hash, CASE WHEN strpos(body, '\"indexed_fields\":') > 0 THEN body ELSE '' END, "
            f"vector_send(vector), codes FROM items CROSS JOIN {of_item('vectors', 'passage, vector', 'items.row')} "
            "LEFT JOIN LATERAL (SELECT codes FROM tokens WHERE tokens.store = %(store)s "
            "AND tokens.passage = vectors.passage OFFSET 0) AS tokens ON true "
            f"WHERE items.store = %(store)s AND {shown} AND id = ANY(%(ids)s) ORDER BY vectors.passage"
        )
        found: dict[str, list[tuple[Any, ...]]] = {}
        values = {"store": self.store, "ids": list(ids)}
        for item_id, *rest in self.connection.execute(composed(query), values, binary=True):
            found.setdefault(item_id, []).append(tuple(rest))
        return {
            item_id: embeddings_from(
                [(vector_from(vector), codes) for *_, vector, codes in each], stored_hash(*each[0][:2])
            )
            for item_id, each in found.items()
        }

    def values(
        self, state: State, key: str, where: Filter, now: float, *, prefix: str, limit: int | None, offset: int
    ) -> list[Scalar]:
        """Return the distinct values that the items of a state have."""
        condition, values = self.dialect.where(where, now)
        condition, name = f"{self.of} AND {state.shown} AND {condition}", metadata_key(key)
        if name is None:
            query = _OF_COLUMN.format(column=key, where=condition)
            parameters: list[object] = [*values, prefix, limit, offset]
        else:
            query = _OF_METADATA.format(where=condition)
            parameters = [name, *values, prefix, prefix, limit, offset]
        return [value for (value,) in self.execute(query, parameters)]

    def value_counts(self, key: str, where: Sql) -> Iterator[tuple[Scalar | None, int]]:
        """Yield the values of a key, which is not a path, with the number of items that have each."""
        condition, parameters = where
        name = metadata_key(key)
        if name is None:
            query = _OF_EACH_COLUMN.format(column=key, where=condition)
        else:
            query, parameters = _OF_EACH_VALUE.format(where=condition), [name, *parameters]
        for value, count in self.execute(query, parameters):
            yield (value if isinstance(value, str | int | float) else None), count

    def size_bytes(self, items: int) -> int:
        """Return an estimate: the share of the store in the size of all, by the number of items."""
        if not self.execute(f"SELECT store FROM stores WHERE {self.of}"):
            raise dropped(self.location)
        ((size, in_all),) = self.execute(_SIZE, (list(STORE_TABLES),))
        return round(int(size) * items / max(float(in_all), items, 1))

    def property(self, name: str) -> str | int | None:
        """Return a recorded property of the store; None where it has none of the name."""
        if name in _COLUMN_PROPERTIES:
            found = self.execute(f"SELECT {name} FROM stores WHERE {self.of}")
            return found[0][0] if found else None
        query = f"SELECT value FROM states WHERE {self.of} AND kind = '{PROPERTIES}' AND name = ?"
        found = self.execute(query, (name,))
        return bytes(found[0][0]).decode() if found else None

    def set_property(self, name: str, value: str | int | None) -> None:
        """Record a property of the store."""
        if name in _COLUMN_PROPERTIES:
            self.execute(f"UPDATE stores SET {name} = ? WHERE {self.of}", (value,))
        elif value is None:
            self.execute(f"DELETE FROM states WHERE {self.of} AND kind = '{PROPERTIES}' AND name = ?", (name,))
        else:
            self.execute(
                f"INSERT INTO states(store, kind, name, value) VALUES ({self.dialect.own}'{PROPERTIES}', ?, ?) "
                "ON CONFLICT (store, kind, name, tenant) DO UPDATE SET value = excluded.value",
                (name, str(value).encode()),
            )

    def insert(self, new: Sequence[NewItem], origins: Sequence[Origin]) -> list[int]:
        """Insert versions with their passages and embeddings, each as its origin says; return their rows."""
        for one in new:
            _check_storable(one.prepared)
        self._leave_archive([one.prepared.item.id for one, by in zip(new, origins, strict=True) if by.slot == "now"])
        rows = self._new_rows(len(new))
        items: list[Row] = []
        passages: list[Row] = []
        attachments: dict[int, Mapping[str, bytes]] = {}
        embedded: list[tuple[int, bool, int, int, PassageEmbeddings]] = []
        for row, one, origin in zip(rows, new, origins, strict=True):
            body, attachments[row] = externalized(one.prepared.item)
            items.append(_item_values(self.store, row, one, body, origin))
            is_current = origin.slot == "now"
            passages += _passage_rows(self.store, row, one.prepared, is_current=is_current)
            if one.embeddings is not None:
                owner = owner_number(self.store, one.prepared.item.scope.user)
                embedded.append((row, is_current, owner, len(one.prepared.passages), one.embeddings))
        insert_rows(self.connection, [_of_items(items), _of_passages(passages), *_of_embeddings(self.store, embedded)])
        _count_terms(self.connection, self.store, passages)
        for row, contents in attachments.items():
            self.insert_attachments(row, contents)
        return rows

    def _leave_archive(self, ids: Sequence[str]) -> None:
        """Take items that get a current version out of the archive."""
        if ids:
            self.execute(f"UPDATE items SET archived = NULL WHERE {self.of} AND archived AND id = ANY(?)", (list(ids),))

    def _new_rows(self, count: int) -> list[int]:
        """Return row numbers that no version has or will have, in ascending order."""
        ((end,),) = self.execute(
            f"UPDATE stores SET next_row = next_row + ? WHERE {self.of} RETURNING next_row", (count,)
        )
        return list(range(end - count, end))

    def copy(self, row: int, origin: Origin) -> None:
        """Insert a copy of a version as the current one, with all that belongs to it."""
        ((item_id,),) = self.execute(f"SELECT id FROM items WHERE {self.of} AND row = ?", (row,))
        self._leave_archive([item_id])
        (new,) = self._new_rows(1)
        origins = (origin.slot, origin.operation, origin.run, origin.actor, origin.at, origin.base)
        self.execute(
            f"INSERT INTO items(store, row, {_COPIED}, {', '.join(_ORIGIN)}) SELECT store, ?, {_COPIED}, "
            f"?, ?, ?, ?, ?::bigint, ?::bigint FROM items WHERE {self.of} AND row = ?",
            (new, *origins, row),
        )
        values = {"store": self.store, "row": new, "version": row}
        for statement in (*_COPY_PARTS, _COUNT_COPY, _COPY_USES):
            self.connection.execute(composed(statement), values)

    def mark_deleted(self, rows: Sequence[int], origin: Origin) -> None:
        """Insert, for each of some current versions, the mark of a pending run that it deletes the item."""
        first = self._new_rows(len(rows))[0] - 1
        self.execute(
            f"INSERT INTO items(store, row, {_COPIED}, {', '.join(_ORIGIN)}) SELECT store, ? + row_number() OVER (), "
            f"{_COPIED}, ?, ?, ?, ?, NULL, row FROM items WHERE {self.of} AND row = ANY(?)",
            (first, origin.slot, origin.operation, origin.run, origin.actor, list(rows)),
        )

    def end(self, condition: str, values: Sequence[object], ending: VersionEnd, at: int) -> int:
        """End the current versions that match a condition; return their number."""
        archived = True if ending.operation is Operation.ARCHIVE else None
        change = (at, ending.operation.value, ending.run, ending.actor, archived)
        ((number,),) = self.execute(_END.format(store=self.store, condition=condition), (*change, *values))
        return int(number)

    def delete(self, condition: str, values: Sequence[object]) -> int:
        """Delete versions permanently, with what only they use; return their number."""
        ((number, attachments),) = self.execute(_DELETE.format(store=self.store, condition=condition), values)
        if attachments:
            unused = (
                "NOT EXISTS (SELECT FROM attachment_uses AS used "
                "WHERE used.store = attachments.store AND used.sha256 = attachments.sha256)"
            )
            self.change(f"DELETE FROM attachments WHERE {self.of} AND sha256 = ANY(?) AND {unused}", (attachments,))
        return int(number)

    def embed(self, embeddings: Sequence[tuple[int, PassageEmbeddings]]) -> None:
        """Insert the embeddings of versions that have none, by row."""
        query = (
            f"SELECT items.row, slot = 'now', \"user\", (SELECT count(*) FROM passages WHERE passages.{self.of} "
            f"AND passage >= items.row << {PASSAGE_BITS} AND passage < (items.row + 1) << {PASSAGE_BITS}) "
            f"FROM items WHERE {self.of} AND row = ANY(?)"
        )
        found = {
            row: (is_current, owner_number(self.store, user), count)
            for row, is_current, user, count in self.execute(query, ([row for row, _ in embeddings],))
        }
        insert_rows(self.connection, _of_embeddings(self.store, [(row, *found[row], each) for row, each in embeddings]))

    def replace_terms(self, row: int, terms: Sequence[EncodedTerms]) -> None:
        """Replace the terms of a version's passages, given in their order."""
        self.change_many(
            f"UPDATE passages SET terms = ?::int[] || terms[cardinality(terms)], counts = ?, length = ? "
            f"WHERE {self.of} AND passage = ?",
            [
                (hashed_terms(self.store, one, 0)[:-1], one.counts, one.length, passage)
                for passage, one in enumerate(terms, row << PASSAGE_BITS)
            ],
        )

    def replace_passages(self, changed: Mapping[int, PreparedItem]) -> None:
        """Replace the passages of some versions, which lose their embeddings; the terms are not counted."""
        query = f"SELECT row, slot FROM items WHERE {self.of} AND row = ANY(?)"
        slots: dict[int, str] = dict(self.execute(query, (list(changed),)))
        inserted: list[Row] = []
        for row, prepared in changed.items():
            for table in ("vectors", "tokens", "passages"):
                gone = f"DELETE FROM {table} WHERE {self.of} AND passage >= ? AND passage < ?"
                self.change(gone, (row << PASSAGE_BITS, (row + 1) << PASSAGE_BITS))
            inserted += _passage_rows(self.store, row, prepared, is_current=slots[row] == "now")
        insert_rows(self.connection, [_of_passages(inserted)])

    def delete_embeddings(self) -> None:
        """Delete every vector and token code."""
        self.execute("SET LOCAL statement_timeout = 0")
        for table in ("vectors", "tokens"):
            self.change(f"DELETE FROM {table} WHERE {self.of}")

    def drop_vector_index(self) -> None:
        """Drop the index of the vectors, which excludes searches of all stores until the commit."""
        if owns_tables(self.connection):
            drop_hnsw(self.connection, self.store)

    def note_other_terms(self) -> None:
        """Count the passages that each term occurs in, and all of them."""
        self.execute("SET LOCAL statement_timeout = 0")
        for statement in _COUNT_AGAIN:
            self.connection.execute(composed(statement), {"store": self.store})


def _check_storable(prepared: PreparedItem) -> None:
    """Refuse an item whose names are longer than an index holds.

    Raises:
        ValueError: it names the item and the field.
    """
    item = prepared.item
    named = {
        "id": item.id,
        **{part: getattr(item.scope, part) for part in SCOPE_PARTS},
        "content_hash": item.content_hash,
    }
    for name, value in named.items():
        if len(value or "") > _MOST_CHARACTERS:
            raise ValueError(
                f"item {item.id[:40]!r} cannot be stored: its `{name}` has more than {_MOST_CHARACTERS} characters"
            )
    if len(prepared.passages) >> PASSAGE_BITS:
        raise ValueError(f"item {item.id!r} cannot be stored: it has {len(prepared.passages):,} passages")


_ITEM_COLUMNS: Final = ("store", "row", *_CONTENT, *_ORIGIN)
_TYPES: Final = {
    "store": "int8", "row": "int8", "waiting": "bool", "derived": "bool", "metadata": "jsonb", "began": "int8",
    "base": "int8", **dict.fromkeys(REAL_COLUMNS, "float8"), **dict.fromkeys(INTEGER_COLUMNS, "int4"),
}  # fmt: skip
"""Types of the columns of items that are not texts."""


def _of_items(rows: Sequence[Row]) -> Insertion:
    types = tuple(_TYPES.get(name.strip('"'), "text") for name in _ITEM_COLUMNS)
    return Insertion(table="items", columns=_ITEM_COLUMNS, types=types, rows=rows)


def _item_values(store: int, row: int, new: NewItem, body: MemoryItem, origin: Origin) -> Row:
    item = new.prepared.item
    metadata = Jsonb(json_value(item.metadata), dumps=str)
    content = (True if item.provenance.parents else None, new.waiting, new.prepared.refusal, metadata)
    begun = (origin.slot, origin.operation, origin.run, origin.actor, origin.at, origin.base)
    return (store, row, *item_columns(new.prepared), *content, dump_item_json(body, is_stored=True).decode(), *begun)


def _of_passages(rows: Sequence[Row]) -> Insertion:
    return Insertion(
        table="passages",
        columns=("store", "passage", "is_current", "terms", "counts", "length"),
        types=("int8", "int8", "bool", "int4[]", "bytea", "int4"),
        rows=rows,
    )


def _passage_rows(store: int, row: int, prepared: PreparedItem, *, is_current: bool) -> list[Row]:
    owner = owner_number(store, prepared.item.scope.user)
    return [
        (store, passage, is_current, hashed_terms(store, encoded, owner), encoded.counts, encoded.length)
        for passage, encoded in enumerate(prepared.terms(), row << PASSAGE_BITS)
    ]


def _of_embeddings(store: int, embedded: Iterable[tuple[int, bool, int, int, PassageEmbeddings]]) -> list[Insertion]:
    """Return the rows of vectors and token codes; a single vector of an item is that of its first passage.

    Each is of a row, which is current or not, of an owner, with a number of passages.
    """
    vectors: list[Row] = []
    codes: list[Row] = []
    for row, is_current, owner, passages, found in embedded:
        first = row << PASSAGE_BITS
        if len(found.vectors) not in (1, passages):
            raise ValueError(f"{len(found.vectors)} embeddings for an item of {passages} passages")
        of_passages = np.asarray(found.vectors, dtype=np.float32)
        vectors += [(store, passage, is_current, owner, vector) for passage, vector in enumerate(of_passages, first)]
        if found.tokens is not None:
            codes += [(store, passage, code.tobytes()) for passage, code in enumerate(found.tokens[:passages], first)]
    return [
        Insertion(
            table="vectors",
            columns=("store", "passage", "is_current", "owner", "vector"),
            types=("int8", "int8", "bool", "int4", "vector"),
            rows=vectors,
        ),
        Insertion(table="tokens", columns=("store", "passage", "codes"), types=("int8", "int8", "bytea"), rows=codes),
    ]


_ADD_COUNTS: Final = (
    "ON CONFLICT (store, term, tenant) DO UPDATE SET texts = terms.texts + excluded.texts, "
    "total_length = terms.total_length + excluded.total_length"
)
_COUNT_TERMS: Final = (
    "INSERT INTO terms(store, term, texts, total_length) SELECT %s, term, texts, total_length "
    f"FROM unnest(%s::int[], %s::int[], %s::bigint[]) AS new(term, texts, total_length) {_ADD_COUNTS}"
)
_COUNT_TEXTS: Final = "UPDATE stores SET texts = texts + %s, total_length = total_length + %s WHERE store = %s"


def _count_terms(connection: Connection, store: int, passages: Sequence[Row]) -> None:
    """Count the passages that each term occurs in, for those rows of the table `passages` that are current."""
    current = [(terms, int(str(length))) for _, _, is_current, terms, _, length in passages if is_current]
    if not current:
        return
    each = [np.unique(np.asarray(terms, dtype=np.int32)) for terms, _ in current]
    terms, places, texts = np.unique(np.concatenate(each), return_inverse=True, return_counts=True)
    lengths = np.zeros(len(terms), dtype=np.int64)
    np.add.at(lengths, places, np.repeat([length for _, length in current], [len(one) for one in each]))
    with pipelined(connection):
        connection.execute(_COUNT_TERMS, (store, terms.tolist(), texts.tolist(), lengths.tolist()))
        connection.execute(_COUNT_TEXTS, (len(current), sum(length for _, length in current), store))


_OF_VERSION: Final = (
    f"WHERE store = %(store)s AND passage >= %(version)s::bigint << {PASSAGE_BITS} "
    f"AND passage < (%(version)s::bigint + 1) << {PASSAGE_BITS}"
)
_COPY_PARTS: Final = tuple(
    f"INSERT INTO {table}(store, passage, {', '.join(columns)}) SELECT store, "
    f"passage + ((%(row)s::bigint - %(version)s::bigint) << {PASSAGE_BITS}), {', '.join(columns.values())} "
    f"FROM {table} {_OF_VERSION}"
    for table, columns in {
        "passages": {"is_current": "true", "terms": "terms", "counts": "counts", "length": "length"},
        "vectors": {"is_current": "true", "owner": "owner", "vector": "vector"},
        "tokens": {"codes": "codes"},
    }.items()
)
_COUNT_COPY: Final = (
    f"WITH new AS (SELECT passage, terms, length FROM passages {_OF_VERSION}), "
    "counted AS (INSERT INTO terms(store, term, texts, total_length) SELECT %(store)s, term, count(*), sum(length) "
    "FROM (SELECT DISTINCT passage, term, length FROM new, unnest(terms) AS term) AS each GROUP BY term "
    f"{_ADD_COUNTS}) "
    "UPDATE stores SET texts = texts + (SELECT count(*) FROM new), "
    "total_length = total_length + (SELECT COALESCE(sum(length), 0) FROM new) WHERE store = %(store)s"
)
_COPY_USES: Final = (
    "INSERT INTO attachment_uses(store, sha256, row) SELECT store, sha256, %(row)s FROM attachment_uses "
    "WHERE store = %(store)s AND row = %(version)s"
)


def _among_gone(table: str) -> str:
    """Return the condition that a row of a table by passage belongs to one of the rows of the CTE `gone`."""
    found = of_item(table, "passage", "gone.row", name="found", store="{store}")
    return (
        f"{table}.store = {{store}} AND {table}.passage = ANY(ARRAY(SELECT found.passage FROM gone CROSS JOIN {found}))"
    )


_UNCOUNT: Final = (
    "uncounted AS (UPDATE terms SET texts = terms.texts - fewer_of.texts, "
    "total_length = terms.total_length - fewer_of.total_length "
    "FROM (SELECT term, count(*) AS texts, sum(length) AS total_length "
    "FROM (SELECT DISTINCT passage, term, length FROM passages_gone, unnest(terms) AS term WHERE was_current) AS each "
    "GROUP BY term) AS fewer_of WHERE terms.store = {store} AND terms.term = fewer_of.term), "
    "fewer AS (UPDATE stores SET changes = changes + 1, texts = texts - (SELECT count(*) FROM passages_gone "
    "WHERE was_current), total_length = total_length - (SELECT COALESCE(sum(length), 0) FROM passages_gone "
    "WHERE was_current) WHERE store = {store} AND EXISTS (SELECT FROM gone))"
)
"""The CTEs that count the terms of passages that are not current any more."""
_END: Final = (
    "WITH gone AS (UPDATE items SET slot = 'was:' || row, ended = ?, end_operation = ?, end_run = ?, end_actor = ?, "
    f"archived = ? WHERE store = {{store}} AND {NOW} AND ({{condition}}) RETURNING row), "
    f"passages_gone AS (UPDATE passages SET is_current = false WHERE {_among_gone('passages')} "
    "RETURNING passage, terms, length, true AS was_current), "
    f"vectors_gone AS (UPDATE vectors SET is_current = false WHERE {_among_gone('vectors')}), "
    f"{_UNCOUNT} SELECT count(*) FROM gone"
)
_DELETE: Final = (
    "WITH gone AS (DELETE FROM items WHERE store = {store} AND ({condition}) RETURNING row), "
    f"passages_gone AS (DELETE FROM passages WHERE {_among_gone('passages')} "
    "RETURNING passage, terms, length, is_current AS was_current), "
    f"vectors_gone AS (DELETE FROM vectors WHERE {_among_gone('vectors')}), "
    f"tokens_gone AS (DELETE FROM tokens WHERE {_among_gone('tokens')}), "
    "used AS (DELETE FROM attachment_uses AS use USING gone WHERE use.store = {store} AND use.row = gone.row "
    f"RETURNING sha256), {_UNCOUNT} SELECT (SELECT count(*) FROM gone), (SELECT array_agg(DISTINCT sha256) FROM used)"
)


_COUNT_AGAIN: Final = (
    "DELETE FROM terms WHERE store = %(store)s",
    "INSERT INTO terms(store, term, texts, total_length) SELECT %(store)s, term, count(*), sum(length) "
    "FROM passages, unnest(terms) AS term WHERE store = %(store)s AND is_current GROUP BY term",
    "UPDATE stores SET (texts, total_length) = (SELECT count(*), COALESCE(sum(length), 0) FROM passages "
    "WHERE store = %(store)s AND is_current) WHERE store = %(store)s",
)
