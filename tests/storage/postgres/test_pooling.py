"""A connection pooler between the process and the server: one that keeps sessions apart serves, no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery
from devmem.storage.postgres import collection as opening
from devmem.storage.postgres.collection import PostgresCollection
from tests.storage.postgres.pooler import Pooler
from tools.postgres_server import USER, PostgresServer

pytestmark = pytest.mark.postgres


@contextmanager
def _pooled(server: PostgresServer, store_url: str, *, by_transaction: bool) -> Iterator[str]:
    """Yield the URL of a store behind a pooler."""
    with closing(Pooler(f"{server.folder}/.s.PGSQL.{server.port}", by_transaction=by_transaction)) as pooler:
        yield f"postgresql://{USER}@127.0.0.1:{pooler.port}/postgres?sslmode=disable&{store_url.rpartition('&')[2]}"


def _texts(store: PostgresCollection) -> set[str]:
    return {hit.item.content_summary for hit in store.search(SearchQuery(text="tea", limit=9))}


@pytest.mark.parametrize("mode", ["follow", "server"])
def test_sessions_are_pooled(postgres_server: PostgresServer, store_url: str, mode: str) -> None:
    """Also for longer than statements would be prepared, and for views, which are temporary in their session."""
    with (
        _pooled(postgres_server, store_url, by_transaction=False) as url,
        closing(PostgresCollection(f"{url}&mode={mode}")) as store,
    ):
        for number in range(8):
            store.add([MemoryItem(id=str(number), content_summary=f"tea {number}")])
            assert len(_texts(store)) == number + 1
        with closing(store.run("pending")) as run:
            run.add([MemoryItem(id="9", content_summary="no tea")])
            assert (run.count(), store.count()) == (9, 8)


def test_transactions_are_not(postgres_server: PostgresServer, store_url: str) -> None:
    with (
        _pooled(postgres_server, store_url, by_transaction=True) as url,
        pytest.raises(CollectionError, match="pool_mode = session"),
    ):
        PostgresCollection(url)


def test_a_pooler_that_was_busy_when_the_store_was_opened_is_found_later(
    postgres_server: PostgresServer, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is read or written in the session of somebody else."""
    monkeypatch.setattr(opening, "refuse_shared_sessions", lambda *_: None)
    with (
        _pooled(postgres_server, store_url, by_transaction=True) as url,
        closing(PostgresCollection(url)) as store,
        closing(PostgresCollection(f"{url}&tenant=other")) as other,
    ):
        other.count()
        with pytest.raises(CollectionError, match="pool_mode = session"):
            store.add([MemoryItem(id="2", content_summary="tea")])
    with closing(PostgresCollection(store_url)) as store:
        assert store.count() == 0
