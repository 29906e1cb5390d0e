"""Doc values, and the indexes of a collection together: any order of additions, unusable vectors, snapshots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.config import IndexConfig
from devmem.search.indexes.columns import Rows
from devmem.search.indexes.doc_values import STRING_COLUMNS, ConditionCache, DocEntry, DocValues
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


ENTRIES = st.builds(
    DocEntry,
    row=st.just(0),
    strings=st.tuples(*[st.none() | st.sampled_from(["a", "b", "", "李四"])] * len(STRING_COLUMNS)),
    cues=st.integers(0, 3),
    length=st.integers(0, 2000),
    time=st.floats(0, 4e9),
    importance=st.none() | st.floats(0, 1, width=32),
    trust=st.floats(0, 1),
    expires_at=st.none() | st.floats(0, 100),
)


@dataclass(frozen=True)
class Add:
    entries: list[DocEntry]
    order: int
    """Seed of the order in which rows are given: higher ones may come first."""


@dataclass(frozen=True)
class Remove:
    rows: list[int]


@dataclass(frozen=True)
class Reopen:
    """The snapshot is written and read."""


Operation = Add | Remove | Reopen
OPERATIONS = st.lists(
    st.builds(Add, st.lists(ENTRIES, max_size=5), st.integers(0, 99))
    | st.lists(st.integers(1, 40), max_size=4, unique=True).map(Remove)
    | st.just(Reopen()),
    max_size=12,
)


def text(entry: DocEntry, column: str) -> str | None:
    return entry.strings[STRING_COLUMNS.index(column)]


def conversation_of(entry: DocEntry) -> tuple[str | None, ...] | None:
    conversation, session = text(entry, "conversation"), text(entry, "session")
    if conversation is None and session is None:
        return None
    return conversation, session, text(entry, "agent"), text(entry, "user")


class Thrifty(DocValues):
    """Frees room at once."""

    least_removed = 0


def applied(
    operations: list[Operation], kind: type[DocValues] = Thrifty
) -> tuple[DocValues, list[DocEntry], list[tuple[DocValues, list[DocEntry]]]]:
    """Return the doc values, what a plain list has, and the same for a view of each moment."""
    doc_values, plain, views = kind(), list[DocEntry](), []
    free = list(range(40, 0, -1))
    for operation in operations:
        views.append((doc_values.view(), list(plain)))
        if isinstance(operation, Add):
            chance = np.random.default_rng(operation.order)
            entries = []
            for entry in operation.entries[: len(free)]:
                # Mostly the next row, sometimes a later one, so that a lower one comes after it.
                entries.append(entry._replace(row=free.pop(-1 - int(chance.integers(0, min(3, len(free)))))))
            doc_values.add(entries)
            plain = sorted([*plain, *entries], key=lambda entry: entry.row)
        elif isinstance(operation, Remove):
            doc_values.remove(operation.rows)
            plain = [entry for entry in plain if entry.row not in operation.rows]
        else:
            doc_values = kind.restore(doc_values.parts())
    return doc_values, plain, [*views, (doc_values, plain)]


def rows_of(plain: list[DocEntry]) -> np.ndarray:
    return np.array([entry.row for entry in plain], dtype=np.int64)


@given(operations=OPERATIONS, kind=st.sampled_from([DocValues, Thrifty]))
def test_the_columns_are_those_of_a_list(operations: list[Operation], kind: type[DocValues]) -> None:
    """At every moment that a view was taken of, whatever was changed since, and whatever order rows came in."""
    for doc_values, plain in applied(operations, kind)[2]:
        places = doc_values.positions(np.arange(42))
        assert [row for row in range(42) if places[row] >= 0] == [entry.row for entry in plain]
        assert len(doc_values) == len(plain) == np.count_nonzero(doc_values.live)
        kept = doc_values.positions(rows_of(plain))
        assert doc_values.rows(kept).tolist() == [entry.row for entry in plain]
        assert doc_values.strings("user", kept) == [text(entry, "user") for entry in plain]
        last = doc_values.last_with_cues(2, 3)
        times = sorted(entry.time for entry in plain if entry.cues & 2)
        assert doc_values.column("time")[last].tolist() == times[-3:]
        assert (doc_values.column("cues")[last] & 2).all()
        assert doc_values.strings("speaker", kept) == [text(entry, "speaker") for entry in plain]
        for name in ("time", "length", "cues", "trust"):
            assert doc_values.column(name)[kept].tolist() == [getattr(entry, name) for entry in plain]
        assert doc_values.column("importance")[kept].tolist() == [entry.importance or 0.0 for entry in plain]
        for name in STRING_COLUMNS:
            for value in ("a", "李四", "", None, "never seen"):
                found = doc_values.equal(name, value)[kept].tolist()
                assert found == [text(entry, name) == value for entry in plain]
        threads = doc_values.column("thread")[kept].tolist()
        by_name = dict(zip(map(conversation_of, plain), threads, strict=True))
        assert [by_name[conversation_of(entry)] for entry in plain] == threads
        assert len(set(by_name.values())) == len(by_name)
        assert all((number == 0) == (name is None) for name, number in by_name.items())


@given(operations=OPERATIONS, now=st.floats(0, 100))
def test_what_expired(operations: list[Operation], now: float) -> None:
    doc_values, plain, _ = applied(operations)
    expired = {entry.row: entry.expires_at for entry in plain if entry.expires_at is not None}
    rows, times = doc_values.expired(now)
    assert dict(zip(rows.tolist(), times.tolist(), strict=True)) == {
        row: time for row, time in expired.items() if time <= now
    }
    assert doc_values.next_expiry <= min(expired.values(), default=float("inf"))
    doc_values.find_next_expiry()
    assert doc_values.next_expiry == min(expired.values(), default=float("inf"))


def neighbours(doc_values: DocValues, plain: list[DocEntry], visible: np.ndarray | None) -> list[list[int | None]]:
    """Return two rows before and two after each visible item, as the doc values know them."""
    steps = doc_values.around(doc_values.positions(rows_of(plain)), 2, visible)
    return [
        [int(doc_values.rows(step[at : at + 1])[0]) if step[at] >= 0 else None for step in steps]
        for at in range(len(plain))
    ]


def neighbours_in(plain: list[DocEntry]) -> list[list[int | None]]:
    found: list[list[int | None]] = []
    for entry in plain:
        name = conversation_of(entry)
        same = [other.row for other in plain if conversation_of(other) == name] if name else [entry.row]
        place = same.index(entry.row)
        padded = [None, None, *same, None, None]
        found.append([padded[place + 1], padded[place], padded[place + 3], padded[place + 4]])
    return found


@given(operations=OPERATIONS, kind=st.sampled_from([DocValues, Thrifty]), hidden=st.sets(st.integers(1, 40)))
def test_neighbours_are_those_of_a_list(operations: list[Operation], kind: type[DocValues], hidden: set[int]) -> None:
    """A deleted item, or one that a filter hides, leaves its place to the next; each view keeps those of its moment."""
    for doc_values, plain in applied(operations, kind)[2]:
        assert neighbours(doc_values, plain, None) == neighbours_in(plain)
        visible = np.ones(len(doc_values.live), dtype=np.bool_)
        gone = doc_values.positions(np.array(sorted(hidden), dtype=np.int64))
        visible[gone[gone >= 0]] = False
        left = [entry for entry in plain if entry.row not in hidden]
        assert neighbours(doc_values, left, visible) == neighbours_in(left)


@given(st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 1), st.sets(st.integers(0, 40))), max_size=8))
def test_a_condition_is_answered_as_the_database_does(searches: list[tuple[int, int, set[int]]]) -> None:
    """Rows become visible in any order, and a restored database has other items in the same rows."""
    cache = ConditionCache(most_rows=50)
    for number, generation, rows in searches:
        found = cache.at(generation)(
            str(number), np.array(list(rows)[::-1], dtype=np.int64), matching(number, generation)
        )
        assert sorted(found.tolist()) == sorted(row for row in rows if row % number == generation)


def matching(number: int, rest: int) -> Callable[[Rows], Rows]:
    return lambda rows: rows[rows % number == rest]


def test_room_is_given_back() -> None:
    doc_values = DocValues()
    for start in range(0, 100_000, 100):
        strings = ("a",) * len(STRING_COLUMNS)
        doc_values.add([DocEntry(row, strings=strings) for row in range(start + 1, start + 101)])
        doc_values.remove(range(start - 99, start + 1))
    assert sum(part.nbytes for part in doc_values.parts().values()) < 200_000
    newest = doc_values.positions(np.array([99_901, 99_902]))
    assert doc_values.rows(doc_values.around(newest, 1)[1]).tolist() == [99_902, 99_903]
    assert doc_values.around(newest, 1)[0].tolist() == [-1, newest[0]]
