"""Vectors that are kept in memory between searches: which, how many, and for whom."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from devmem.model.items import MemoryItem, Scope, Vector
from devmem.models import ModelIdentity
from devmem.search.indexes.columns import Rows
from devmem.search.pipeline import SearchPipeline
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection, Snapshot
from devmem.storage.postgres.schema import PASSAGE_BITS
from devmem.storage.postgres.server.term_texts import SEARCH_SETTINGS
from devmem.storage.postgres.server.vector_cache import MOST_DELETED, OVERHEAD, VectorCache, VectorCaches, cosines

FIRST = Snapshot.parse("5:5:", "server")
LATER = Snapshot.parse("9:9:", "server")
NOTHING = np.empty(0, dtype=np.int64)
DIMENSION = 32
SIZE = 900
"""More vectors than are read at once where none is in memory."""


def vectors(count: int, seed: int = 0, dimension: int = DIMENSION) -> Vector:
    found = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    lengths: Vector = np.linalg.norm(found, axis=1, keepdims=True)
    return found / lengths


def numbers(*of: int) -> Rows:
    return np.array(of, dtype=np.int64)


def test_what_is_kept_is_compared() -> None:
    cache, kept, query = VectorCache("store", FIRST), vectors(3), vectors(1, seed=1)[0]
    cache.keep(numbers(7, 9, 8), kept)
    cache.keep(numbers(8, 10), vectors(2, seed=2))
    found = cache.similarities(query, numbers(8, 5, 7))
    assert found[[0, 2]].tolist() == pytest.approx([float(kept[2] @ query), float(kept[0] @ query)], abs=1e-6)
    assert np.isnan(found[1])


def test_it_starts_again_when_there_are_too_many() -> None:
    cache, query = VectorCache("store", FIRST, most_bytes=100 * (4 * DIMENSION + OVERHEAD)), vectors(1)[0]
    for first in range(0, 240, 60):
        cache.keep(np.arange(first, first + 60), vectors(60))
    assert _kept(cache, query, 240) == list(range(180, 240))


@pytest.mark.parametrize(("most", "kept"), [(100, 100), (0, 0)])
def test_of_more_than_fit_as_many_are_kept_as_do(most: int, kept: int) -> None:
    """As of a search that looks at thousands of vectors of thousands of components."""
    cache, query = VectorCache("store", FIRST, most_bytes=most * (4 * DIMENSION + OVERHEAD)), vectors(1)[0]
    for _ in range(2):
        cache.keep(np.arange(240), vectors(240))
        assert _kept(cache, query, 240) == list(range(kept))


def test_short_vectors_take_no_more_memory_with_their_places() -> None:
    cache, size = VectorCache("store", FIRST, most_bytes=1 << 20), 5_000
    tracemalloc.start()
    try:
        for first in range(0, 10 * size, size):
            cache.keep(np.arange(first, first + size), np.ones((size, 2), dtype=np.float32))
        assert tracemalloc.get_traced_memory()[0] < 3 << 19
    finally:
        tracemalloc.stop()


def _kept(cache: VectorCache, query: Vector, count: int) -> list[int]:
    found = cache.similarities(query, np.arange(count))
    return [at for at, near in enumerate(found.tolist()) if not math.isnan(near)]


def test_only_what_is_asked_for_again_was_compared() -> None:
    cache = VectorCache("store", FIRST)
    assert not cache.were_compared(np.arange(0, 400)).any()
    assert cache.were_compared(np.arange(300, 500)).tolist() == [True] * 100 + [False] * 100


@pytest.mark.parametrize("dimension", [1, 33, 384, 9_000])
def test_equal_vectors_are_equally_near_whatever_they_are_compared_with(dimension: int) -> None:
    """Otherwise equal items would be ordered by chance."""
    some, (query,) = vectors(50, dimension=dimension), vectors(1, seed=3, dimension=dimension)
    alone = [float(cosines(one[np.newaxis], query)[0]) for one in some]
    assert cosines(some, query).tolist() == alone
    assert cosines(some[7:], query).tolist() == alone[7:]


def test_a_search_of_an_earlier_moment_keeps_nothing_for_later_ones() -> None:
    """It would keep what was deleted in between, which nobody would be told of any more."""
    caches = VectorCaches()
    caches.of(None, "store", LATER, 0, NOTHING)
    shared = caches.current
    assert caches.of(shared, "store", FIRST, 0, NOTHING) is None
    earlier = caches.of(None, "store", FIRST, 0, NOTHING)
    assert earlier is not None
    assert shared is not None
    assert earlier.cache is not shared.cache
    assert caches.current is shared


def test_deletions_are_asked_for_once() -> None:
    """Each search would read all changes since the cache was made otherwise, however long ago that was."""
    caches, (query,), (vector,) = VectorCaches(), vectors(1), vectors(1, seed=1)
    rows = numbers(7, 8, 9)
    first = caches.of(None, "store", FIRST, 0, NOTHING)
    assert first is not None
    first.cache.keep(rows << PASSAGE_BITS, np.tile(vector, (3, 1)))
    caches.of(first, "store", LATER, 0, rows[1:2])
    latest = caches.of(caches.current, "store", Snapshot.parse("12:12:", "server"), 8, rows[:1])
    assert latest is not None
    assert latest is caches.current
    assert latest.seen.xmin == 12
    assert np.isnan(latest.similarities(query, rows << PASSAGE_BITS)).tolist() == [True, True, False]
    # A search that began before the last one does not take back what that was told of.
    between = caches.of(latest, "store", LATER, 0, NOTHING)
    assert between is caches.current is latest


@pytest.mark.parametrize(
    ("generation", "floor", "deleted"),
    [("another", 0, 0), ("store", 5, 0), ("store", 0, MOST_DELETED + 1)],
    ids=["other contents", "forgotten deletions", "many deletions"],
)
def test_it_starts_again_where_deletions_are_not_known(generation: str, floor: int, deleted: int) -> None:
    caches = VectorCaches()
    first = caches.of(None, "store", FIRST, 0, NOTHING)
    assert first is not None
    first.cache.keep(numbers(7), vectors(1))
    known = caches.of(first, generation, LATER, floor, np.arange(deleted))
    assert known is not None
    assert known is caches.current
    assert known.cache is not first.cache
    assert np.isnan(known.similarities(vectors(1)[0], numbers(7))).all()


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresCollection]:
    with closing(_open(store_url)) as collection:
        collection.add(
            [
                MemoryItem(id=str(at), content_summary=f"note {at}", embedding=vector, scope=Scope(user="ann"))
                for at, vector in enumerate(vectors(SIZE))
            ]
        )
        collection.maintain()
        yield collection


def _open(url: str) -> PostgresCollection:
    return PostgresCollection(f"{url}&mode=server", model=ModelIdentity(name="of the test", dimension=DIMENSION))


def _found(collection: PostgresCollection, query: Vector) -> list[tuple[str, float]]:
    found = collection.search(SearchQuery(vector=query, limit=20, candidates=300, now=2e9))
    return [(hit.item.id, hit.similarity or 0.0) for hit in found]


def _looked_at(collection: PostgresCollection, query: Vector) -> tuple[int, list[str]]:
    """Return the number of candidates and the hits."""
    report = collection.find(SearchQuery(vector=query, limit=20, candidates=300, now=2e9))
    return report.candidates, [hit.item.id for hit in report.hits]


def test_a_search_finds_the_same_whoever_compares(store: PostgresCollection) -> None:
    """The server at first, this process when most of the vectors are in memory."""
    for query in vectors(3, seed=4):
        rounds = [_found(store, query) for _ in range(4)]
        for later in rounds[1:]:
            assert [item for item, _ in later] == [item for item, _ in rounds[0]]
            assert [near for _, near in later] == pytest.approx([near for _, near in rounds[0]], abs=1e-6)
        assert rounds[2] == rounds[3]


def test_what_another_process_deletes_is_not_looked_at_any_more(store: PostgresCollection, store_url: str) -> None:
    query = vectors(1, seed=5)[0]
    gone = [item for item, _ in [_found(store, query) for _ in range(4)][-1][:5]]
    with closing(_open(store_url)) as other:
        other.delete(ids=gone)
        for _ in range(2):
            assert _looked_at(store, query) == _looked_at(other, query)
        other.add([MemoryItem(id=gone[0], content_summary="again", embedding=query, scope=Scope(user="ann"))])
        assert _found(store, query)[0][0] == gone[0]


def test_what_was_deleted_and_forgotten_is_not_looked_at(store: PostgresCollection, store_url: str) -> None:
    """As by a process that did not search for days: the changes that it missed are not recorded any more."""
    query = vectors(1, seed=6)[0]
    gone = [item for item, _ in [_found(store, query) for _ in range(4)][-1][:5]]
    with closing(_open(store_url)) as other:
        other.delete(ids=gone)
        store._write(
            lambda connection: connection.execute(
                "WITH old AS (DELETE FROM changes WHERE store = %(store)s RETURNING xact) UPDATE stores "
                "SET changes_floor = GREATEST(changes_floor, (SELECT max(xact) FROM old)) WHERE store = %(store)s",
                {"store": store._store},
            )
        )
        assert _looked_at(store, query) == _looked_at(other, query)


def test_a_search_looks_at_nothing_that_was_committed_after_it_began(store: PostgresCollection) -> None:
    """Of which other searches may have put the code and the vector into the memory that they share."""
    query = vectors(1, seed=7)[0]
    before = [_looked_at(store, query) for _ in range(4)][-1]
    later = [
        MemoryItem(id=f"later {at}", content_summary="later", embedding=query, scope=Scope(user="ann"))
        for at in range(10)
    ]

    def search(connection: Connection) -> tuple[int, list[str]]:
        connection.execute("SELECT 1").fetchall()
        asked = SearchQuery(vector=query, limit=20, candidates=300, now=2e9)
        store.add(later)
        store.maintain()
        assert [_looked_at(store, query) for _ in range(4)][-1][1][0].startswith("later")
        source = store._searcher.source(connection, asked, "of the test", 2e9)
        report = SearchPipeline(source, asked, 2e9).run()
        return report.candidates, [hit.item.id for hit in report.hits]

    assert store._database.read_pipelined(search, SEARCH_SETTINGS) == before
