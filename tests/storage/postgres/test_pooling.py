"""A connection pooler between the process and the server, which runs each transaction in another session."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest

from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery
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


@pytest.mark.parametrize("by_transaction", [False, True])
def test_a_store_behind_a_pooler(postgres_server: PostgresServer, store_url: str, by_transaction: bool) -> None:
    """Also for longer than statements would be prepared, and for views of other states."""
    with (
        _pooled(postgres_server, store_url, by_transaction=by_transaction) as url,
        closing(PostgresCollection(url)) as store,
    ):
        for number in range(8):
            store.add([MemoryItem(id=str(number), content_summary=f"tea {number}")])
            assert len(_texts(store)) == number + 1
        with closing(store.run("pending")) as run:
            run.add([MemoryItem(id="9", content_summary="no tea")])
            assert (run.count(), store.count()) == (9, 8)


def test_tenants_that_share_sessions_find_their_own(postgres_server: PostgresServer, store_url: str) -> None:
    """Settings hold for a transaction: the next one in the session may be another tenant's."""
    with ExitStack() as stack:
        url = stack.enter_context(_pooled(postgres_server, store_url, by_transaction=True))
        stores = [stack.enter_context(closing(PostgresCollection(f"{url}&tenant=t{at}"))) for at in range(3)]

        def use(at: int) -> None:
            for number in range(10):
                stores[at].add([MemoryItem(id=str(number), content_summary=f"tea of {at}, {number}")])
                assert {text.split(",")[0] for text in _texts(stores[at])} == {f"tea of {at}"}

        with ThreadPoolExecutor(len(stores)) as pool:
            list(pool.map(use, range(len(stores))))
        assert [store.count() for store in stores] == [10, 10, 10]
