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
from devmem.storage.postgres.rows import ITEM_COLUMNS, ITEM_TABLES, Tables, json_value, key_of
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
    "store": "int4", "row": "int8", "id_key": "uuid", "content_key": "uuid", "waiting": "bool", "metadata": "jsonb",
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


def new_rows(connection: Connection, count: int) -> list[int]:
    """Return row numbers that no item has or will have, in ascending order."""
    numbers = connection.execute("SELECT nextval('row_numbers') FROM generate_series(1, %s)", (count,)).fetchall()
    return sorted(number for (number,) in numbers)


def insert_items(
    connection: Connection, store: int, new: Sequence[NewItem], origins: Sequence[Origin], tables: Tables = ITEM_TABLES
) -> list[int]:
    """Insert items, the terms of their passages and their embeddings; return their rows."""
    if not new:
        return []
    with pipelined(connection):
        if tables is ITEM_TABLES:
            # An item with a current version has none in the archive.
            connection.execute(_LEAVE_ARCHIVE, (store, [key_of(one.item.id) for one in new]))
        rows = new_rows(connection, len(new))
    items = [_item_values(store, row, one, origin) for row, one, origin in zip(rows, new, origins, strict=True)]
    embedded = [
        NewEmbeddings(row, len(one.prepared.passages), one.embeddings)
        for row, one in zip(rows, new, strict=True)
        if one.embeddings is not None
    ]
    passages = [(row, one.prepared) for row, one in zip(rows, new, strict=True)]
    insert_rows(
        connection,
        [_of_items(tables, items), _of_terms(tables, store, passages), *_of_embeddings(tables, store, embedded)],
    )
    return rows


def insert_passages(
    connection: Connection, store: int, items: Sequence[tuple[int, PreparedItem]], tables: Tables = ITEM_TABLES
) -> None:
    """Insert the terms of the passages of items that have none, each item with its row."""
    insert_rows(connection, [_of_terms(tables, store, items)])


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
        columns=("store", "passage", "term_hashes", "term_counts", "term_length"),
        types=("int4", "int8", "bytea", "bytea", "int4"),
        rows=[
            (store, passage, encoded.hashes, encoded.counts, encoded.length)
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
    numbers = ("int4", "int8")
    return [
        Insertion(table=tables.vectors, columns=(*place, "vector"), types=(*numbers, "vector"), rows=vectors),
        Insertion(table=tables.tokens, columns=(*place, "codes"), types=(*numbers, "bytea"), rows=codes),
    ]
