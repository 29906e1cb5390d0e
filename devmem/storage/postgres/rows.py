"""Items as rows of a PostgreSQL database."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from devmem.errors import CollectionDamagedError
from devmem.model.conditions import comparable_number
from devmem.model.filters import SCOPE_PARTS
from devmem.model.items import MemoryItem, Vector, load_item_json, why_unreadable
from devmem.models.embedder import PassageEmbeddings
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.postgres.database import Connection, RowNumbers, composed, stored_text
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.searching import MISSING
from devmem.storage.writing import (
    COLUMNS,
    PreparedItem,
    check_item,
    embeddings_from,
    speaker_of,
    stored_hash,
)
from devmem.text.cues import cues_of_item

_MOST_IN_SCOPE: Final = 500
"""Characters of a part of a scope, of which an index holds four."""
_BATCH_SIZE: Final = 1000
_QUOTED: Final = ", ".join(f'"{name}"' for name in COLUMNS)
ITEM_COLUMNS: Final = f"id_key, content_key, {_QUOTED}, waiting, refusal, metadata, body"
"""Columns of an item, without store and row, that are the same in `items` and `versions`."""
SELECT_WHOLE: Final = (
    "SELECT items.row, body, vector_send(vector) FROM items "
    f"LEFT JOIN vectors ON vectors.store = items.store AND vectors.passage = items.row << {PASSAGE_BITS}"
)
"""Selects row numbers and the arguments of `item_from`."""
HASHED: Final = "content_hash, CASE WHEN strpos(body, '\"indexed_fields\":') > 0 THEN body ELSE '' END"
"""Columns that `stored_hash` takes; few bodies are read for it."""


def key_of(text: str) -> UUID:
    """Return the key by which a text of any length is found in an index."""
    return UUID(bytes=hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())


@dataclass(frozen=True, slots=True)
class Tables:
    """Where items are, and what belongs to them."""

    items: str
    passages: str
    vectors: str
    tokens: str
    time_or_base: str
    """The column that only one of the two has when an item is inserted."""


ITEM_TABLES: Final = Tables("items", "passages", "vectors", "tokens", "recorded_from")
VERSION_TABLES: Final = Tables("versions", "version_passages", "version_vectors", "version_tokens", "base")


def check_storable(prepared: PreparedItem) -> None:
    """Refuse an item whose fields do not fit their columns.

    Raises:
        ValueError: it names the item and the field.
    """
    item = prepared.item
    check_item(item)
    for part in SCOPE_PARTS:
        if len(getattr(item.scope, part) or "") > _MOST_IN_SCOPE:
            raise ValueError(
                f"item {item.id!r} cannot be stored: its `{part}` has more than {_MOST_IN_SCOPE} characters"
            )
    if len(prepared.passages) >> PASSAGE_BITS:
        raise ValueError(f"item {item.id!r} cannot be stored: it has {len(prepared.passages):,} passages")


def new_rows(connection: Connection, store: int, count: int) -> list[int]:
    """Return row numbers that no item has or will have, in ascending order, within a write transaction."""
    query = "UPDATE stores SET next_row = next_row + %s WHERE store = %s RETURNING next_row"
    ((end,),) = connection.execute(query, (count, store)).fetchall()
    return list(range(end - count, end))


def json_scalar(value: str | float) -> str:
    """Return a value as JSON, in which equal numbers are equal decimals."""
    if isinstance(value, str):
        return json.dumps(stored_text(value))
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
        item = load_item_json(body)
    except (ValueError, RecursionError) as error:
        reason = f"row {row} cannot be read as an item: {why_unreadable(error)}"
        raise CollectionDamagedError("PostgreSQL", reason) from error
    return item if vector is None else replace(item, embedding=vector_from(vector))


def vector_from(raw: bytes) -> Vector:
    """Return the vector of pgvector's binary form: dimension and flags, then big-endian float32."""
    return np.frombuffer(raw, dtype=">f4", offset=4).astype(np.float32)


def of_item(table: str, columns: str, row: str, *, name: str | None = None) -> str:
    """Return the FROM item with the rows of a table that belong to one item, which are looked up by the primary key.

    Args:
        table: a table by passage.
        columns: columns of it.
        row: the item's row, an expression over FROM items before this one.
        name: its name in the statement; None takes that of the table.
    """
    # OFFSET keeps the planner from turning it into a join. It does not know how narrow the range is, and may take one
    # that compares all passages of the store with all items, as in a plan that it makes for any number of items.
    named = name or table
    return (
        f"LATERAL (SELECT {columns} FROM {table} AS one WHERE one.store = %(store)s AND one.passage >= {row} << "
        f"{PASSAGE_BITS} AND one.passage < ({row} + 1) << {PASSAGE_BITS} OFFSET 0) AS {named}"
    )


def passages_among(table: str, items: str) -> str:
    """Return the condition that a row of a table by passage belongs to one of the items of a FROM item."""
    found = of_item(table, "passage", f"{items}.row", name="found")
    return (
        f"{table}.store = %(store)s AND {table}.passage = ANY(ARRAY("
        f"SELECT found.passage FROM {items} CROSS JOIN {found}))"
    )


def _embedded_passages(tables: Tables, row: str) -> str:
    """Return the FROM items with `vectors` and `tokens` of the passages of an item; `row` is as in `of_item`."""
    vectors = of_item(tables.vectors, "passage, vector", row, name="vectors")
    return (
        f"{vectors} LEFT JOIN LATERAL (SELECT codes FROM {tables.tokens} AS tokens WHERE tokens.store = %(store)s "
        "AND tokens.passage = vectors.passage OFFSET 0) AS tokens ON true"
    )


def read_embeddings(connection: Connection, store: int, ids: Sequence[str]) -> dict[str, PassageEmbeddings]:
    """Return the embeddings of those of the items that have them, by id."""
    keys = {key_of(wanted): wanted for wanted in ids}
    found = connection.execute(
        composed(
            f"SELECT id_key, {HASHED}, vector_send(vector), codes FROM items "
            f"CROSS JOIN {_embedded_passages(ITEM_TABLES, 'items.row')} "
            "WHERE items.store = %(store)s AND id_key = ANY(%(keys)s) ORDER BY vectors.passage"
        ),
        {"store": store, "keys": list(keys)},
    ).fetchall()
    rows: dict[UUID, list[tuple[Any, ...]]] = {}
    for key, *rest in found:
        rows.setdefault(key, []).append(tuple(rest))
    return {keys[key]: _embeddings_of(each) for key, each in rows.items()}


def _embeddings_of(rows: Sequence[tuple[Any, ...]]) -> PassageEmbeddings:
    return embeddings_from([(vector_from(vector), raw) for *_, vector, raw in rows], stored_hash(*rows[0][:2]))


def fetch_bodies(connection: Connection, store: int, rows: Sequence[int]) -> dict[int, MemoryItem]:
    """Return items by row number, without their embeddings; one that is not there is `MISSING`."""
    items = dict.fromkeys(rows, MISSING)
    if not rows:
        return items
    query = f"SELECT row, body FROM items WHERE store = {store:d} AND row = ANY(%s)"
    found = connection.execute(composed(query), (RowNumbers(rows),), binary=True).fetchall()
    return items | {row: item_from(row, body) for row, body in found}


def refresh_analysis(connection: Connection, store: int) -> None:
    """Replace terms, cues and speaker of every item and version: they are of another version of the text analysis."""
    for tables in (ITEM_TABLES, VERSION_TABLES):
        mark = composed(f"UPDATE {tables.items} SET cues = %s, speaker = %s WHERE store = %s AND row = %s")
        update = composed(
            f"UPDATE {tables.passages} SET terms = %s, counts = %s, length = %s WHERE store = %s AND passage = %s"
        )
        for row, body in each_body(connection, store, tables):
            item = item_from(row, body)
            connection.execute(mark, (int(cues_of_item(item)), speaker_of(item, stored_text), store, row))
            with connection.cursor() as cursor:
                cursor.executemany(
                    update,
                    [
                        (hashed_terms(store, one).tolist(), one.counts, one.length, store, passage)
                        for passage, one in enumerate(PreparedItem.of(item).terms(), row << PASSAGE_BITS)
                    ],
                )
    count_terms_again(connection, store)


_COUNT_AGAIN: Final = (
    "DELETE FROM terms WHERE store = %(store)s",
    "INSERT INTO terms(store, term, texts) SELECT %(store)s, term, count(*) FROM passages, unnest(terms) AS term "
    "WHERE store = %(store)s GROUP BY term",
    "UPDATE stores SET (texts, total_length) = (SELECT count(*), COALESCE(sum(length), 0) FROM passages "
    "WHERE store = %(store)s) WHERE store = %(store)s",
)


def count_terms_again(connection: Connection, store: int) -> None:
    """Count the passages that each term occurs in, and all of them."""
    for statement in _COUNT_AGAIN:
        connection.execute(composed(statement), {"store": store})


_MIX: Final = 0x9E3779B97F4A7C15


def hashed(store: int, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Return the numbers by which an index of all stores finds terms of this one, given their hashes."""
    mixed = (hashes ^ np.uint64(store)) * np.uint64(_MIX)
    return np.asarray(mixed >> np.uint64(32), dtype=np.uint32).view(np.int32)


def hashed_terms(store: int, terms: EncodedTerms) -> NDArray[np.int32]:
    """Return the terms of a passage as the table `passages` has them."""
    return hashed(store, np.frombuffer(terms.hashes, dtype="<u8"))


def each_body(connection: Connection, store: int, tables: Tables = ITEM_TABLES) -> Iterator[tuple[int, str]]:
    """Yield row number and body of every item, reading them in batches."""
    query = composed(f"SELECT row, body FROM {tables.items} WHERE store = %s AND row > %s ORDER BY row LIMIT %s")
    last = 0
    while True:
        found = connection.execute(query, (store, last, _BATCH_SIZE)).fetchall()
        if not found:
            return
        yield from found
        last = found[-1][0]


SNAPSHOT_COLUMNS: Final = f"store, row, {ITEM_COLUMNS}, operation, change_run"
_BELONGING: Final = (
    (ITEM_TABLES.passages, VERSION_TABLES.passages, "store, passage, terms, counts, length"),
    (ITEM_TABLES.vectors, VERSION_TABLES.vectors, "store, passage, vector"),
    (ITEM_TABLES.tokens, VERSION_TABLES.tokens, "store, passage, codes"),
)


def schema_sql(schema: str) -> str:
    """Return a schema's name as SQL."""
    return f'"{schema.replace(chr(34), chr(34) * 2)}"'


def text_sql(text: str | None) -> str:
    """Return a text as an SQL expression that needs no parameter."""
    return f"convert_from('\\x{(stored_text(text) or '').encode().hex()}', 'UTF8')"


def state_ctes(items: str) -> str:
    """Return the common table expressions by which `items` means the rows of a query in a statement."""
    expressions = [f"items AS NOT MATERIALIZED ({items})"]
    for current, kept, columns in _BELONGING:
        both = f"SELECT {columns} FROM {current} UNION ALL SELECT {columns} FROM {kept}"
        expressions.append(f"{current} AS NOT MATERIALIZED ({both})")
    return ", ".join(expressions)
