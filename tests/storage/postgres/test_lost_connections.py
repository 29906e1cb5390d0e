"""Connections that are lost and transactions that wait: what is acknowledged is there, once."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import numpy as np
import psycopg
import pytest

from devmem.errors import CollectionBusyError
from devmem.model.items import MemoryItem
from devmem.model.results import WriteStatus
from devmem.models import ModelIdentity
from devmem.models.embedder import PassageEmbeddings
from devmem.storage import SearchQuery, Unique
from devmem.storage.changes import store_embeddings
from devmem.storage.postgres import database, transactions
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Access, Connection
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.search import PostgresSource
from devmem.storage.tables import CURRENT
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


TEA = MemoryItem(id="1", content_summary="tea")
SLOW_COMMITS = """
CREATE FUNCTION slow.wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow.commits DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION slow.wait()
"""
SECONDS = 120
"""Longest time to wait for what always comes."""
COMMITTING = "SELECT count(*) FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event_type = 'Lock'"


def connect(url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(Location.parse(url).conninfo, autocommit=True)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline


def test_stores_of_two_schemas_do_not_wait_for_each_other(store_url: str) -> None:
    """Even though they have the same number, and a run ends in both of them at once."""
    with (
        closing(PostgresCollection(f"{store_url}&schema=one", busy_timeout=2.0)) as one,
        closing(PostgresCollection(f"{store_url}&schema=two", busy_timeout=2.0)) as two,
    ):
        for store in (one, two):
            with closing(store.run("r")) as view:
                view.add([TEA])
        assert one.database.store == two.database.store
        one.commit("r", then=lambda: two.commit("r"))
        assert one.count() == two.count() == 1
        with one.states.exclusive("indexing"), two.states.exclusive("indexing"):
            one.replace_model("a", 16)
            assert one.database.transactions.write(lambda _: two.replace_model("b", 16)) == 1


@pytest.mark.parametrize("remove", ["delete", "erase"])
def test_no_embedding_stays_of_an_item_that_is_removed_meanwhile(store_url: str, remove: str) -> None:
    """It would be found for ever after, as an item without a body; and an erased item would not be erased."""
    embeddings = {"1": PassageEmbeddings.of(np.eye(16, dtype=np.float32)[0])}
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Lock'"
    left = (
        "SELECT (SELECT count(*) FROM vectors WHERE store = %s AND is_current) "
        "+ (SELECT count(*) FROM passages WHERE store = %s AND is_current)"
    )
    with (
        closing(PostgresCollection(store_url, model=ModelIdentity(name="m", dimension=16))) as store,
        connect(store_url) as administrator,
        ThreadPoolExecutor(1) as pool,
    ):
        store.add([TEA])

        def embed(connection: Connection) -> Future[int]:
            assert store_embeddings(store.database._tables(connection), None, embeddings, CURRENT) == 1
            removed = pool.submit(getattr(store, remove), ids=["1"])
            wait_until(lambda: removed.done() or administrator.execute(waiting).fetchall() == [(1,)])
            return removed

        assert store.database.transactions.write(embed).result(SECONDS) == 1
        number = store.database.store
        found = store.database.transactions.read(lambda one: one.execute(left, (number, number)).fetchall())
        assert found == [(0,)]


def test_a_connection_that_the_server_ended_while_nobody_used_it_is_replaced(store_url: str) -> None:
    """As servers and poolers are set up to do."""
    url = f"{store_url}&options=-c%20idle_session_timeout%3D200&application_name=idle"
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idle'"
    with closing(PostgresCollection(url)) as store, connect(store_url) as administrator:
        store.add([TEA])
        wait_until(lambda: administrator.execute(query).fetchall() == [(0,)])
        assert store.count() == 1
        wait_until(lambda: administrator.execute(query).fetchall() == [(0,)])
        store.add([MemoryItem(id="2", content_summary="milk")])
        assert store.count() == 2


@contextmanager
def slow_commits(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Have every commit in the schema `slow` wait as long as the connection holds lock 42."""
    with connect(url) as administrator:
        administrator.execute("SELECT pg_advisory_lock(42)")
        administrator.execute(SLOW_COMMITS)
        yield administrator


def test_a_write_whose_commit_is_not_over_is_not_called_unwritten(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is lost while the server commits; the next attempt waits for that in vain."""
    url, opened, connect_first = f"{store_url}&schema=slow", list[Connection](), database.connect

    def connect_noted(access: Access) -> Connection:
        opened.append(connect_first(access))
        return opened[-1]

    monkeypatch.setattr(transactions, "connect", connect_noted)
    with closing(PostgresCollection(url, busy_timeout=1.0)) as store, ThreadPoolExecutor(1) as pool:
        with slow_commits(url) as administrator:
            adding = pool.submit(store.add, [TEA])
            wait_until(lambda: administrator.execute(COMMITTING).fetchall() == [(1,)])
            with socket.socket(fileno=socket.dup(opened[0].fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
            with pytest.raises(CollectionBusyError, match="which of the two is not known"):
                adding.result()
        with connect(url) as administrator:
            wait_until(lambda: administrator.execute(COMMITTING).fetchall() == [(0,)])
        assert store.count() == 1
        (outcome,) = store.add([TEA])
        assert outcome.status == "duplicate"


def test_a_store_that_is_opened_while_the_server_ends_all_connections_is_opened_later(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of one process a server accepts a connection, and ends it before it answers."""
    connect_first = database.connect
    ended = iter([psycopg.OperationalError("connection failed: server closed the connection unexpectedly")])

    def connect_later(access: Access) -> Connection:
        for error in ended:
            raise error
        return connect_first(access)

    monkeypatch.setattr(database, "connect", connect_later)
    with closing(PostgresCollection(store_url)) as store:
        assert store.count() == 0
