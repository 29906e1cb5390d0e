"""Connections that are killed and a server that restarts in mid-write: what is acknowledged is there, once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from typing import Any

import numpy as np
import psycopg
import pytest

from devmem.model.items import MemoryItem
from devmem.model.results import WriteStatus
from devmem.storage import SearchQuery, Unique
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.search import PostgresSource
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

WRITERS, KILLS = 4, 30
KILL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'devmem' AND pid %% 2 = %s"


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own."""
    with closing(PostgresServer()) as server:
        yield server


@pytest.mark.parametrize("unique", list(Unique))
def test_a_write_is_neither_lost_nor_applied_twice(
    server: PostgresServer, unique: Unique, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.url(store="notes")
    done = threading.Event()

    def write(collection: PostgresCollection, writer: int) -> list[str]:
        acknowledged: list[str] = []
        for n in count():
            if done.is_set():
                return acknowledged
            item = MemoryItem(id=f"{writer}/{n}", content_summary=f"note {writer} {n}")
            (outcome,) = collection.add([item], unique=unique)
            # A second attempt that found the first one's item would call it a duplicate.
            assert outcome.status is WriteStatus.STORED
            acknowledged.append(item.id)
        raise AssertionError("unreachable")

    def kill() -> None:
        kills, side = 0, 0
        server.restart()
        while kills < KILLS and not done.wait(0.02):
            with psycopg.connect(Location.parse(url).conninfo, autocommit=True) as administrator:
                kills += len(administrator.execute(KILL, (side,)).fetchall())
            side = 1 - side

    with closing(PostgresCollection(url)) as collection, ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, collection, writer) for writer in range(WRITERS)]
        try:
            kill()
        finally:
            done.set()
        acknowledged = [name for each in writing for name in each.result()]
        stored = [item.id for item in collection.scan()]
        assert sorted(stored) == sorted(acknowledged)
        found = collection.search(SearchQuery(text="note", limit=10_000))
        assert sorted(hit.item.id for hit in found) == sorted(stored)
    assert [each for each in caplog.records if each.name == "psycopg"] == []


def _lose_searches(url: str, losses: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the first searches lose their connections; return the list that grows with each."""
    find, lost = PostgresSource.apply_filter, list[int]()

    def lose(self: PostgresSource, *arguments: Any) -> Any:
        if len(lost) < losses:
            with psycopg.connect(Location.parse(url).conninfo, autocommit=True) as administrator:
                query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'devmem'"
                lost.append(len(administrator.execute(query).fetchall()))
        return find(self, *arguments)

    monkeypatch.setattr(PostgresSource, "apply_filter", lose)
    return lost


def test_losses_do_not_end_a_call_that_took_its_time(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that waited for locks, or for a busy machine: the server answers all the time."""
    with closing(PostgresCollection(store_url, busy_timeout=0.1)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea")])
        lost = _lose_searches(store_url, 6, monkeypatch)
        assert [hit.item.id for hit in collection.search(SearchQuery(text="tea"))] == ["1"]
    # The waits between the attempts alone take several times the limit.
    assert len(lost) == 6


def test_a_search_whose_connection_is_lost_runs_again(
    store_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While the server works for it, and without a word of the database's library."""
    vector = np.full(4, 0.5, dtype=np.float32)
    with closing(PostgresCollection(store_url)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea", embedding=vector)])
        lost = _lose_searches(store_url, 1, monkeypatch)
        query = SearchQuery(text="tea", vector=vector)
        assert [hit.item.id for hit in collection.search(query)] == ["1"]
    assert lost[0] > 0
    assert [each for each in caplog.records if each.name == "psycopg"] == []
