"""A store stays right when its model is replaced, items go, or it is dropped beside other work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import psycopg
import pytest

from devmem.config import IndexConfig
from devmem.config.store import LEAST_FOR_APPROXIMATE
from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection, drop_store
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.hnsw import HnswIndex
from devmem.storage.postgres.location import Location
from devmem.testing import HashEmbedder
from tools.bench.synthetic import make_corpus
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

APPROXIMATE = IndexConfig(search="approximate")


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


def _hnsw(store: PostgresCollection) -> list[tuple[object, ...]]:
    query = "SELECT 1 FROM pg_class WHERE relname = %s"
    return store.database.transactions.read(
        lambda one: one.execute(query, (f"vectors_hnsw_{store.database.store}",)).fetchall()
    )


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

    create = HnswIndex._create

    def create_late(index: HnswIndex, connection: Connection, dimension: int) -> None:
        store.replace_model("another", 16)
        create(index, connection, dimension)
        vector = np.eye(16, dtype=np.float32)[0]
        store.add([MemoryItem(id="new", content_summary="of the new length", embedding=vector)])

    monkeypatch.setattr(HnswIndex, "_create", create_late)
    store.maintain()
    assert [item.id for item in store.get(["new"])] == ["new"]
    assert _hnsw(store) == []


def test_a_schema_without_tables_is_not_that_of_other_stores(postgres_server: PostgresServer) -> None:
    """Although the search path ends with the schema `public`, which may be devmem's too."""
    place = Location.parse(postgres_server.url())
    with psycopg.connect(place.conninfo, autocommit=True) as administrator:
        administrator.execute("CREATE DATABASE two_schemas")
    public = postgres_server.url("two_schemas", store="notes", schema="public")
    with closing(PostgresCollection(public)) as store:
        store.add([MemoryItem(content_summary="tea")])
        assert not drop_store(postgres_server.url("two_schemas", store="notes", schema="nothing_yet"))
        assert store.count() == 1
        other = postgres_server.url("two_schemas", store="notes", schema="beside")
        with closing(PostgresCollection(other)) as beside:
            assert beside.database.store == store.database.store
            beside.add([MemoryItem(content_summary="tea")])
        assert drop_store(other)
        assert store.count() == 1
