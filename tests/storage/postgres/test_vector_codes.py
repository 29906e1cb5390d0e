"""Searches on the server by codes of vectors that the process keeps: of blocks, of the tail, and of late vectors."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache

import numpy as np
import pytest

from devmem.config import IndexConfig
from devmem.errors import CollectionError
from devmem.model.items import MemoryItem, Scope, Vector
from devmem.models import ModelIdentity, PassageEmbeddings
from devmem.search import Weights
from devmem.search.indexes.columns import Rows
from devmem.storage import Filter, SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.server import maintenance, merging, vector_codes
from devmem.storage.postgres.server import merging as coding
from tools.bench.synthetic import Corpus, make_corpus

pytestmark = pytest.mark.postgres

SIZE = 1200
MODEL = ModelIdentity(name="codes", dimension=48)


@cache
def corpus() -> Corpus:
    """Return the texts and vectors, made when the first test asks."""
    return make_corpus(SIZE, dimension=48, words=4)


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "TAIL", 100)
    monkeypatch.setattr(maintenance, "TAIL", 100)
    monkeypatch.setattr(coding, "_LEAST", 100)


@pytest.fixture
def store(store_url: str) -> Iterator[PostgresCollection]:
    with closing(_open(store_url)) as opened:
        yield opened


def _open(url: str, codes_mb: int = 1) -> PostgresCollection:
    return PostgresCollection(url, model=MODEL, index=IndexConfig(mode="server", codes_mb=codes_mb))


def _item(at: int, *, embedded: bool = True) -> MemoryItem:
    return MemoryItem(
        id=str(at),
        content_summary=corpus().texts[at],
        embedding=corpus().vectors[at] if embedded else None,
        scope=Scope(user=f"user {at % 2}"),
        created_at=float(at),
    )


def _found(store: PostgresCollection, vector: Vector, user: str | None = None) -> list[int]:
    query = SearchQuery(
        vector=vector, limit=10, weights=Weights(similarity=1, lexical=0), where=Filter(scope=Scope(user=user))
    )
    return [int(hit.item.id) for hit in store.search(query)]


def _nearest(vector: Vector, among: range | list[int]) -> list[int]:
    numbers = np.array(among)
    return [int(each) for each in numbers[np.argsort(-(corpus().vectors[numbers] @ vector))[:10]]]


def _check(store: PostgresCollection, among: range | list[int]) -> None:
    for vector in corpus().vectors[:12]:
        assert _found(store, vector) == _nearest(vector, among)
        assert _found(store, vector, "user 1") == _nearest(vector, [at for at in among if at % 2])


def _blocks(store: PostgresCollection) -> int:
    ((count,),) = store._fetch("SELECT count(*) FROM vector_codes WHERE store = %s", [store._store])
    return int(count)


def test_the_nearest_are_found_in_blocks_and_in_the_tail(store: PostgresCollection) -> None:
    for first in range(0, SIZE - 50, 115):
        store.add([_item(at) for at in range(first, min(first + 115, SIZE - 50))])
        store.maintain()
        _check(store, range(min(first + 115, SIZE - 50)))
    assert 1 <= _blocks(store) < 8
    store.add([_item(at) for at in range(SIZE - 50, SIZE)])
    _check(store, range(SIZE))


def test_vectors_that_come_later_are_found(store: PostgresCollection) -> None:
    """Whether their item is in a segment already, and after their codes were merged too."""
    store.add([_item(at, embedded=at % 3 > 0) for at in range(600)])
    store.maintain()
    store.add([_item(at, embedded=at % 3 > 0) for at in range(600, 650)])
    _check(store, [at for at in range(650) if at % 3])
    late = {str(at): PassageEmbeddings.of(corpus().vectors[at]) for at in range(0, 650, 3)}
    assert store.set_embeddings(late) == len(late)
    _check(store, range(650))
    store.maintain()
    _check(store, range(650))
    coded = "SELECT sum(octet_length(passages) / 8)::int FROM vector_codes WHERE store = %s"
    assert store._fetch(coded, [store._store])[0][0] >= 600


def test_deleted_and_replaced_items_are_not_found(store: PostgresCollection, store_url: str) -> None:
    store.add([_item(at) for at in range(700)])
    store.maintain()
    _check(store, range(700))
    with closing(_open(store_url)) as other:
        other.delete(ids=[str(at) for at in range(0, 700, 4)])
        other.add([MemoryItem(id="1", content_summary="moved", embedding=corpus().vectors[1], scope=Scope(user="ann"))])
        left = [at for at in range(700) if at % 4]
        assert 1 not in _found(store, corpus().vectors[1], "user 1")
        assert _found(store, corpus().vectors[1], "ann") == [1]
        for vector in corpus().vectors[:12]:
            assert _found(store, vector) == _nearest(vector, left)
        other.maintain()
        assert _found(store, corpus().vectors[2]) == _nearest(corpus().vectors[2], left)


def test_another_model_has_codes_of_its_own(store: PostgresCollection) -> None:
    store.add([_item(at) for at in range(300)])
    store.maintain()
    _check(store, range(300))
    store.replace_model("another", 8)
    assert _blocks(store) == 0
    vectors = np.eye(8, dtype=np.float32)
    store.set_embeddings({str(at): PassageEmbeddings.of(vectors[at % 8]) for at in range(300)})
    for _ in range(2):
        assert {at % 8 for at in _found(store, vectors[5])} == {5}
        store.maintain()
    assert _blocks(store) == 1


def test_a_process_without_room_for_codes_finds_the_same(store: PostgresCollection, store_url: str) -> None:
    store.add([_item(at) for at in range(500)])
    store.maintain()
    with closing(_open(store_url, codes_mb=0)) as other:
        _check(other, range(500))
        _check(store, range(500))


def test_searches_within_a_filter_see_what_others_committed(store: PostgresCollection, store_url: str) -> None:
    """The rows of a filter are kept in memory, and what was committed since is read."""
    with closing(_open(store_url)) as other:
        for first in range(0, 500, 50):
            other.add([_item(at) for at in range(first, first + 50)])
            if first % 150 == 0:
                other.maintain()
            _check(store, range(first + 50))


def test_words_within_a_filter_are_ranked_as_in_memory(store: PostgresCollection, store_url: str) -> None:
    """Also where the postings are in the form for common terms, and were read by an earlier search."""
    store.add([_item(at) for at in range(900)])
    store.maintain()
    store.add([_item(at) for at in range(900, 950)])
    with closing(PostgresCollection(f"{store_url}&mode=follow", model=MODEL)) as follower:
        for at in (0, 1, 2, 0):
            for user in (None, "user 0", "user 1"):
                query = SearchQuery(text=corpus().texts[at], limit=20, where=Filter(scope=Scope(user=user)))
                there, here = (
                    [(hit.item.id, pytest.approx(hit.lexical)) for hit in each.search(query)]
                    for each in (store, follower)
                )
                assert there == here


def test_a_vector_that_comes_while_its_item_is_merged_is_found_once(
    store: PostgresCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its code is in the block, and counts as missing still: fewer are found than are wanted, and the search ends."""
    monkeypatch.setattr(maintenance.IndexMaintenance, "start", lambda *_arguments, **_options: None)
    store.add([_item(at, embedded=at != 1) for at in range(150)])

    write_codes = merging.write_codes

    def embed_first(connection: Connection, number: int, rows: Rows) -> None:
        store.set_embeddings({"1": PassageEmbeddings.of(corpus().vectors[1])})
        write_codes(connection, number, rows)

    monkeypatch.setattr(merging, "write_codes", embed_first)
    assert store._database.write(lambda connection: merging.merge_tail(connection, store._store)) == 150
    assert _blocks(store) == 1
    _check(store, range(150))


def test_vectors_whose_reading_failed_are_read_by_the_next_search(
    store: PostgresCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add([_item(at) for at in range(50)])
    with monkeypatch.context() as patched:
        patched.setattr(vector_codes, "_VECTORS", "SELECT 1 / 0")
        with pytest.raises(CollectionError, match="division"):
            _found(store, corpus().vectors[0])
    _check(store, range(50))


def test_two_processes_do_not_join_the_same_blocks(store: PostgresCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are there codes twice, nor does the one that comes later fail."""
    store.maintain()
    monkeypatch.setattr(maintenance.IndexMaintenance, "start", lambda *_arguments, **_options: None)
    for first in range(0, 400, 50):
        store.add([_item(at) for at in range(first, first + 50)])
        store._database.write(lambda connection: merging.merge_tail(connection, store._store))
    assert _blocks(store) == 8
    both = threading.Barrier(2)

    def step(connection: Connection) -> bool:
        both.wait(timeout=30)
        return coding.join_codes(connection, store._store)

    with ThreadPoolExecutor(2) as pool:
        joined = [pool.submit(store._database.write, step) for _ in range(2)]
        assert sorted(each.result(timeout=60) for each in joined) == [False, True]
    assert _blocks(store) == 1
    _check(store, range(400))
