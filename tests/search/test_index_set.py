"""The indexes of a collection together: any order of additions, expiry, vectors that cannot be used, snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.config import IndexConfig
from devmem.search.indexes.doc_values import STRING_COLUMNS, DocEntry
from devmem.search.indexes.index_set import IndexReader, IndexSet, SnapshotState, load_indexes, save_snapshot
from devmem.search.indexes.scoring import encode_terms
from devmem.stores import Vector
from devmem.text.query_text import QueryText

DIMENSION = 8
WORDS = ("rain", "train", "oolong", "tax", "harbour", "violin")


@dataclass(frozen=True)
class Item:
    row: int
    passages: tuple[int, ...]
    text: str
    vector: Vector


def unit(seed: int) -> Vector:
    vector = np.random.default_rng(seed).standard_normal(DIMENSION)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)


def made(count: int, seed: int = 0) -> list[Item]:
    """Make items of one to three passages, the same for the same seed."""
    chance = Random(seed)
    items, passage = [], 0
    for row in range(1, count + 1):
        numbers = tuple(passage + at + 1 for at in range(chance.choice((1, 1, 2, 3))))
        passage = numbers[-1]
        items.append(Item(row, numbers, " ".join(chance.choices(WORDS, k=5)), unit(row)))
    return items


def add(indexes: IndexSet, items: list[Item]) -> None:
    indexes.add_items([DocEntry(item.row, strings=("c",) * len(STRING_COLUMNS)) for item in items])
    numbers = [(passage, item) for item in items for passage in item.passages]
    terms = [encode_terms(item.text) for _, item in numbers]
    indexes.add_passages([passage for passage, _ in numbers], [item.row for _, item in numbers], terms)
    vectors = np.array([item.vector for _, item in numbers])
    indexes.add_vectors(np.array([passage for passage, _ in numbers], dtype=np.int64), vectors)


def seen(reader: IndexReader, items: list[Item]) -> list[object]:
    """Return everything that a search reads of the items."""
    rows = np.array([item.row for item in items], dtype=np.int64)
    passages, owner = reader.passage_map.passages_of(rows)
    assert reader.vectors is not None
    steps = reader.doc_values.around(reader.doc_values.positions(rows), 1)
    around = [np.where(step >= 0, reader.doc_values.rows(step), -1).tolist() for step in steps]
    words = reader.postings.query(QueryText("rain oolong"))
    return [
        passages.tolist(),
        owner.tolist(),
        reader.passage_map.rows_of(passages).tolist(),
        words.scores_of(passages).tolist(),
        sorted(words.top(1000).tolist()),
        reader.vectors.gather(passages).tolist(),
        sorted(reader.vectors.nearest(unit(99), 1000)[0].tolist()),
        around,
    ]


@given(batches=st.lists(st.integers(1, 9), min_size=1, max_size=6), order=st.randoms(use_true_random=False))
def test_the_order_of_additions_does_not_matter(batches: list[int], order: Random) -> None:
    """Row numbers need not become visible in order: what a search reads is the same."""
    items = made(sum(batches))
    ordered, shuffled = IndexSet(), IndexSet()
    add(ordered, items)
    mixed = list(items)
    order.shuffle(mixed)
    for size in batches:
        batch, mixed = mixed[:size], mixed[size:]
        add(shuffled, batch)
    assert seen(shuffled.reader(), items) == seen(ordered.reader(), items)
    gone = np.array([item.row for item in items[::3]], dtype=np.int64)
    for indexes in (ordered, shuffled):
        indexes.remove(gone)
    left = [item for item in items if item.row not in gone]
    restored = IndexSet.restore(shuffled.parts())
    assert restored.passages_without_vector().tolist() == sorted(each for item in left for each in item.passages)
    vectors = [(passage, item.vector) for item in left for passage in item.passages]
    if vectors:
        restored.add_vectors(np.array([one for one, _ in vectors]), np.array([one for _, one in vectors]))
        assert seen(shuffled.reader(), left) == seen(restored.reader(), left)


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(1, 6)), max_size=8))
def test_a_reader_shows_its_moment_for_ever(steps: list[tuple[bool, int]]) -> None:
    """Whatever is added and removed afterwards."""
    items, indexes = made(60), IndexSet()
    add(indexes, items[:10])
    there, following = items[:10], 10
    moments = [(indexes.reader(), there, seen(indexes.reader(), there))]
    for adds, count in steps:
        if adds:
            add(indexes, items[following : following + count])
            there = [*there, *items[following : following + count]]
            following += count
        else:
            indexes.remove(np.array([item.row for item in there[:count]], dtype=np.int64))
            there = there[count:]
        moments.append((indexes.reader(), there, seen(indexes.reader(), there)))
    for reader, left, before in moments:
        assert seen(reader, left) == before


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30, 100.0, 0.0])
def test_a_vector_that_is_not_of_unit_length_is_left_out(bad: float, caplog: pytest.LogCaptureFixture) -> None:
    """It would rank first for everything, or abort the process; its item counts as one without an embedding."""
    items, indexes = made(3), IndexSet()
    vectors = np.array([item.vector for item in items])
    vectors[1] *= bad
    indexes.add_items([DocEntry(item.row) for item in items])
    indexes.add_passages([1, 2, 3], [1, 2, 3], [encode_terms(item.text) for item in items])
    indexes.add_vectors(np.array([1, 2, 3]), vectors)
    assert "1 embeddings are not finite or not of unit length" in caplog.text
    reader = indexes.reader().vectors
    assert reader is not None
    assert reader.contains(np.array([1, 2, 3])).tolist() == [True, False, True]
    assert indexes.passages_without_vector(np.array([1, 2, 3])).tolist() == [2]
    indexes.add_vectors(np.array([2]), items[1].vector[np.newaxis])
    assert indexes.passages_without_vector(np.array([1, 2, 3])).tolist() == []


def test_a_large_snapshot_is_shared_by_processes_and_outlives_its_file(tmp_path: Path) -> None:
    """Replacing or removing the file, as saving and erasing do, changes nothing for those who have opened it."""
    path, config = tmp_path / "store.db.faiss", IndexConfig(search="approximate")
    state = SnapshotState(token="now", watermarks={}, expired_until=0.0)
    vectors = np.random.default_rng(1).standard_normal((3000, 384), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    indexes, rows = IndexSet(config), list(range(1, 3001))
    indexes.add_items([DocEntry(row) for row in rows])
    indexes.add_passages(rows, rows, [encode_terms(f"rain {row % 50}") for row in rows])
    indexes.add_vectors(np.array(rows), vectors)
    indexes.wait_for_build()
    assert indexes.approximate
    assert save_snapshot(path, indexes.parts(), state)

    def answers(indexes: IndexSet) -> list[list[float]]:
        reader = indexes.reader()
        assert reader.vectors is not None
        words = reader.postings.query(QueryText("rain 7")).top(20).tolist()
        return [words, *(each.tolist() for each in reader.vectors.nearest(vectors[5], 20))]

    loaded = load_indexes(path, config, lambda found: found == state)
    assert loaded is not None
    assert str(path) in Path("/proc/self/maps").read_text()
    before = answers(loaded[0])
    assert before == answers(indexes)
    assert save_snapshot(path, IndexSet().parts(), state)
    assert answers(loaded[0]) == before
    path.unlink()
    loaded[0].add_items([DocEntry(4000)])
    loaded[0].remove(np.array([1, 2, 3]))
    assert answers(loaded[0])[1][0] == 6
