"""Vectors, terms and token codes of a few items are looked up by the primary key, whatever plan the server makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from devmem.config import IndexConfig
from devmem.config.store import LEAST_FOR_APPROXIMATE
from devmem.model.items import MemoryItem, Scope
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.hnsw import index_name
from devmem.storage.tables import NOW
from devmem.testing import HashEmbedder
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

_EMBEDDER = HashEmbedder(dimension=256)
_ITEMS = 8_000
_FEW = [f"item {number}" for number in range(0, _ITEMS, 100)]
# What a server does with a statement that it has run ten times: it does not look at the values any more.
_SETTINGS = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL max_parallel_workers_per_gather = 0"
_READ = (
    "SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables "
    "WHERE relname ~ '^(passages|vectors|tokens)'"
)  # fmt: skip


@pytest.fixture(scope="module")
def store(postgres_server: PostgresServer) -> Iterator[PostgresCollection]:
    url = postgres_server.url(store="lookups")
    with closing(PostgresCollection(url, model=_EMBEDDER.identity, durability="normal")) as opened:
        texts = [f"train {number} leaves late" for number in range(_ITEMS)]
        opened.add(
            [
                MemoryItem(id=f"item {at}", content_summary=text, scope=Scope(user="ann"), embedding=vector)
                for at, (text, vector) in enumerate(zip(texts, _EMBEDDER.embed(texts), strict=True))
            ]
        )
        yield opened


def _embeddings(store: PostgresCollection, connection: Connection) -> int:
    return len(store.database._tables(connection).embeddings(_FEW, NOW))


def _ended(store: PostgresCollection, connection: Connection) -> int:
    return store._changes(store.database._tables(connection)).delete(_FEW, None)


def _removed(store: PostgresCollection, connection: Connection) -> int:
    return store.database._tables(connection).delete("id = ANY(?)", [_FEW])


class _UndoneError(Exception):
    """Rolls a transaction back."""


@pytest.mark.parametrize("operation", [_embeddings, _ended, _removed])
def test_no_table_is_read_from_end_to_end(
    store: PostgresCollection, operation: Callable[[PostgresCollection, Connection], int]
) -> None:
    """A plan for any number of items compared all vectors of the store with all of them."""
    found: list[int] = []

    def run(connection: Connection) -> None:
        connection.execute("ANALYZE vectors, passages, tokens, items")
        for setting in _SETTINGS.split("; "):
            connection.execute(composed(setting))
        ((before,),) = connection.execute(_READ).fetchall()
        found.append(operation(store, connection))
        ((after,),) = connection.execute(_READ).fetchall()
        found.append(int(after - before))
        raise _UndoneError

    with pytest.raises(_UndoneError):
        store.database.transactions.write(run)
    assert found == [len(_FEW), 0]


@pytest.mark.usefixtures("store")
def test_the_index_is_used_whatever_the_statistics_say(postgres_server: PostgresServer) -> None:
    """Of a store that is newer than they are they say that it has one row; all of them were read, and sorted."""
    url, index = postgres_server.url(store="newer"), IndexConfig(search="approximate")
    vectors = _EMBEDDER.embed([f"train {number}" for number in range(3 * LEAST_FOR_APPROXIMATE)])
    with closing(PostgresCollection(url, model=_EMBEDDER.identity, durability="normal", index=index)) as newer:
        newer.database.transactions.write(lambda connection: connection.execute("ANALYZE vectors"))
        newer.add([MemoryItem(content_summary=str(at), embedding=vector) for at, vector in enumerate(vectors)])
        newer.maintain()
        scans: list[int] = []
        for _ in range(2):
            newer.search(SearchQuery(vector=vectors[0], limit=10))
            # What a connection has counted is seen once it was told to report it, and the transaction has ended.
            newer._fetch("SELECT 1 FROM pg_stat_force_next_flush()", ())
            count = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s"
            ((scanned,),) = newer._fetch(count, (index_name(newer.database.store),))
            scans.append(scanned)
    assert scans[1] == scans[0] + 1
