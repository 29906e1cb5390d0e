"""Token codes are read once and kept, up to a bound."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from devmem.search.indexes.codes import TokenCache
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
