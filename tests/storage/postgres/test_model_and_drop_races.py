"""A store stays right when its model is replaced, items go, or it is dropped beside other work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import numpy as np
import psycopg
import pytest

from devmem.config import IndexConfig
from devmem.config.store import LEAST_FOR_APPROXIMATE
from devmem.errors import CollectionError
from devmem.model.items import MemoryItem
from devmem.models import PassageEmbeddings
from devmem.storage import SearchQuery
from devmem.storage.postgres import attachments as states
from devmem.storage.postgres import searcher
from devmem.storage.postgres.collection import PostgresCollection, drop_store
from devmem.storage.postgres.database import Access, Connection, composed
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.schema import PARTITIONED
from devmem.storage.postgres.server import maintenance
from devmem.storage.postgres.server.vectors import build_hnsw
from devmem.storage.postgres.transactions import Database, _SharedPool
from devmem.testing import HashEmbedder
from tools.bench.synthetic import make_corpus
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

APPROXIMATE = IndexConfig(mode="server", search="approximate", codes_mb=0)
MODES = [IndexConfig(mode="follow"), IndexConfig(mode="server")]


@pytest.fixture
def many(store_url: str) -> Iterator[tuple[PostgresCollection, np.ndarray]]:
    """A store with enough vectors of 32 components for an HNSW index, and the vectors."""
    corpus = make_corpus(LEAST_FOR_APPROXIMATE + 100, dimension=32)
    items = [
        MemoryItem(id=str(n), content_summary=text, embedding=vector, created_at=float(n))
        for n, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
    ]
    model = HashEmbedder(dimension=32).identity
    with closing(PostgresCollection(store_url, model=model, index=APPROXIMATE)) as store:
        store.add(items)
        yield store, corpus.vectors


def fetched(query: str, connection: Connection) -> list[tuple[object, ...]]:
    return connection.execute(composed(query)).fetchall()


def _hnsw(store: PostgresCollection) -> list[tuple[object, ...]]:
    query = "SELECT 1 FROM pg_class WHERE relname = %s"
    return store._database.read(lambda one: one.execute(query, (f"vectors_hnsw_{store._store}",)).fetchall())


def test_candidates_that_were_deleted_do_not_end_a_search(many: tuple[PostgresCollection, np.ndarray]) -> None:
    store, vectors = many
    store.maintain()
    nearest = np.argsort(-(vectors @ vectors[0])).tolist()
    store.delete(ids=[str(n) for n in nearest[:-20]])
    found = [hit.item.id for hit in store.search(SearchQuery(vector=vectors[0], limit=10))]
    assert sorted(found) == sorted(str(n) for n in nearest[-20:-10])


def test_an_index_of_the_old_length_refuses_no_vector(
    many: tuple[PostgresCollection, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is replaced after the process that makes the index has read the length."""
    store, _ = many

    def build_late(connection: Connection, number: int, dimension: int) -> None:
        store.replace_model("another", 16)
        build_hnsw(connection, number, dimension)
        vector = np.eye(16, dtype=np.float32)[0]
        store.add([MemoryItem(id="new", content_summary="of the new length", embedding=vector)])

    monkeypatch.setattr(maintenance, "build_hnsw", build_late)
    store.maintain()
    assert [item.id for item in store.get(["new"])] == ["new"]
    assert _hnsw(store) == []


@pytest.mark.parametrize("index", MODES, ids=lambda index: index.mode)
def test_token_codes_of_a_replaced_model_are_forgotten(store_url: str, index: IndexConfig) -> None:
    """Also by a process that did not replace it."""
    embedder = HashEmbedder(dimension=16)
    vector = embedder.embed(["tea"])[0]

    def codes_of(value: int) -> PassageEmbeddings:
        return PassageEmbeddings(vectors=vector[None], tokens=(np.full((3, 8), value, dtype=np.uint8),))

    def read(collection: PostgresCollection) -> list[int]:
        def codes(connection: Connection) -> list[int]:
            source = collection._searcher.source(connection, SearchQuery(text="tea"), None, 0.0)
            ((passage,),) = connection.execute(
                "SELECT passage FROM passages WHERE store = %s", (collection._store,)
            ).fetchall()
            found, _ = source.token_codes(np.array([passage]), 8)
            return sorted(set(found[:, :8].ravel().tolist()))

        return collection._database.read(codes)

    model = embedder.identity
    with (
        closing(PostgresCollection(store_url, model=model, index=index)) as mine,
        closing(PostgresCollection(store_url, model=model, index=index)) as other,
    ):
        mine.add([MemoryItem(id="1", content_summary="tea")])
        mine.set_embeddings({"1": codes_of(1)})
        assert read(mine) == read(other) == [1]
        mine.replace_model(model.name, model.dimension)
        mine.set_embeddings({"1": codes_of(2)})
        assert read(mine) == read(other) == [2]


@pytest.mark.parametrize("step", ["maintain", "open"])
def test_nothing_of_a_dropped_store_comes_back(store_url: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(location=Location.parse(store_url), durability="full", busy_timeout=30.0)
    with closing(PostgresCollection(store_url)) as store, closing(Database(access)) as database:
        store.add([MemoryItem(content_summary="tea")])
        upkeep = maintenance.IndexMaintenance(access, database, store._store, None, 0)
        # As where the decision to merge was made just before the store is dropped.
        monkeypatch.setattr(upkeep, "tail_is_long", lambda _: True)
        assert drop_store(store_url)
        steps: dict[str, Callable[[], object]] = {
            "maintain": upkeep.run,
            "open": lambda: searcher.ServerSearcher(access, database, store._store, IndexConfig()),
        }
        with pytest.raises(CollectionError, match="the store was dropped"):
            steps[step]()
        upkeep.close()
        for table in PARTITIONED:
            query = f"SELECT 1 FROM {table} WHERE store = {store._store}"
            assert database.read(partial(fetched, query)) == []


def test_a_schema_without_tables_is_not_that_of_other_stores(postgres_server: PostgresServer) -> None:
    """Although the search path ends with the schema `public`, which may be devmem's too."""
    place = Location.parse(postgres_server.url())
    with psycopg.connect(place.conninfo, autocommit=True) as administrator:
        administrator.execute("CREATE DATABASE two_schemas")
    public = postgres_server.url("two_schemas", store="notes", schema="public", partition="on")
    with closing(PostgresCollection(public)) as store:
        store.add([MemoryItem(content_summary="tea")])
        assert not drop_store(postgres_server.url("two_schemas", store="notes", schema="nothing_yet"))
        assert store.count() == 1
        # A store without partitions, of the same number as the one that has some.
        other = postgres_server.url("two_schemas", store="notes", schema="beside")
        with closing(PostgresCollection(other)) as beside:
            assert beside._store == store._store
            beside.add([MemoryItem(content_summary="tea")])
        assert drop_store(other)
        assert store.count() == 1


def test_a_store_that_cannot_be_opened_keeps_no_connections(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(searcher, "FollowingSearcher", fail)
    before = set(_SharedPool._known)
    with pytest.raises(KeyboardInterrupt):
        PostgresCollection(f"{store_url}&tenant=unopened")
    assert set(_SharedPool._known) == before


def test_many_values_take_few_locks(store_url: str) -> None:
    """The server has room for some thousands of locks, of all its connections."""
    keys = [("state", str(n)) for n in range(2000)]
    with closing(PostgresCollection(store_url)) as store:

        def count(connection: Connection) -> int:
            states._lock_values(connection, store._store, keys)
            query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            ((locks,),) = connection.execute(query).fetchall()
            return int(locks)

        assert store._database.write(count) == 1
        assert store.states.write(dict.fromkeys(keys, b"1"))
        assert len(store.states.get(keys)) == 2000
