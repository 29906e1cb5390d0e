"""A store that is dropped, or whose model is replaced, beside other work: nothing looks merely empty."""

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
from devmem.storage import Filter, SearchQuery
from devmem.storage.erasure import ErasePlan, EraseRequest
from devmem.storage.postgres.collection import PostgresCollection, drop_store
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.hnsw import HnswIndex
from devmem.storage.postgres.location import Location
from devmem.testing import HashEmbedder
from tools.bench.synthetic import make_corpus
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

ITEM = MemoryItem(id="1", content_summary="tea")

OPERATIONS: dict[str, Callable[[PostgresCollection], object]] = {
    "add": lambda store: store.add([ITEM]),
    "search": lambda store: store.search(SearchQuery(text="tea")),
    "recent": lambda store: store.recent(5),
    "count filtered": lambda store: store.count(Filter(metadata={"a": 1})),
    "values": lambda store: store.values("user"),
    "info": lambda store: store.info(),
    "delete": lambda store: store.delete(ids=["1"]),
    "replace_model": lambda store: store.replace_model("another", 16),
    "history": lambda store: store.history("1"),
    "run": lambda store: store.run("r"),
    "commit": lambda store: store.commit("r"),
    "diff": lambda store: store.diff(0.0),
    "erase": lambda store: store.erase(ids=["1"]),
    "select_erasable": lambda store: store.select_erasable(EraseRequest(where=Filter())),
    "begin_erasure": lambda store: store.begin_erasure(EraseRequest(where=Filter())),
    "finish_erasure": lambda store: store.finish_erasure(ErasePlan()),
    "states.get": lambda store: store.states.get([("kind", "name")]),
    "states.write": lambda store: store.states.write({("kind", "name"): b"1"}),
    "states.exclusive": lambda store: store.states.exclusive("indexing").__enter__(),
}


def test_every_operation_says_that_the_store_was_dropped(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as store:
        store.add([ITEM])
        with closing(store.run("pending")) as view:
            view.add([MemoryItem(id="2", content_summary="milk")])
            assert drop_store(store_url)
            silent = [name for name, operation in OPERATIONS.items() if not says_so(partial(operation, store))]
            in_run: dict[str, Callable[[], object]] = {
                "count": view.count,
                "get": lambda: view.get(["2"]),
                "search": lambda: view.search(SearchQuery(text="milk")),
                "add": lambda: view.add([ITEM]),
                "clear": view.clear,
            }
            silent += [f"run.{name}" for name, operation in in_run.items() if not says_so(operation)]
    assert silent == []


def says_so(operation: Callable[[], object]) -> bool:
    try:
        operation()
    except CollectionError as error:
        return "the store was dropped" in str(error)
    return False


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
