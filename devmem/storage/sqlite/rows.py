"""Items as database rows."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import MemoryItem, Vector, encodable, load_item_json, original
from devmem.models.embedder import PassageEmbeddings
from devmem.models.given_vectors import PREFIX
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.searching import MISSING
from devmem.storage.sqlite.compact_rows import (
    PARTS_OF_PASSAGE,
    StoredTerms,
    joined_codes,
    pack_terms,
    parts_of,
    split_codes,
)
from devmem.storage.writing import (
    COLUMNS,
    INTEGER_COLUMNS,
    REAL_COLUMNS,
    DamagedRows,
    PreparedItem,
    embeddings_from,
    item_body,
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
        ValueError: they are of several dimensions, or not such forms.
    """
    lengths = {len(raw) for raw in stored}
    if len(lengths) == 1:
        return _decoded(stored, lengths.pop())
    found: Vector | None = None
    for length in lengths:
        places = [at for at, raw in enumerate(stored) if len(raw) == length]
        vectors = _decoded([stored[at] for at in places], length)
        found = np.empty((len(stored), vectors.shape[1]), dtype=np.float32) if found is None else found
        found[places] = vectors
    return np.empty((0, 0), dtype=np.float32) if found is None else found


def _decoded(stored: Sequence[bytes], length: int) -> Vector:
    """Return vectors of which every stored form has the same length, which is at least 1."""
    joined = b"".join(stored)
    if length % 4 == 0:
        return np.frombuffer(joined, dtype="<f4").reshape(len(stored), -1).astype(np.float32)
    codes = np.frombuffer(joined, dtype=np.int8).reshape(len(stored), length)
    vectors: Vector = codes[:, 1 : length - int(codes[0, 0])].astype(np.float32)
    # A damaged one without a direction gets no length here, and is found by that.
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
    return vectors


_ITEM_COLUMNS: Final = tuple(
    name if name in (*REAL_COLUMNS, *INTEGER_COLUMNS) else f"CAST({name} AS BLOB)" for name in COLUMNS
)
"""All but `waiting`, which changes, and `body`, which has its own checksum. A damaged text need not be UTF-8."""
_CHANGE_COLUMNS: Final = (
    *("CAST(operation AS BLOB)", "CAST(change_run AS BLOB)", "recorded_from", "CAST(change_actor AS BLOB)"),
)
_ENDING_COLUMNS: Final = (
    *("recorded_until", "CAST(end_operation AS BLOB)", "CAST(end_run AS BLOB)", "CAST(end_actor AS BLOB)"),
)
_PASSAGE_COLUMNS: Final = ("row", "term_hashes", "term_counts", "term_length")


def _joined(columns: Sequence[str]) -> str:
    return f"CAST(joined_{len(columns)}({', '.join(columns)}) AS BLOB)"


_TEXT_TYPES: Final = ", ".join(
    f"typeof{column.removeprefix('CAST').removesuffix(' AS BLOB)')})" for column in _ITEM_COLUMNS if "CAST" in column
)

# NULL, which equals no checksum, where a value is of another type: text and blob differ in one bit of the row's header.
ITEM_CHECKSUM: Final = f"CASE WHEN 'blob' NOT IN ({_TEXT_TYPES}) THEN crc32({_joined(_ITEM_COLUMNS)}) END"
CHANGE_CHECKSUMS: Final = {
    "items": f"crc32({_joined(_CHANGE_COLUMNS)})",
    "versions": f"crc32({_joined((*_CHANGE_COLUMNS, *_ENDING_COLUMNS))})",
}
"""Of the changes that began and ended the rows of a table."""
BODY_CHECKSUM: Final = "crc32(COALESCE(CAST(body AS BLOB), X''))"
PASSAGE_CHECKSUM: Final = f"crc32({_joined(_PASSAGE_COLUMNS)})"
"""SQL of `checksum_of_terms`."""
VECTOR_CHECKSUM: Final = "CASE WHEN typeof(vector) = 'blob' AND length(vector) THEN crc32(vector) END"
"""SQL of `checksum_of_vector`."""


def end_checksum(began: Sequence[str], ended: Sequence[str]) -> str:
    """Return the SQL of the checksum of a version's changes.

    Args:
        began: SQL of the operation, run, recorded time and actor of the change that began it.
        ended: likewise of the recorded time, operation, run and actor of the one that ended it.
    """
    values = (f"CAST({each} AS BLOB)" if at not in (2, 4) else each for at, each in enumerate((*began, *ended)))
    return f"crc32({_joined(tuple(values))})"


def checksum(*values: bytes | str | float | None) -> int:
    """Return the CRC-32 of one blob, or of several column values."""
    if len(values) == 1 and isinstance(values[0], bytes):
        return zlib.crc32(values[0])
    return zlib.crc32(
        _FORMATS[len(values)](*[each.encode() if isinstance(each, str) else each for each in values]).encode()
    )


_COUNTS: Final = {len(_ITEM_COLUMNS), len(_PASSAGE_COLUMNS), len(_CHANGE_COLUMNS), 2 * len(_CHANGE_COLUMNS)}
_FORMATS: Final = {count: ("{!r};" * count).format for count in _COUNTS}


def checksum_of_vector(raw: bytes) -> int:
    """Return the checksum of a stored vector."""
    return zlib.crc32(raw)


def checksum_of_terms(row: int, terms: StoredTerms) -> int:
    """Return the checksum of a passage's terms."""
    return checksum(row, *terms)


def is_intact(blob: bytes | str | float | None, its_checksum: int, checked: Callable[[bytes], int] = checksum) -> bool:
    """Whether a value that was selected is the blob that was stored; an empty one never was."""
    return isinstance(blob, bytes) and blob != b"" and checked(blob) == its_checksum


def define_functions(connection: sqlite3.Connection) -> None:
    """Define the SQL functions of the checksums in a connection.

    They have no Python code of their own: SQLite would turn Ctrl-C in it into an error of the statement.
    """
    connection.create_function("crc32", 1, zlib.crc32, deterministic=True)
    for count, joined in _FORMATS.items():
        connection.create_function(f"joined_{count}", count, joined, deterministic=True)


ITEM_COLUMNS: Final = f"row, {', '.join(COLUMNS)}, waiting, refusal, body, body_checksum, columns_checksum"
"""Columns that items and versions have in common."""
_INSERT_ITEM: Final = (
    f"INSERT INTO items({ITEM_COLUMNS}, operation, change_run, recorded_from, change_actor, change_checksum) "
    f"VALUES ({', '.join('?' * 29)})"
)
_INSERT_PENDING: Final = (
    f"INSERT INTO versions({ITEM_COLUMNS}, operation, change_run, change_actor, base) VALUES ({', '.join('?' * 28)})"
)
_INSERT_PASSAGE: Final = (
    "INSERT INTO passages(row, term_hashes, term_counts, term_length, checksum) VALUES (?, ?, ?, ?, ?)"
)
SELECT_WHOLE: Final = (
    "SELECT items.row, CAST(body AS BLOB), body_checksum, vector, vectors.checksum, vectors.passage FROM items "
    "LEFT JOIN vectors ON vectors.passage = (SELECT min(passage) FROM passages WHERE passages.row = items.row)"
)
"""Selects the arguments of `item_from_row`."""
HASHED: Final = "content_hash, CAST(body AS BLOB), body_checksum"
"""Columns that `embedded_hash_of` takes."""
ItemValues: TypeAlias = tuple[str | float | int | None, ...]
"""Values of an item's columns."""
Origin: TypeAlias = tuple[str | None, str | None, int | None, str | None]
"""Operation, run, recorded time (microseconds since the epoch) and actor of a change."""


def insert_item(
    connection: sqlite3.Connection,
    prepared: PreparedItem,
    values: ItemValues,
    *,
    origin: Origin = (None, None, None, None),
) -> list[int]:
    """Insert an item and the terms of its passages; return the passages' numbers.

    Args:
        connection: in a write transaction.
        prepared: the item.
        values: what `item_values` returned of it.
        origin: the change that begins this version.
    """
    row = connection.execute(_INSERT_ITEM, (None, *values, *origin, checksum(*origin))).lastrowid
    return insert_passages(connection, row or 0, prepared)


def insert_pending(
    connection: sqlite3.Connection,
    prepared: PreparedItem,
    values: ItemValues,
    *,
    row: int,
    operation: str,
    run: str,
    actor: str | None,
    base: int | None,
) -> list[int]:
    """Insert a version of a pending run and the terms of its passages; return the passages' numbers.

    Args:
        connection: in a write transaction.
        prepared: the item.
        values: what `item_values` returned of it.
        row: row number, which is that of no item and no version.
        operation: begins this version.
        run: the run.
        actor: who writes it, as far as it is known.
        base: row of the current item that it replaces; None where there is none.
    """
    connection.execute(_INSERT_PENDING, (row, *values, operation, run, actor, base))
    return insert_passages(connection, row, prepared)


def item_values(prepared: PreparedItem, body: MemoryItem, *, waiting: bool) -> ItemValues:
    """Return the values of `ITEM_COLUMNS` but for the row number.

    Args:
        prepared: the item.
        body: the item with its large attachments as references.
        waiting: whether its embeddings are pending.
    """
    stored = item_body(body)
    columns = item_columns(prepared, sql_text)
    return (*columns, int(waiting), prepared.refusal, stored.decode(), checksum(stored), checksum(*columns))


def insert_passages(connection: sqlite3.Connection, row: int, prepared: PreparedItem) -> list[int]:
    """Insert the terms of the passages of the item in a row; return the passages' numbers."""
    numbers: list[int] = []
    for terms in map(pack_terms, prepared.terms()):
        values = (row, *terms, checksum_of_terms(row, terms))
        numbers.append(connection.execute(_INSERT_PASSAGE, values).lastrowid or 0)
    return numbers


def update_terms(connection: sqlite3.Connection, passage: int, row: int, terms: EncodedTerms) -> None:
    """Replace the terms of a passage of the item in a row."""
    packed = pack_terms(terms)
    connection.execute(
        "UPDATE passages SET row = ?, term_hashes = ?, term_counts = ?, term_length = ?, checksum = ? "
        "WHERE passage = ?",
        (row, *packed, checksum_of_terms(row, packed), passage),
    )


def insert_embeddings(connection: sqlite3.Connection, passages: Sequence[int], encoding: PassageEmbeddings) -> None:
    """Insert the embeddings of an item's passages; a single vector is that of the first passage."""
    if len(encoding.vectors) not in (1, len(passages)):
        raise ValueError(f"{len(encoding.vectors)} embeddings for an item of {len(passages)} passages")
    exact = keeps_exact(connection)
    vectors = (encode_vector(vector, exact=exact) for vector in encoding.vectors)
    connection.executemany(
        "INSERT OR REPLACE INTO vectors(passage, vector, checksum) VALUES (?, ?, ?)",
        ((passage, raw, checksum_of_vector(raw)) for passage, raw in zip(passages, vectors, strict=False)),
    )
    for passage, codes in zip(passages, encoding.tokens or (), strict=False):
        # Earlier codes of the passage may have more parts.
        connection.execute("DELETE FROM tokens WHERE part BETWEEN ? AND ?", parts_of(passage))
        insert_codes(connection, passage, codes.tobytes())


def insert_codes(connection: sqlite3.Connection, passage: int, codes: bytes) -> None:
    """Insert the token codes of a passage that has none."""
    first, _ = parts_of(passage)
    connection.executemany(
        "INSERT INTO tokens(part, codes, checksum) VALUES (?, ?, ?)",
        [(first + number, part, 0 if number else zlib.crc32(codes)) for number, part in enumerate(split_codes(codes))],
    )


def keeps_exact(connection: sqlite3.Connection) -> bool:
    """Whether vectors are stored to the last bit: those that the caller made, and all outside of a file.

    A JSON file, which other programs may write, is held in memory and written again.
    """
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    if not file:
        return True
    query = "SELECT value FROM meta WHERE key = 'model'"
    (model,) = connection.execute(query).fetchone() or (None,)
    return isinstance(model, str) and model.startswith(PREFIX)


def read_embeddings(connection: sqlite3.Connection, item_id: str) -> PassageEmbeddings | None:
    """Return the embeddings of an item; None when it is not there or not embedded."""
    query = f"SELECT row, {HASHED} FROM items WHERE id = ?"
    found = connection.execute(query, (sql_text(item_id),)).fetchone()
    return None if found is None else read_embeddings_of_row(connection, found[0], embedded_hash_of(*found[1:]))


def embedded_hash_of(content_hash: str, body: bytes | None, body_checksum: int) -> str:
    """Return the hash of what is embedded of an item, of which `HASHED` was selected."""
    if body is None or not is_intact(body, body_checksum):
        return content_hash
    return stored_hash(content_hash, body)


def read_embeddings_of_row(connection: sqlite3.Connection, row: int, content_hash: str) -> PassageEmbeddings | None:
    """Return the embeddings of an item or a version, given its row and its `embedded_hash`; None without any."""
    found = connection.execute(
        "SELECT passage, vector FROM passages JOIN vectors USING (passage) "
        f"WHERE row = ? AND {VECTOR_CHECKSUM} = vectors.checksum ORDER BY passage",
        (row,),
    ).fetchall()
    if not found:
        return None
    parts = connection.execute(
        f"SELECT passage, codes, tokens.checksum FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE} WHERE row = ? "
        "ORDER BY passage, part",
        (row,),
    )
    codes = dict(joined_codes(parts))
    vectors = decode_vectors([vector for _, vector in found])
    each = zip(vectors, (codes.get(passage) for passage, _ in found), strict=True)
    return embeddings_from(list(each), content_hash)


def sql_text(text: str | None) -> str | None:
    """Return a text as its column holds it; different texts have different columns."""
    return None if text is None else encodable(text)


def read_text(text: str | None) -> str | None:
    """Return the text of which `sql_text` made this."""
    return None if text is None else original(text)


def text_sql(text: str) -> str:
    """Return a text as an SQL expression that needs no parameter."""
    return f"CAST(X'{encodable(text).encode().hex()}' AS TEXT)"


def item_from_row(
    damaged: DamagedRows,
    row: int,
    body: bytes | None,
    body_checksum: int,
    vector: bytes | None = None,
    vector_checksum: int = 0,
    passage: int = 0,
) -> MemoryItem | None:
    """Return the item of a selected row, with its embedding when that was selected too; None for a damaged row."""
    if body is None or not is_intact(body, body_checksum):
        damaged.add("items", row)
        return None
    try:
        item = load_item_json(body)
    except (ValueError, RecursionError):
        # Written before `item_body` refused what cannot be read again.
        damaged.add("items", row)
        return None
    if vector is None:
        return item
    if not is_intact(vector, vector_checksum, checksum_of_vector):
        damaged.add("vectors", passage)
        return item
    return replace(item, embedding=decode_vectors([vector])[0])


def fetch_items(connection: sqlite3.Connection, rows: list[int], damaged: DamagedRows) -> dict[int, MemoryItem]:
    """Return items by row number, without their embeddings; a damaged row is `MISSING`."""
    found = dict.fromkeys(rows, MISSING)
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        marks = ", ".join("?" * len(part))
        query = f"SELECT row, CAST(body AS BLOB), body_checksum FROM items WHERE row IN ({marks})"
        found |= {row: item_from_row(damaged, row, *rest) or MISSING for row, *rest in connection.execute(query, part)}
    return found


def any_expired(connection: sqlite3.Connection, now: float) -> bool:
    """Whether an item is past its `expires_at` at `now` (seconds since the epoch)."""
    return connection.execute("SELECT 1 FROM items WHERE expires_at <= ? LIMIT 1", (now,)).fetchone() is not None
