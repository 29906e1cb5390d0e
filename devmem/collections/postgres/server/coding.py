"""Making blocks of vector codes: of new items, of vectors that came later, and of several blocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.parameters import RowNumbers
from devmem.collections.postgres.server.joining import MOST_TEXTS, is_sparse, joinable
from devmem.collections.postgres.server.steps import begin_step
from devmem.collections.postgres.server.vector_codes import CodedPassages, block_from, read_codes
from devmem.indexes.row_column import Rows

LATE: Final = (
    "FROM {tables} WHERE changes.store = %(store)s AND changes.kind = 'embedded' "
    "AND changes.xact >= pg_snapshot_xmin(merged) AND NOT pg_visible_in_snapshot(changes.xact, merged)"
)
"""Selects the changes by which items got their vectors later, and which no block shows yet; see `UNMERGED`."""
_LATE_SEEN: Final = (
    "SELECT DISTINCT changes.row "
    + LATE.format(tables="changes, search_states")
    + " AND search_states.store = %(store)s AND pg_visible_in_snapshot(changes.xact, %(seen)s::pg_snapshot) ORDER BY 1"
)
_INSERT: Final = "INSERT INTO vector_codes(store, block, passages, codes) VALUES (%s, nextval('row_numbers'), %s, %s)"
_LEAST: Final = 1_000
"""Number of passages up to which all blocks count as equally large."""
_SIZES: Final = "SELECT block, octet_length(passages) / 8 FROM vector_codes WHERE store = %s ORDER BY 2"


def write_codes(connection: Connection, store: int, rows: Rows) -> None:
    """Insert a block of those of some items that have vectors."""
    dimension = _dimension(connection, store)
    if dimension is not None:
        _write(connection, store, read_codes(connection, store, dimension, rows))


def write_late_codes(connection: Connection, store: int, seen: str) -> None:
    """Insert a block of the items that got their vectors later than they were stored, as a snapshot shows it."""
    found = connection.execute(composed(_LATE_SEEN), {"store": store, "seen": seen}, binary=True).fetchall()
    write_codes(connection, store, np.array([row for (row,) in found], dtype=np.int64))


def _write(connection: Connection, store: int, coded: CodedPassages) -> None:
    if len(coded.passages):
        values = (store, coded.passages.astype("<i8").tobytes(), coded.codes.tobytes())
        connection.execute(_INSERT, values)


def join_codes(connection: Connection, store: int) -> bool:
    """Join blocks of about one size, where there are enough of them; return whether there were."""
    begin_step(connection, store)
    sizes = connection.execute(composed(_SIZES), (store,)).fetchall()
    joined = joinable([(block, size) for block, size in sizes if size < MOST_TEXTS], _LEAST)
    if joined:
        _replace(connection, store, joined, _live(connection, store, joined))
    return bool(joined)


def block_numbers(connection: Connection, store: int) -> list[int]:
    """Return the numbers of all blocks; one that is made later has nothing that was deleted before."""
    begin_step(connection, store)
    return [block for block, _ in connection.execute(composed(_SIZES), (store,)).fetchall()]


def rewrite_sparse_block(connection: Connection, store: int, number: int, least: float) -> None:
    """Make a block again if it is there and more than the share `least` of it was deleted."""
    begin_step(connection, store)
    size = dict(connection.execute(composed(_SIZES), (store,)).fetchall()).get(number)
    if size is None:
        return
    live = _live(connection, store, [number])
    if is_sparse(size, len(live.passages), least):
        _replace(connection, store, [number], live)


def _replace(connection: Connection, store: int, blocks: list[int], live: CodedPassages) -> None:
    connection.execute("DELETE FROM vector_codes WHERE store = %s AND block = ANY(%s)", (store, blocks))
    _write(connection, store, live)


def _live(connection: Connection, store: int, blocks: list[int]) -> CodedPassages:
    """Return what some blocks have of vectors that are still there."""
    dimension = _dimension(connection, store) or 1
    query = "SELECT passages, codes FROM vector_codes WHERE store = %s AND block = ANY(%s)"
    found = connection.execute(query, (store, blocks), binary=True).fetchall()
    coded = CodedPassages.of([block_from(passages, codes, dimension) for passages, codes in found])
    query = "SELECT passage FROM vectors WHERE store = %s AND passage = ANY(%s)"
    there = connection.execute(query, (store, RowNumbers(coded.passages)), binary=True).fetchall()
    return coded.where(np.flatnonzero(np.isin(coded.passages, np.array([each for (each,) in there], dtype=np.int64))))


def _dimension(connection: Connection, store: int) -> int | None:
    found = connection.execute("SELECT dimension FROM stores WHERE store = %s", (store,)).fetchone()
    return found[0] if found else None
