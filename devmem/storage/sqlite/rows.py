"""Versions of items as rows: inserting, copying and reading them with their passages, vectors and token codes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from devmem.model.items import MemoryItem, Vector, load_item_json
from devmem.models.embedder import PassageEmbeddings
from devmem.models.given_vectors import PREFIX
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.searching import MISSING
from devmem.storage.sqlite.compact_rows import (
    PARTS_OF_PASSAGE,
    joined_codes,
    pack_terms,
    parts_of,
    split_codes,
)
from devmem.storage.sqlite.database import damage_error
from devmem.storage.sqlite.schema import NOW
from devmem.storage.writing import COLUMNS, PreparedItem, embeddings_from, item_body, item_columns, stored_hash

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
        raise damage_error(f"embeddings of {dimension} and {known} dimensions; `devmem reindex --force` makes new ones")


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
_INSERT: Final = (
    f"INSERT INTO items({CONTENT}, slot, operation, change_run, change_actor, began, base) "
    f"VALUES ({', '.join('?' * (len(COLUMNS) + 10))})"
)
_COPY: Final = (
    f"INSERT INTO items({CONTENT}, slot, operation, change_run, change_actor, began) "
    f"SELECT {CONTENT}, 'now', ?, ?, ?, ? FROM items WHERE row = ?"
)
_INSERT_PASSAGE: Final = "INSERT INTO passages(row, term_hashes, term_counts, term_length) VALUES (?, ?, ?, ?)"
_COPY_PASSAGE: Final = (
    "INSERT INTO passages(row, term_hashes, term_counts, term_length) "
    "SELECT ?, term_hashes, term_counts, term_length FROM passages WHERE passage = ?"
)
_PASSAGES_OF: Final = "SELECT passage FROM passages WHERE row = ? ORDER BY passage"
SELECT_WHOLE: Final = (
    "SELECT items.row, CAST(body AS BLOB), content_hash, vector FROM items "
    "LEFT JOIN vectors ON vectors.passage = (SELECT min(passage) FROM passages WHERE passages.row = items.row)"
)
"""Selects the arguments of `item_from_row`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The change that begins a version."""

    operation: str
    run: str | None
    actor: str | None
    at: int | None
    """Recorded time; None while its run is pending."""


def insert_item(
    connection: sqlite3.Connection,
    prepared: PreparedItem,
    body: MemoryItem,
    origin: Origin,
    *,
    waiting: bool,
    slot: str = "now",
    base: int | None = None,
) -> list[int]:
    """Insert a version and the terms of its passages; return the passages' numbers.

    Args:
        connection: in a write transaction.
        prepared: the item.
        body: the item with its large attachments as references.
        origin: begins the version.
        waiting: whether its embeddings are pending.
        slot: see the schema.
        base: row of the current version that a pending one replaces.
    """
    columns = item_columns(prepared, lambda text: text)
    derived = 1 if prepared.item.provenance.parents else None
    values = (*columns, derived, int(waiting), prepared.refusal, item_body(body).decode())
    began = (slot, origin.operation, origin.run, origin.actor, origin.at, base)
    row = connection.execute(_INSERT, (*values, *began)).lastrowid or 0
    return insert_passages(connection, row, prepared)


def copy_as_current(connection: sqlite3.Connection, row: int, origin: Origin) -> None:
    """Insert a copy of a version as the current one, with all that belongs to it."""
    copied = connection.execute(_COPY, (origin.operation, origin.run, origin.actor, origin.at, row)).lastrowid
    for passage in passages_of_row(connection, row):
        copy_passage(connection, passage, copied or 0)


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


def update_terms(connection: sqlite3.Connection, passage: int, terms: EncodedTerms) -> None:
    """Replace the terms of a passage."""
    statement = "UPDATE passages SET term_hashes = ?, term_counts = ?, term_length = ? WHERE passage = ?"
    connection.execute(statement, (*pack_terms(terms), passage))


def passages_of_row(connection: sqlite3.Connection, row: int) -> list[int]:
    """Return the numbers of a version's passages, in order."""
    return [passage for (passage,) in connection.execute(_PASSAGES_OF, (row,))]


def insert_embeddings(connection: sqlite3.Connection, passages: Sequence[int], encoding: PassageEmbeddings) -> None:
    """Insert the embeddings of an item's passages; a single vector is that of the first passage."""
    if len(encoding.vectors) not in (1, len(passages)):
        raise ValueError(f"{len(encoding.vectors)} embeddings for an item of {len(passages)} passages")
    exact = keeps_exact(connection)
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


def keeps_exact(connection: sqlite3.Connection) -> bool:
    """Whether vectors are stored to the last bit: those that the caller made, and all outside of a file.

    A JSON file, which other programs may write, is held in memory and written again.
    """
    (_, _, file) = connection.execute("PRAGMA database_list").fetchone()
    if not file:
        return True
    (model,) = connection.execute("SELECT value FROM meta WHERE key = 'model'").fetchone() or (None,)
    return isinstance(model, str) and model.startswith(PREFIX)


def read_embeddings(connection: sqlite3.Connection, item_id: str, shown: str = NOW) -> PassageEmbeddings | None:
    """Return the embeddings of an item in a state; None when it is not there or not embedded."""
    query = f"SELECT row, content_hash, CAST(body AS BLOB) FROM items WHERE id = ? AND {shown}"
    found = connection.execute(query, (item_id,)).fetchone()
    if found is None:
        return None
    row, content_hash, body = found
    vectors = connection.execute(
        "SELECT passage, vector FROM passages JOIN vectors USING (passage) WHERE row = ? ORDER BY passage", (row,)
    ).fetchall()
    if not vectors:
        return None
    parts = connection.execute(
        f"SELECT passage, codes FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE} WHERE row = ? "
        "ORDER BY passage, part",
        (row,),
    )
    codes = dict(joined_codes(parts))
    decoded = decode_vectors([vector for _, vector in vectors])
    each = zip(decoded, (codes.get(passage) for passage, _ in vectors), strict=True)
    return embeddings_from(list(each), stored_hash(content_hash, body))


def item_from_row(_row: int, body: bytes, digest: str, vector: bytes | None) -> MemoryItem:
    """Return the item of a selected row, with its embedding."""
    return load_item_json(body, digest, None if vector is None else decode_vectors([vector])[0])


def fetch_items(connection: sqlite3.Connection, rows: Sequence[int]) -> dict[int, MemoryItem]:
    """Return items by row number, without their embeddings; one that is not there is `MISSING`."""
    found = dict.fromkeys(rows, MISSING)
    for start in range(0, len(rows), 500):
        part = rows[start : start + 500]
        query = f"SELECT row, CAST(body AS BLOB) FROM items WHERE row IN ({', '.join('?' * len(part))})"
        found |= {row: load_item_json(body) for row, body in connection.execute(query, part)}
    return found


def any_expired(connection: sqlite3.Connection, now: float) -> bool:
    """Whether a current item is past its `expires_at` at `now` (seconds since the epoch)."""
    query = f"SELECT 1 FROM items WHERE {NOW} AND expires_at <= ? LIMIT 1"
    return connection.execute(query, (now,)).fetchone() is not None
