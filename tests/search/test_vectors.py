"""The approximate index finds what the exact one finds, whatever is written while it is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from devmem.config import IndexConfig
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.vectors import VectorIndex
from devmem.stores import Vector
from tests.generated import examples

DIMENSION = 50
ROUNDING = 5e-3
"""Error of a similarity of vectors of a byte a component."""
APPROXIMATE = IndexConfig(search="approximate")
EXACT = IndexConfig(search="exact")


def unit(vectors: NDArray[np.floating[Any]]) -> Vector:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def clustered(count: int, seed: int = 0, dimension: int = DIMENSION) -> Vector:
    """Noisy mixtures of two of a hundred centres."""
    centres = unit(np.random.default_rng(0).standard_normal((100, dimension)))
    chance = np.random.default_rng([seed, 1])
    one, other = chance.integers(0, 100, size=(2, count))
    share = chance.uniform(0.3, 1, size=(count, 1))
    noise = 0.5 * chance.standard_normal((count, dimension)) / np.sqrt(dimension)
    return unit(np.asarray(share * centres[one] + (1 - share) * centres[other] + noise, dtype=np.float32))


def numbered(start: int, stop: int) -> Rows:
    return np.arange(start, stop, dtype=np.int64)


def filled(count: int, config: IndexConfig = APPROXIMATE, **options: Any) -> tuple[VectorIndex, Vector]:
    """Make an index of which row n is vector n."""
    vectors = clustered(count)
    index = VectorIndex(DIMENSION, config, **options)
    index.add(numbered(0, count), vectors)
    return index, vectors


def recall(index: VectorIndex, vectors: Vector, allowed: Rows | None = None, *, limit: int = 10) -> float:
    """Share of the nearest rows, of which all that are not NaN are in the index, that the index finds.

    Rows that are as near as the last of them, but for the rounding to bytes, count too.
    """
    queries = clustered(40, seed=9)
    rows = numbered(0, len(vectors)) if allowed is None else allowed
    rows = rows[~np.isnan(vectors[rows, 0])]
    reader, shares = index.reader(), []
    for query in queries:
        found = reader.nearest(query, limit, allowed)[0]
        wanted = rows[np.argsort(-(vectors[rows] @ query))[:limit]]
        assert len(found) == len(set(found.tolist())) == len(wanted)
        assert np.isin(found, rows).all()
        assert (np.diff(vectors[found] @ query) <= 2 * ROUNDING).all(), "best first, but for the rounding to bytes"
        shares.append((vectors[found] @ query >= vectors[wanted[-1]] @ query - ROUNDING).mean())
    return float(np.mean(shares))


def nearest(index: VectorIndex, query: Vector, limit: int, allowed: Rows | None = None) -> Rows:
    return index.reader().nearest(query, limit, allowed)[0]


class Held(Executor):
    """Runs nothing before it is told to."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, lambda: fn(*args, **kwargs)))
        return future

    def release(self) -> None:
        for future, work in self.work:
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - as every executor does
                future.set_exception(error)
        self.work = []


@pytest.fixture
def held() -> Held:
    return Held()


def test_recall_of_many() -> None:
    """Of vectors that lie close to each other, more candidates are compared than of others."""
    index, vectors = filled(30_000)
    index.wait_for_build()
    assert recall(index, vectors, limit=200) >= 0.98
    assert recall(index, vectors, limit=600) >= 0.98
    index.remove(gone := numbered(0, 300))
    vectors[gone] = np.nan
    assert recall(index, vectors, limit=200) >= 0.98


@settings(deadline=None, max_examples=examples(6))
@given(
    dimension=st.sampled_from([2, 7, 64, 384]),
    others=st.tuples(st.integers(256, 1500), st.integers(256, 1500)),
    axes=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_similarity_is_that_of_the_vectors_but_for_the_rounding(
    dimension: int, others: tuple[int, int], axes: bool, seed: int
) -> None:
    """Whatever lies beside the vector, when it was added, and whether the index is approximate."""
    chance = np.random.default_rng(seed)

    def drawn(count: int) -> Vector:
        return unit(chance.standard_normal((count, dimension)).astype(np.float32))

    shared, queries, found = drawn(300), drawn(5), list[NDArray[np.float64]]()
    for count, first in ((others[0], True), (others[1], False)):
        beside = np.concatenate([drawn(count), np.eye(dimension, dtype=np.float32)]) if axes == first else drawn(count)
        index, rows = VectorIndex(dimension, APPROXIMATE), numbered(1000, 1000 + len(beside))
        for added in ((numbered(0, 300), shared), (rows, beside))[:: 1 if first else -1]:
            index.add(*added)
        index.wait_for_build()
        found.append(np.array([index.reader().similarities(query, numbered(0, 300)) for query in queries]))
    for each in found:
        np.testing.assert_allclose(each, queries @ shared.T, atol=2e-2)


def test_vectors_are_rounded_once() -> None:
    """An index that is built out of another one, or restored, keeps its vectors to the last bit."""
    index, vectors = filled(4000)
    index.wait_for_build()
    rows = numbered(0, 4000)
    before = index.reader().gather(rows)
    restored = restored_from(index, dict(enumerate(vectors)))
    for again in (index, restored):
        again.add(numbered(4000, 6000), vectors[:2000])
        again.wait_for_build()
        assert len(again) == 6000
        np.testing.assert_array_equal(again.reader().gather(rows), before)


@pytest.mark.parametrize(
    ("dimension", "approximate"), [(1, False), (3, False), (33, True), (34, True), (700, True), (1536, True)]
)
def test_any_dimension(dimension: int, approximate: bool) -> None:
    """Of few components the codes say too little, and all vectors are compared."""
    vectors = clustered(5000, dimension=dimension)
    index = VectorIndex(dimension, APPROXIMATE)
    index.add(numbered(0, 5000), vectors)
    index.wait_for_build()
    for query in clustered(20, seed=4, dimension=dimension):
        wanted = np.sort(vectors @ query)[::-1][:10]
        assert (vectors[nearest(index, query, 10)] @ query).tolist() == pytest.approx(wanted.tolist(), abs=1e-2)
    assert index.approximate == approximate


def test_when_it_is_made() -> None:
    """From the configured number on, when it is searched, and never when an exact search is wanted."""
    config = IndexConfig(approximate_from=3000)
    below, _ = filled(2999, config)
    below.wait_for_build()
    assert not below.approximate
    unsearched, _ = filled(3000, config)
    assert not unsearched.approximate
    unsearched.wait_for_build()
    assert unsearched.approximate
    exact, vectors = filled(3000, EXACT)
    exact.wait_for_build()
    assert not exact.approximate
    assert recall(exact, vectors) == 1


@pytest.mark.parametrize("share", [0.001, 0.02, 0.1, 0.2, 0.5, 0.9, 1.0])
def test_filters(share: float) -> None:
    index, vectors = filled(24_000)
    index.wait_for_build()
    chance = np.random.default_rng(2)
    allowed = np.sort(chance.choice(24_000, int(24_000 * share), replace=False))
    assert recall(index, vectors, allowed) >= 0.98


def test_a_filter_that_leaves_only_what_is_far_from_the_query() -> None:
    """Too few of the best codes are allowed: the search becomes exact instead of finding too little."""
    index, vectors = filled(20_000)
    index.wait_for_build()
    query = clustered(1, seed=9)[0]
    far = np.sort(np.argsort(vectors @ query)[:8000])
    found = nearest(index, query, 10, far)
    assert np.isin(found, far).all()
    wanted = np.sort(vectors[far] @ query)[::-1][:10]
    assert (vectors[found] @ query).tolist() == pytest.approx(wanted.tolist(), abs=8e-3)


def test_writes_and_deletions_while_it_is_made(held: Held) -> None:
    """They are found before and after it takes over, and searching never waits for it."""
    index, vectors = filled(6000, executor=lambda: held)
    assert recall(index, vectors) >= 0.98, "all are compared until it is ready"
    index.add(numbered(6000, 6500), more := clustered(500, seed=5))
    index.remove(gone := numbered(5900, 6100))
    vectors = np.concatenate([vectors, more])
    vectors[gone] = np.nan
    assert not index.approximate
    assert recall(index, vectors) >= 0.98
    held.release()
    assert recall(index, vectors) >= 0.98
    assert index.approximate
    assert len(index) == 6300
    found = index.reader().similarities(vectors[6200], numbered(6200, 6201))
    assert found.tolist() == pytest.approx([1.0], abs=8e-3)


def test_a_failure_while_it_is_made(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    """It is reported, the search stays exact, and it is tried again with twice as many."""
    index, vectors = filled(2000, executor=lambda: held)
    nearest(index, vectors[0], 1)
    future, _ = held.work.pop()
    future.set_exception(MemoryError("no room"))
    assert recall(index, vectors) >= 0.98
    assert "no room" in caplog.text
    assert not held.work
    index.add(numbered(2000, 4000), more := clustered(2000, seed=7))
    vectors = np.concatenate([vectors, more])
    assert recall(index, vectors) >= 0.98
    held.release()
    assert recall(index, vectors) >= 0.98
    assert index.approximate


def test_vectors_that_codes_do_not_tell_apart(caplog: pytest.LogCaptureFixture) -> None:
    """An index that would find too little is not taken."""
    same = unit(np.ones((1, 520), dtype=np.float32))
    noise = np.random.default_rng(8).standard_normal((30_000, 520)).astype(np.float32)
    vectors = unit(same + 1e-2 * noise)
    index = VectorIndex(520, APPROXIMATE)
    index.add(numbered(0, len(vectors)), vectors)
    index.wait_for_build()
    assert not index.approximate
    assert "all are compared" in caplog.text


def test_closing_while_it_is_made(held: Held) -> None:
    index, vectors = filled(2000, executor=lambda: held)
    nearest(index, vectors[0], 1)
    future, _ = held.work[0]
    index.close()
    assert future.cancelled()
    assert recall(index, vectors) >= 0.98


def restored_from(index: VectorIndex, vectors: dict[int, Vector], config: IndexConfig = APPROXIMATE) -> VectorIndex:
    """Restore an index and add the vectors that its parts leave to the database."""
    parts = index.parts()
    restored = VectorIndex.restore(parts, config) if parts else VectorIndex(DIMENSION, config)
    rows = np.array(sorted(vectors), dtype=np.int64)
    if len(missing := rows[~restored.contains(rows)]):
        restored.add(missing, np.stack([vectors[row] for row in missing.tolist()]))
    return restored


@settings(deadline=None, max_examples=examples(8))
@given(
    steps=st.lists(st.tuples(st.sampled_from(["add", "remove", "build", "restore"]), st.integers(1, 1500)), max_size=8),
    seed=st.integers(0, 2**32 - 1),
    config=st.sampled_from([APPROXIMATE, EXACT]),
)
def test_any_order_of_work(steps: list[tuple[str, int]], seed: int, config: IndexConfig) -> None:
    """After any of it the index holds the rows that it should, and finds each by its own vector, filtered or not."""
    chance = np.random.default_rng(seed)
    index, kept = VectorIndex(DIMENSION, config), dict[int, Vector]()
    following = 0
    for step, count in [("add", 2000), *steps]:
        match step:
            case "add":
                vectors = unit(chance.standard_normal((count, DIMENSION)).astype(np.float32))
                index.add(numbered(following, following + count), vectors)
                kept |= {following + at: vector for at, vector in enumerate(vectors)}
                following += count
            case "remove":
                gone = chance.integers(0, following, size=count)
                index.remove(gone)
                kept = {row: vector for row, vector in kept.items() if row not in set(gone.tolist())}
            case "build":
                index.wait_for_build()
            case _:
                index = restored_from(index, kept, config)
        assert len(index) == len(kept)
        assert index.contains(numbered(0, following)).tolist() == [row in kept for row in range(following)]
        for row in list(kept)[:: max(1, len(kept) // 5)]:
            assert nearest(index, kept[row], 1).tolist() == [row]
            allowed = numbered(row, row + 400)
            there = np.array([one for one in allowed.tolist() if one in kept])
            by_hand = there[np.argsort([-(kept[one] @ kept[row]) for one in there.tolist()])][:5]
            found = nearest(index, kept[row], 5, allowed)
            near = [float(kept[one] @ kept[row]) for one in found.tolist()]
            assert near == pytest.approx([float(kept[one] @ kept[row]) for one in by_hand.tolist()], abs=2 * ROUNDING)
    index.close()


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
