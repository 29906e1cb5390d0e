"""Searching: candidates by vector and by words, fused into one score."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devmem.collections.fusing import fuse
from devmem.collections.protocol import SearchQuery
from devmem.collections.sqlite.cache import SearchCache
from devmem.collections.sqlite.rows import fetch_items, where_sql
from devmem.collections.sqlite.writing import any_expired
from devmem.collections.vectors import Rows
from devmem.outcomes import Hit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidates:
    rows: Rows
    similarity: NDArray[np.float64]
    """NaN for a row without embedding."""
    lexical: NDArray[np.float64]

    def where(self, keep: NDArray[np.bool_]) -> _Candidates:
        return _Candidates(rows=self.rows[keep], similarity=self.similarity[keep], lexical=self.lexical[keep])


def search(connection: sqlite3.Connection, cache: SearchCache, query: SearchQuery, now: float) -> list[Hit]:
    """Give the best hits, best first; the connection is in the read transaction that the cache followed.

    `now` is in seconds since the epoch.
    """
    found = _candidates(cache, query, _allowed(connection, query, now))
    found = found.where(~(found.similarity < query.min_similarity))
    scores = fuse(found.similarity, found.lexical, query.weights)
    # The newer item comes first among equals.
    order = np.lexsort((-found.rows, -scores))[: query.limit]
    items = fetch_items(connection, [int(row) for row in found.rows[order]])
    return [
        Hit(
            item=items[int(found.rows[at])],
            score=float(scores[at]),
            similarity=None if np.isnan(found.similarity[at]) else float(found.similarity[at]),
            lexical=float(found.lexical[at]),
        )
        for at in order
    ]


def _allowed(connection: sqlite3.Connection, query: SearchQuery, now: float) -> Rows | None:
    """Give the rows that the filter lets through; None when all are."""
    if query.where.everything() and not any_expired(connection, now):
        return None
    condition, values = where_sql(query.where, now)
    found = connection.execute(f"SELECT row FROM items WHERE {condition} ORDER BY row", values).fetchall()
    return np.array([row for (row,) in found], dtype=np.int64)


def _candidates(cache: SearchCache, query: SearchQuery, allowed: Rows | None) -> _Candidates:
    """Join the best by each signal, every one of them with both signals."""
    limit = max(query.candidates, query.limit)
    by_words = cache.postings.top(query.text, limit, allowed)
    vectors = cache.vectors if query.vector is not None else None
    by_vector = np.empty(0, dtype=np.int64)
    if vectors is not None and query.vector is not None:
        by_vector = vectors.search(query.vector, limit, allowed)
    rows = np.union1d(by_words, by_vector)
    similarity = np.full(len(rows), np.nan)
    if vectors is not None and query.vector is not None:
        similarity = vectors.similarities(query.vector, rows)
    lexical = cache.postings.scores_of(query.text, rows)
    return _Candidates(rows=rows, similarity=similarity, lexical=lexical)
