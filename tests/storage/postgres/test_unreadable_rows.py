"""Rows that an earlier devmem stored and that nothing can read: they are left out, counted, and can be erased."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Literal

import pytest

import devmem
from devmem.config.store import IndexConfig
from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection

pytestmark = pytest.mark.postgres

ANN = Scope(user="ann")
IDS = [str(n) for n in range(5)]
READS: dict[str, Callable[[PostgresCollection], list[str]]] = {
    "get": lambda store: [item.id for item in store.get(IDS)],
    "recent": lambda store: [item.id for item in store.recent(9)],
    "scan": lambda store: [item.id for item in store.scan()],
    "waiting": lambda store: [item.id for item in store.waiting(9)],
    "search": lambda store: [hit.item.id for hit in store.search(SearchQuery(text="tea", limit=9))],
    "conversations": lambda store: [
        hit.item.id for group in store.conversations(SearchQuery(text="tea")) for hit in group.hits
    ],
    "as_of": lambda store: [item.id for item in store.as_of(9e9).recent(9)],
}


def make_unreadable(store: PostgresCollection, item_id: str) -> None:
    deep = '{"id": "' + item_id + '", "metadata": ' + "[" * 300 + "]" * 300 + "}"

    def change(connection: Connection) -> None:
        for table in ("items", "versions"):
            connection.execute(f"UPDATE {table} SET body = %s WHERE id = %s", (deep, item_id))

    store._database.write(change)


@pytest.fixture
def url(store_url: str) -> str:
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id="2", content_summary="earlier tea", scope=ANN)])
        store.add([MemoryItem(id=name, content_summary=f"note {name} of tea", scope=ANN) for name in IDS])
        make_unreadable(store, "2")
    return store_url


@pytest.mark.parametrize("mode", ["follow", "server"])
def test_they_are_left_out_and_counted(
    url: str, mode: Literal["follow", "server"], caplog: pytest.LogCaptureFixture
) -> None:
    with closing(PostgresCollection(url, index=IndexConfig(mode=mode))) as store:
        for name, read in READS.items():
            assert sorted(read(store)) == ["0", "1", "3", "4"], name
        assert store.history("2") == []
        assert store.info().damaged == 2
        assert [each.levelno for each in caplog.records if each.levelno >= logging.ERROR] == [logging.ERROR] * 2


def test_they_can_be_written_over_and_taken(url: str) -> None:
    with closing(PostgresCollection(url)) as store:
        make_unreadable(store, "4")
        assert [item.id for item in store.pop(2)] == ["3"], "one is deleted unread"
        store.add([MemoryItem(id="2", content_summary="new tea", scope=ANN)])
        assert [item.content_summary for item in store.get(["2"])] == ["new tea"]


@pytest.mark.parametrize("by", [{"user": "ann"}, None])
def test_they_are_forgotten(url: str, by: dict[str, str] | None) -> None:
    """By their id, and with the others of their scope."""
    with devmem.open(url, embedding=None) as memory:
        assert (memory.forget("2", dry_run=True) if by is None else memory.forget(user="ann", dry_run=True)) is not None
        receipt = memory.erase("2") if by is None else memory.erase(user="ann")
        assert receipt.items == (1 if by is None else len(IDS))
    with closing(PostgresCollection(url)) as store:
        count = partial(store._fetch, "SELECT count(*) FROM items WHERE store = %s AND id = '2'", [store._store])
        assert count() == [(0,)]
        assert store.delete(where=Filter(scope=ANN)) == (4 if by is None else 0)
