"""The vector index gives what a plain product gives."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.config import IndexConfig
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.vectors import VectorIndex
from devmem.stores import Vector

DIMENSION = 12
EXACT = IndexConfig(search="exact")


def unit(chance: np.random.Generator, count: int) -> Vector:
    rows = chance.standard_normal((count, DIMENSION)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def nearest(index: VectorIndex, query: Vector, limit: int, allowed: Rows | None = None) -> Rows:
    return index.reader().nearest(query, limit, allowed)[0]


class Naive:
    """Rows and vectors in a dict."""

    def __init__(self) -> None:
        self.vectors: dict[int, Vector] = {}

    def search(self, query: Vector, limit: int, allowed: set[int] | None = None) -> list[float]:
        rows = [row for row in self.vectors if allowed is None or row in allowed]
        return sorted((float(self.vectors[row] @ query) for row in rows), reverse=True)[:limit]


def check(index: VectorIndex, naive: Naive, query: Vector, limit: int, allowed: set[int] | None = None) -> None:
    rows = None if allowed is None else np.array(sorted(allowed), dtype=np.int64)
    found = nearest(index, query, limit, rows).tolist()
    assert len(found) == len(set(found))
    assert [float(naive.vectors[row] @ query) for row in found] == pytest.approx(
        naive.search(query, limit, allowed), abs=1e-5
    )


@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=8),
    limit=st.integers(1, 20),
    seed=st.integers(0, 2**32 - 1),
)
def test_adding_and_removing(steps: list[tuple[bool, int]], limit: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    index, naive, following = VectorIndex(DIMENSION, EXACT), Naive(), 1
    for adds, count in steps:
        if adds:
            rows = np.arange(following, following + count, dtype=np.int64) * 3
            vectors = unit(chance, count)
            index.add(rows, vectors)
            naive.vectors |= dict(zip(rows.tolist(), vectors, strict=True))
            following += count
        else:
            gone = chance.integers(0, 3 * following, size=count)
            index.remove(gone)
            for row in gone.tolist():
                naive.vectors.pop(row, None)
        query = unit(chance, 1)[0]
        assert len(index) == len(naive.vectors)
        check(index, naive, query, limit)
        check(index, naive, query, limit, set(chance.integers(0, 3 * following + 3, size=20).tolist()))


def test_a_filtered_search_leaves_the_other_processors_alone() -> None:
    """Threads of BLAS take as much time again, and wait actively for the next product."""
    count, dimension = 1_900, 384
    vectors = np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = VectorIndex(dimension, EXACT)
    index.add(np.arange(count), vectors)
    reader, allowed = index.reader(), np.arange(1, count)
    found, near = reader.nearest(vectors[5], 3, allowed)
    expected = np.sort(np.einsum("ij,j->i", vectors[1:], vectors[5]))[::-1][:3]
    assert found[0] == 5
    assert near == pytest.approx(expected, abs=1e-5)
    assert reader.similarities(vectors[5], found) == pytest.approx(expected, abs=1e-5)
    own, whole = time.thread_time(), time.process_time()
    for _ in range(1_000):
        reader.nearest(vectors[5], 3, allowed)
    own, whole = time.thread_time() - own, time.process_time() - whole
    assert whole < own * 1.4
