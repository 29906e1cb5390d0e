"""Making segments: of the tail, and of several segments of about one size.

Whoever writes does it, a step at a time; a search never waits for it, as it reads the tail too. As a segment is made of
what the table `passages` has, what was deleted is left out of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from devmem.search.indexes.columns import Rows
from devmem.search.indexes.scoring import sorted_by_term
from devmem.storage.postgres.database import Connection, RowNumbers, composed
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.segments import UNMERGED, fetch_terms, read_terms
from devmem.storage.postgres.server.term_texts import TermRow, TermTexts, begin_step, numbers_from
from devmem.storage.postgres.server.vector_codes import CodedPassages, block_from, read_codes

MOST_TEXTS: Final = 1 << 17
"""Number of passages from which a part is not joined with others: the longest step takes some seconds."""
_FANOUT: Final = 8
"""Number of parts of about one size that are joined."""
LEAST_DEAD: Final = 1 / 8
"""A part is made again when more than this share of its passages was deleted."""


def joinable_segments(parts: Sequence[tuple[int, int]], least: int) -> list[int]:
    """Return the numbers of the parts that are to be joined; none when no part is.

    Args:
        parts: number and size of each that is smaller than `MOST_TEXTS`, the smallest first.
        least: size up to which all parts count as equally large.
    """
    for first in range(len(parts) - _FANOUT + 1):
        group = parts[first : first + _FANOUT]
        if group[-1][1] <= _FANOUT * max(group[0][1], least):
            return [number for number, _ in group]
    return []


def is_sparse(size: int, live: int, least: float) -> bool:
    """Whether more than the share `least` of a part's passages was deleted."""
    return size - live > least * size


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
    joined = joinable_segments([(block, size) for block, size in sizes if size < MOST_TEXTS], _LEAST)
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


TAIL: Final = 1_000
"""Number of items from which the tail becomes a segment."""
_BATCH_SIZE: Final = 20_000
_NEW_ROWS: Final = (
    "SELECT items.row "
    + UNMERGED.format(tables="items, search_states")
    + " AND search_states.store = %(store)s AND pg_visible_in_snapshot(items.xact, %(seen)s::pg_snapshot) "
    "AND items.row > %(last)s ORDER BY items.row LIMIT %(limit)s"
)
_MERGING_INSERT: Final = (
    "INSERT INTO segments(store, segment, passages, lengths, texts, total_length, coded) "
    "VALUES (%s, nextval('row_numbers'), %s, %s, %s, %s, true) RETURNING segment"
)


def merge_tail(connection: Connection, store: int) -> int:
    """Make segments of all items that are in none, in a write transaction; return their number."""
    begin_step(connection, store)
    connection.execute("INSERT INTO search_states(store) VALUES (%s) ON CONFLICT DO NOTHING", (store,))
    ((seen,),) = connection.execute("SELECT pg_current_snapshot()::text").fetchall()
    merged, last = 0, 0
    write_late_codes(connection, store, str(seen))
    while True:
        texts, last, count = _next_texts(connection, store, str(seen), last)
        if not count:
            break
        merged += count
        write_segment(connection, store, texts)
        write_codes(connection, store, np.unique(texts.passages >> PASSAGE_BITS))
    connection.execute("UPDATE search_states SET merged = %s::pg_snapshot WHERE store = %s", (seen, store))
    return merged


def _next_texts(connection: Connection, store: int, seen: str, last: int) -> tuple[TermTexts, int, int]:
    """Return the terms of the next items of the tail, up to a segment's worth; the last row, and the number of items.

    What was committed after the snapshot `seen` stays in the tail.
    """
    found: list[TermRow] = []
    items = 0
    while len(found) < MOST_TEXTS:
        parameters = {"store": store, "seen": seen, "last": last, "limit": _BATCH_SIZE}
        rows = [row for (row,) in connection.execute(composed(_NEW_ROWS), parameters, binary=True).fetchall()]
        if not rows:
            break
        found += fetch_terms(connection, store, rows)
        items, last = items + len(rows), rows[-1]
    return TermTexts.of(found), last, items


def join_segments(connection: Connection, store: int) -> bool:
    """Join segments of about one size, where there are enough of them; return whether there were."""
    begin_step(connection, store)
    found = connection.execute(
        "SELECT segment, texts FROM segments WHERE store = %s AND texts < %s ORDER BY texts", (store, MOST_TEXTS)
    ).fetchall()
    joined = joinable_segments(found, TAIL)
    if joined:
        rewrite_segments(connection, store, joined)
    return bool(joined)


def rewrite_segments(connection: Connection, store: int, segments: Sequence[int]) -> None:
    """Make one segment of several, without what was deleted."""
    kept = connection.execute(
        "SELECT passages FROM segments WHERE store = %s AND segment = ANY(%s)", (store, list(segments)), binary=True
    ).fetchall()
    drop_segments(connection, store, segments)
    passages = np.concatenate([numbers_from(raw, "<i8") for (raw,) in kept])
    write_segment(connection, store, read_terms(connection, store, np.unique(passages >> PASSAGE_BITS).tolist()))


def segment_numbers(connection: Connection, store: int) -> list[int]:
    """Return the numbers of all segments; one that is made later has nothing that was deleted before."""
    begin_step(connection, store)
    found = connection.execute("SELECT segment FROM segments WHERE store = %s ORDER BY segment", (store,)).fetchall()
    return [segment for (segment,) in found]


def rewrite_sparse_segment(connection: Connection, store: int, number: int, least: float) -> None:
    """Make a segment again if it is there and more than the share `least` of it was deleted."""
    begin_step(connection, store)
    query = "SELECT texts FROM segments WHERE store = %s AND segment = %s"
    found = connection.execute(query, (store, number)).fetchone()
    if found is not None and is_sparse(found[0], _count_live(connection, store, number), least):
        rewrite_segments(connection, store, [number])


def _count_live(connection: Connection, store: int, segment: int) -> int:
    ((raw,),) = connection.execute(
        "SELECT passages FROM segments WHERE store = %s AND segment = %s", (store, segment), binary=True
    ).fetchall()
    query = "SELECT count(*) FROM passages WHERE store = %s AND passage = ANY(%s)"
    ((count,),) = connection.execute(query, (store, RowNumbers(numbers_from(raw, "<i8")))).fetchall()
    return int(count)


def drop_segments(connection: Connection, store: int, segments: Sequence[int]) -> None:
    """Delete segments with their postings; what they hold is found by nobody until it is in others."""
    for table in ("postings", "segments"):
        query = f"DELETE FROM {table} WHERE store = %s AND segment = ANY(%s)"
        connection.execute(composed(query), (store, list(segments)))


def start_again(connection: Connection, store: int | None) -> None:
    """Drop all segments of a store, or of all stores (None): everything is in the tail again."""
    for table in ("postings", "segments", "vector_codes"):
        query = f"DELETE FROM {table} WHERE %(store)s::integer IS NULL OR store = %(store)s"
        connection.execute(composed(query), {"store": store})
    query = "UPDATE search_states SET merged = '1:1:' WHERE %(store)s::integer IS NULL OR store = %(store)s"
    connection.execute(query, {"store": store})


def write_segment(connection: Connection, store: int, texts: TermTexts) -> None:
    """Insert a segment of some passages, which ascend."""
    if not len(texts.passages):
        return
    lengths = np.minimum(texts.lengths, np.iinfo(np.uint16).max).astype("<u2")
    values = (store, texts.passages.astype("<i8").tobytes(), lengths.tobytes(), len(lengths), int(lengths.sum()))
    ((segment,),) = connection.execute(_MERGING_INSERT, values).fetchall()
    terms, starts, docs, codes = sorted_by_term(texts.hashes, texts.docs.astype("<i4"), texts.codes.astype("<u2"))
    columns = "postings(store, segment, term, docs, codes)"
    with (
        connection.cursor() as cursor,
        cursor.copy(composed(f"COPY {columns} FROM STDIN (FORMAT BINARY)")) as copy,
    ):
        copy.set_types(["int4", "int8", "int8", "bytea", "bytea"])
        for term, (start, end) in zip(terms.view(np.int64).tolist(), pairwise(starts.tolist()), strict=True):
            copy.write_row((store, segment, term, docs[start:end].tobytes(), codes[start:end].tobytes()))
