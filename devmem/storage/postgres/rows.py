"""The forms in which items are rows of a PostgreSQL database, and inserting such rows."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.errors import CollectionDamagedError
from devmem.model.conditions import comparable_number
from devmem.model.items import MemoryItem, Vector, load_item_json, why_unreadable
from devmem.search.indexes.scoring import EncodedTerms, term_hash
from devmem.storage.postgres.database import Connection, RowNumbers, composed, pipelined
from devmem.storage.postgres.schema import PASSAGE_BITS, table_of
from devmem.storage.tables import MISSING

_BATCH_SIZE: Final = 1000


def columns_of_items(connection: Connection) -> list[str]:
    """Return the columns that the table of items has."""
    table = table_of("'items'")
    query = f"SELECT attname FROM pg_attribute WHERE attrelid = {table} AND attnum > 0 AND NOT attisdropped"
    return [name for (name,) in connection.execute(composed(query))]


def json_scalar(value: str | float) -> str:
    """Return a value as JSON, in which equal numbers are equal decimals."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, bool):
        return json.dumps(value)
    number = comparable_number(value)
    if math.isinf(number):
        return "1e1000" if number > 0 else "-1e1000"
    return repr(int(number) if float(number).is_integer() and abs(number) < 2**63 else number)


def json_value(value: object) -> str:
    """Return a JSON value as filters compare it, see `json_scalar`; a number that is not finite is null."""
    if isinstance(value, Mapping):
        entries = (f"{json_scalar(str(key))}: {json_value(inner)}" for key, inner in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(json_value, value))}]"
    return json_scalar(value) if isinstance(value, str | int | float) and value == value else "null"


def item_from(row: int, body: str, vector: bytes | None = None) -> MemoryItem:
    """Return the item of a selected row, with the embedding of its first passage where that was selected too.

    Raises:
        CollectionDamagedError: somebody else has changed the body, so that it cannot be read.
    """
    try:
        return load_item_json(body, embedding=None if vector is None else vector_from(vector))
    except (ValueError, RecursionError) as error:
        reason = f"row {row} cannot be read as an item: {why_unreadable(error)}"
        raise CollectionDamagedError("PostgreSQL", reason) from error


def vector_from(raw: bytes) -> Vector:
    """Return the vector of pgvector's binary form: dimension and flags, then big-endian float32."""
    return np.frombuffer(raw, dtype=">f4", offset=4).astype(np.float32)


def vectors_from(raw: Sequence[bytes], dimension: int) -> Vector:
    """Return vectors of pgvector's binary form, all of one dimension, shape (n, dimension)."""
    form = np.dtype([("head", ">i4"), ("components", ">f4", (dimension,))])
    return np.asarray(np.frombuffer(b"".join(raw), dtype=form)["components"], dtype=np.float32)


def of_item(table: str, columns: str, row: str, *, name: str | None = None, store: str = "%(store)s") -> str:
    """Return the FROM item with the rows of a table that belong to one item, which are looked up by the primary key.

    Args:
        table: a table by passage.
        columns: columns of it.
        row: the item's row, an expression over FROM items before this one.
        name: its name in the statement; None takes that of the table.
        store: number of the store, an expression.
    """
    # OFFSET keeps the planner from turning it into a join. It does not know how narrow the range is, and may take one
    # that compares all passages of the store with all items, as in a plan that it makes for any number of items.
    named = name or table
    return (
        f"LATERAL (SELECT {columns} FROM {table} AS one WHERE one.store = {store} AND one.passage >= {row} << "
        f"{PASSAGE_BITS} AND one.passage < ({row} + 1) << {PASSAGE_BITS} OFFSET 0) AS {named}"
    )


_MIX: Final = 0x9E3779B97F4A7C15


def hashed(store: int, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the numbers by which an index of all stores finds terms of this one, given their hashes."""
    mixed = (hashes ^ np.uint64(store)) * np.uint64(_MIX)
    return np.asarray(mixed >> np.uint64(32), dtype=np.uint32).view(np.int32)


def owner_number(store: int, user: str | None) -> int:
    """Return the number by which the database knows the items of a user, or those of none."""
    return int(hashed(store, np.array([term_hash(f"\0{user or ''}")], dtype=np.uint64))[0])


def hashed_terms(store: int, terms: EncodedTerms, owner: int) -> list[int]:
    """Return the terms of a passage of an owner's item as the table `passages` has them."""
    return [*hashed(store, np.frombuffer(terms.hashes, dtype="<u8")).tolist(), owner]


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


def fetch_bodies(connection: Connection, store: int, rows: Sequence[int]) -> dict[int, MemoryItem]:
    """Return items by row number, without their embeddings; one that is not there is `MISSING`."""
    items = dict.fromkeys(rows, MISSING)
    if not rows:
        return items
    query = f"SELECT row, body FROM items WHERE store = {store:d} AND row = ANY(%s)"
    found = connection.execute(composed(query), (RowNumbers(rows),), binary=True).fetchall()
    return items | {row: item_from(row, body) for row, body in found}
