"""Inserting items with all that belongs to them: the terms of their passages, their vectors and their token codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from psycopg.types.json import Jsonb

from devmem.model.items import MemoryItem
from devmem.models.embedder import PassageEmbeddings
from devmem.storage.postgres.database import Connection, composed, pipelined, stored_text
from devmem.storage.postgres.rows import (
    ITEM_COLUMNS,
    ITEM_TABLES,
    Tables,
    hashed_terms,
    json_value,
    key_of,
    new_rows,
)
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.writing import INTEGER_COLUMNS, REAL_COLUMNS, PreparedItem, item_body, item_columns

_FEW: Final = 50
"""Number of rows of a table up to which INSERT is faster: a COPY waits for the server twice."""

Row: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """Rows for one table."""

    table: str
    columns: tuple[str, ...]
    """Names of the columns, quoted where they have to be."""
    types: tuple[str, ...]
    """Type of each column."""
    rows: Sequence[Row]


def insert_rows(connection: Connection, insertions: Sequence[Insertion]) -> None:
    """Insert the rows of each table, within the connection's transaction."""
    wanted = [each for each in insertions if each.rows]
    if max((len(each.rows) for each in wanted), default=0) > _FEW and not _is_secured(connection, wanted):
        for each in wanted:
            _copy(connection, each)
    elif wanted:
        with pipelined(connection), connection.cursor() as cursor:
            for each in wanted:
                cursor.executemany(composed(_insert(each)), each.rows)


def _is_secured(connection: Connection, insertions: Sequence[Insertion]) -> bool:
    """Whether row-level security restricts this user, in which case the server refuses COPY."""
    query = "SELECT bool_or(row_security_active(name)) FROM unnest(%s::text[]) AS name"
    ((found,),) = connection.execute(query, ([each.table for each in insertions],)).fetchall()
    return bool(found)


def _insert(insertion: Insertion) -> str:
    marks = ", ".join(f"%s::{each}" for each in insertion.types)
    return f"INSERT INTO {insertion.table}({', '.join(insertion.columns)}) VALUES ({marks})"


def _copy(connection: Connection, insertion: Insertion) -> None:
    query = f"COPY {insertion.table}({', '.join(insertion.columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(composed(query)) as copy:
        copy.set_types(insertion.types)
        for row in insertion.rows:
            copy.write_row(row)


_ITEM_COLUMNS: Final = ("store", "row", *ITEM_COLUMNS.split(", "), "operation", "change_run", "change_actor")
_TYPES: Final = {
    "store": "int8", "row": "int8", "id_key": "uuid", "content_key": "uuid", "waiting": "bool", "metadata": "jsonb",
    **dict.fromkeys(REAL_COLUMNS, "float8"), **dict.fromkeys(INTEGER_COLUMNS, "int4"),
}  # fmt: skip
"""Types of the columns of items that are not texts."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The change that begins a version."""

    operation: str
    run: str | None
    actor: str | None
    time_or_base: int | None
    """Recorded time; of a pending run's version, the row of the item that it replaces."""


@dataclass(frozen=True, slots=True)
class NewItem:
    """An item that is about to be inserted."""

    prepared: PreparedItem
    body: MemoryItem
    """The item with its large attachments as references."""
    embeddings: PassageEmbeddings | None
    """Of unit length; None for an item that waits for them, or has no text."""
    waiting: bool
    replaces: bool = False
    """Whether there is a version of the item already."""

    @property
    def item(self) -> MemoryItem:
        """The item as it was given."""
        return self.prepared.item


@dataclass(frozen=True, slots=True)
class NewEmbeddings:
    """The embeddings of an item that is in the database."""

    row: int
    passages: int
    """Number of its passages."""
    embeddings: PassageEmbeddings


_LEAVE_ARCHIVE: Final = "UPDATE versions SET archived = NULL WHERE store = %s AND archived AND id_key = ANY(%s)"


def insert_items(
    connection: Connection, store: int, new: Sequence[NewItem], origins: Sequence[Origin], tables: Tables = ITEM_TABLES
) -> list[int]:
    """Insert items, the terms of their passages and their embeddings; return their rows."""
    if not new:
        return []
    if tables is ITEM_TABLES:
        # An item with a current version has none in the archive.
        connection.execute(_LEAVE_ARCHIVE, (store, [key_of(one.item.id) for one in new]))
    rows = new_rows(connection, store, len(new))
    items = [_item_values(store, row, one, origin) for row, one, origin in zip(rows, new, origins, strict=True)]
    embedded = [
        NewEmbeddings(row, len(one.prepared.passages), one.embeddings)
        for row, one in zip(rows, new, strict=True)
        if one.embeddings is not None
    ]
    terms = _of_terms(tables, store, [(row, one.prepared) for row, one in zip(rows, new, strict=True)])
    insert_rows(connection, [_of_items(tables, items), terms, *_of_embeddings(tables, store, embedded)])
    if tables is ITEM_TABLES:
        count_terms(connection, store, terms.rows)
    return rows


def insert_passages(
    connection: Connection, store: int, items: Sequence[tuple[int, PreparedItem]], tables: Tables = ITEM_TABLES
) -> None:
    """Insert the terms of the passages of items that have none, each item with its row, uncounted."""
    insert_rows(connection, [_of_terms(tables, store, items)])


_COUNT_TERMS: Final = (
    "INSERT INTO terms(store, term, texts) SELECT %s, term, texts "
    "FROM unnest(%s::int[], %s::int[]) AS new(term, texts) "
    "ON CONFLICT (store, term) DO UPDATE SET texts = terms.texts + excluded.texts"
)
_COUNT_TEXTS: Final = "UPDATE stores SET texts = texts + %s, total_length = total_length + %s WHERE store = %s"


def count_terms(connection: Connection, store: int, passages: Sequence[Row]) -> None:
    """Count the passages that each term occurs in, for rows of the table `passages` that were inserted."""
    if not passages:
        return
    numbers = np.concatenate([np.unique(np.asarray(each[2], dtype=np.int32)) for each in passages])
    terms, texts = np.unique(numbers, return_counts=True)
    with pipelined(connection):
        connection.execute(_COUNT_TERMS, (store, terms.tolist(), texts.tolist()))
        connection.execute(_COUNT_TEXTS, (len(passages), sum(int(str(each[4])) for each in passages), store))


def insert_embeddings(
    connection: Connection, store: int, embedded: Sequence[NewEmbeddings], tables: Tables = ITEM_TABLES
) -> None:
    """Insert the embeddings of items that have none."""
    insert_rows(connection, _of_embeddings(tables, store, embedded))


def _of_items(tables: Tables, rows: Sequence[Row]) -> Insertion:
    columns = (*_ITEM_COLUMNS, tables.time_or_base)
    types = (*(_TYPES.get(name.strip('"'), "text") for name in _ITEM_COLUMNS), "int8")
    return Insertion(table=tables.items, columns=columns, types=types, rows=rows)


def _item_values(store: int, row: int, new: NewItem, origin: Origin) -> Row:
    item = new.item
    keys = key_of(item.id), key_of(item.content_hash)
    columns = item_columns(new.prepared, stored_text)
    body = item_body(new.body).decode()
    change = origin.operation, stored_text(origin.run), stored_text(origin.actor), origin.time_or_base
    metadata = Jsonb(json_value(item.metadata), dumps=_as_it_is)
    return (store, row, *keys, *columns, new.waiting, new.prepared.refusal, metadata, body, *change)


def _as_it_is(text: str) -> str:
    return text


def _of_terms(tables: Tables, store: int, items: Sequence[tuple[int, PreparedItem]]) -> Insertion:
    return Insertion(
        table=tables.passages,
        columns=("store", "passage", "terms", "counts", "length"),
        types=("int8", "int8", "int4[]", "bytea", "int4"),
        rows=[
            (store, passage, hashed_terms(store, encoded).tolist(), encoded.counts, encoded.length)
            for row, prepared in items
            for passage, encoded in enumerate(prepared.terms(), row << PASSAGE_BITS)
        ],
    )


def _of_embeddings(tables: Tables, store: int, embedded: Iterable[NewEmbeddings]) -> list[Insertion]:
    """Return the rows of vectors and token codes; a single vector of an item is that of its first passage."""
    vectors: list[Row] = []
    codes: list[Row] = []
    for each in embedded:
        found, first = each.embeddings, each.row << PASSAGE_BITS
        if len(found.vectors) not in (1, each.passages):
            raise ValueError(f"{len(found.vectors)} embeddings for an item of {each.passages} passages")
        of_passages = np.asarray(found.vectors, dtype=np.float32)
        vectors += [(store, passage, vector) for passage, vector in enumerate(of_passages, first)]
        if found.tokens is not None:
            tokens = found.tokens[: each.passages]
            codes += [(store, passage, code.tobytes()) for passage, code in enumerate(tokens, first)]
    place = ("store", "passage")
    numbers = ("int8", "int8")
    return [
        Insertion(table=tables.vectors, columns=(*place, "vector"), types=(*numbers, "vector"), rows=vectors),
        Insertion(table=tables.tokens, columns=(*place, "codes"), types=(*numbers, "bytea"), rows=codes),
    ]
