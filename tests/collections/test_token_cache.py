"""Token codes are read once and kept, up to a bound."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from devmem.collections.sqlite.schema import make_tables
from devmem.collections.sqlite.token_cache import TokenCache

WIDTH = 4
KEPT = 10
"""So many passages of 3 tokens fit into the cache."""


class Database:
    """A database of token codes that knows which passages were read."""

    def __init__(self, passages: int) -> None:
        self.connection = sqlite3.connect(":memory:")
        make_tables(self.connection)
        self.codes = {n: np.full((3, WIDTH), n % 251, dtype=np.uint8) for n in range(1, passages + 1)}
        rows = [(n, codes.tobytes()) for n, codes in self.codes.items()]
        self.connection.executemany("INSERT INTO tokens VALUES (?, ?)", rows)

    def forget(self) -> None:
        self.connection.execute("DELETE FROM tokens")


@pytest.fixture
def database() -> Database:
    return Database(1200)


@pytest.fixture
def cache() -> TokenCache:
    return TokenCache(most_bytes=KEPT * 3 * WIDTH)


def check(database: Database, found: dict[int, np.ndarray]) -> None:
    for passage, codes in found.items():
        assert np.array_equal(codes, database.codes[passage])


def test_codes_are_those_of_the_database(database: Database, cache: TokenCache) -> None:
    """More of them than the cache keeps, and than SQLite takes at once, are given all the same."""
    everything = list(database.codes)
    for _ in range(2):
        found = cache.get(database.connection, everything, WIDTH)
        assert sorted(found) == everything
        check(database, found)


def test_what_was_used_last_is_kept(database: Database, cache: TokenCache) -> None:
    cache.get(database.connection, list(range(1, KEPT + 1)), WIDTH)
    cache.get(database.connection, [1], WIDTH)
    cache.get(database.connection, [100, 101], WIDTH)
    database.forget()
    found = cache.get(database.connection, list(database.codes), WIDTH)
    assert sorted(found) == [1, *range(4, KEPT + 1), 100, 101]
    check(database, found)


def test_codes_larger_than_the_bound_are_given_but_not_kept(database: Database) -> None:
    cache = TokenCache(most_bytes=5)
    check(database, cache.get(database.connection, [1, 2], WIDTH))
    database.forget()
    assert cache.get(database.connection, [1, 2], WIDTH) == {}


def test_passages_without_codes_or_with_those_of_another_model(database: Database, cache: TokenCache) -> None:
    database.connection.execute("INSERT INTO tokens VALUES (5000, x''), (5001, x'0102030405')")
    assert sorted(cache.get(database.connection, [1, 5000, 5001, 7000], WIDTH)) == [1]


def test_forgetting(database: Database, cache: TokenCache) -> None:
    cache.get(database.connection, [1], WIDTH)
    cache.clear()
    database.forget()
    assert cache.get(database.connection, [1], WIDTH) == {}
