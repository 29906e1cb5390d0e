"""Token codes are read as the database has them, and late interaction is MaxSim over their signs."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem.search.indexes.codes import TokenCache
from devmem.search.token_matching import QueryTokens, weigh
from devmem.storage.sqlite.schema import create_tables
from devmem.storage.sqlite.search import SqliteTokenRows
from devmem.storage.sqlite.tables import insert_codes

WIDTH = 4
KEPT = 10
"""Number of passages of 3 tokens that fit into the cache."""


class Database:
    """A database of token codes that knows which passages were read."""

    def __init__(self, passages: int) -> None:
        self.connection = sqlite3.connect(":memory:")
        create_tables(self.connection)
        self.codes: dict[int, np.ndarray] = {}
        for passage in range(1, passages + 1):
            self.add(passage)

    def add(self, passage: int) -> None:
        self.codes[passage] = np.full((3, WIDTH), passage % 251, dtype=np.uint8)
        codes = self.codes[passage].tobytes()
        insert_codes(self.connection, passage, codes)

    def forget(self) -> None:
        self.connection.execute("DELETE FROM tokens")


@pytest.fixture
def database() -> Database:
    return Database(1200)


def gathered(database: Database, cache: TokenCache, passages: list[int]) -> dict[int, np.ndarray]:
    """Ask for codes, and give those of each passage that has some, without the zeros behind them."""
    codes, counts = cache.gather(SqliteTokenRows(database.connection), np.array(passages, dtype=np.int64), WIDTH)
    assert len(codes) == counts.sum()
    assert not codes[:, WIDTH:].any()
    ends = np.cumsum(counts).tolist()
    starts = [0, *ends]
    parts = {one: codes[start:end, :WIDTH] for one, start, end in zip(passages, starts, ends, strict=False)}
    return {one: part for one, part in parts.items() if len(part)}


def check(database: Database, found: dict[int, np.ndarray]) -> None:
    for passage, codes in found.items():
        assert np.array_equal(codes, database.codes[passage])


def bounded(ahead: int = 0) -> TokenCache:
    return TokenCache(most_bytes=KEPT * 3 * WIDTH, ahead=ahead)


@pytest.mark.parametrize("ahead", [0, 5000])
def test_codes_are_those_of_the_database(database: Database, ahead: int) -> None:
    """More of them than the cache keeps, and than SQLite takes at once, are given all the same."""
    everything = list(database.codes)
    for cache in (bounded(ahead), TokenCache(ahead=ahead)):
        for _ in range(2):
            found = gathered(database, cache, everything[::-1])
            assert sorted(found) == everything
            check(database, found)


def test_codes_of_another_width_are_those_of_another_model(database: Database) -> None:
    cache = bounded()
    gathered(database, cache, [1])
    codes, counts = cache.gather(SqliteTokenRows(database.connection), np.array([1]), 5)
    assert (len(codes), counts.tolist()) == (0, [0])
    assert sorted(gathered(database, cache, [1])) == [1]


def test_passages_without_codes_or_with_those_of_another_model(database: Database) -> None:
    for passage, codes in ((5000, b""), (5001, b"\x01\x02\x03\x04\x05")):
        insert_codes(database.connection, passage, codes)
    assert sorted(gathered(database, bounded(), [1, 5000, 5001, 7000])) == [1]
    assert gathered(database, bounded(), [5000, 7000]) == {}
    assert gathered(database, bounded(), []) == {}


LONG = 900
"""Number of tokens of a passage whose codes take several parts."""


@pytest.mark.parametrize("ahead", [0, 5000])
def test_the_codes_of_a_long_passage_are_read_as_a_whole(database: Database, ahead: int) -> None:
    codes = np.arange(LONG * WIDTH, dtype=np.uint32).view(np.uint8)[: LONG * WIDTH].reshape(LONG, WIDTH)
    for passage in (2000, 2001):
        database.codes[passage] = codes
        insert_codes(database.connection, passage, codes.tobytes())
    (parts,) = database.connection.execute("SELECT count(*) FROM tokens WHERE part >> 12 = 2000").fetchone()
    assert parts > 2
    found = gathered(database, TokenCache(ahead=ahead), [2001, 5, 2000])
    assert sorted(found) == [5, 2000, 2001]
    check(database, found)


SIZES = st.lists(st.integers(1, 150), min_size=1, max_size=8)


def codes_of(texts: list[np.ndarray]) -> tuple[np.ndarray, list[int]]:
    """Return the signs of each text's token vectors, and how many tokens each has."""
    return np.packbits(np.concatenate(texts) > 0, axis=1), [len(text) for text in texts]


def plain(asked: np.ndarray, texts: list[np.ndarray]) -> np.ndarray:
    """Compute MaxSim over the signs as it is defined."""
    scale = np.sqrt(2 / np.pi) * np.sqrt(asked.shape[1])
    return np.array([(asked @ np.where(text > 0, 1, -1).T).max(axis=1) / scale for text in texts]).T


def unit(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    rows = rng.standard_normal((count, dimension)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES, dimension=st.sampled_from([60, 64, 384, 700]))
def test_matches_are_those_of_the_plain_formula(seed: int, sizes: list[int], dimension: int) -> None:
    """Where the query's components are among the sixteen steps."""
    rng = np.random.default_rng(seed)
    asked = rng.choice(np.arange(-15, 16, 2), (5, dimension)).astype(np.float32)
    asked[:, 0] = 15
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    texts = [rng.standard_normal((size, dimension)) for size in sizes]
    query = QueryTokens(vectors=asked, weights=np.full(5, 0.2, dtype=np.float32))
    found = query.best_matches(*codes_of(texts))
    wanted = plain(asked, texts)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(query.score(found), wanted.mean(axis=0), atol=1e-5)


def test_a_text_does_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(3)
    query = QueryTokens(vectors=unit(rng, 4, 64), weights=np.full(4, 0.25, dtype=np.float32))
    texts = [rng.standard_normal((size, 64)) for size in (1, 127, 9_000, 129, 3)]
    together = query.best_matches(*codes_of(texts))
    for at, one in enumerate(texts):
        assert np.array_equal(query.best_matches(*codes_of([one]))[:, 0], together[:, at])


def test_rare_words_count_more() -> None:
    found = weigh(np.eye(3, 8, dtype=np.float32), [0, 10, 300], 1000)
    assert found is not None
    assert found.weights[0] > found.weights[1] > found.weights[2] > 0
    assert found.weights.sum() == pytest.approx(1)


def test_words_that_are_almost_everywhere_are_left_out() -> None:
    found = weigh(np.eye(3, 8, dtype=np.float32), [0, 900, 10], 1000)
    assert found is not None
    assert np.array_equal(found.vectors, np.eye(3, 8, dtype=np.float32)[[0, 2]])
    assert found.weights.sum() == pytest.approx(1)
    alone = weigh(np.eye(1, 8, dtype=np.float32), [900], 1000)
    assert alone is not None
    assert alone.weights.tolist() == [1]


def test_of_a_long_question_the_rarest_words_are_compared_in_their_order() -> None:
    frequencies = [n % 40 for n in range(80)]
    found = weigh(np.eye(80, dtype=np.float32), frequencies, 100)
    assert found is not None
    kept = found.vectors.argmax(axis=1).tolist()
    assert kept == sorted(kept)
    assert len(kept) == 24
    assert {frequencies[at] for at in kept} == set(range(12))
