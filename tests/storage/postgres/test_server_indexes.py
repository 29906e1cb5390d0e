"""Indexes in the database: merged, joined, made again, and searched as those in memory are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from devmem.config import IndexConfig
from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery, SqliteCollection
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.server import maintenance, merging
from devmem.storage.postgres.server import texts as searched_texts
from devmem.storage.postgres.writes import BatchWriter
from devmem.storage.writing import PreparedItem, Unique
from devmem.testing import HashEmbedder, ManualClock
from tools.bench.synthetic import make_corpus

SERVER = IndexConfig(mode="server")
WORDS = "tea rain train launch budget river stone bread key lamp 会议室 周五见面 garden winter song".split()


@pytest.fixture(autouse=True)
def _short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a few items, of which eight are joined, and masks even for few admitted items."""
    monkeypatch.setattr(merging, "TAIL", 5)
    monkeypatch.setattr(maintenance, "TAIL", 5)
    monkeypatch.setattr(searched_texts, "_FEW", 3)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[PostgresCollection]:
    with closing(_open(store_url, clock)) as opened:
        yield opened


def _open(url: str, clock: ManualClock) -> PostgresCollection:
    return PostgresCollection(url, model=HashEmbedder().identity, clock=clock, index=SERVER)


def _items(count: int, first: int = 0) -> list[MemoryItem]:
    embedder = HashEmbedder()
    texts = [
        " ".join(WORDS[(n * step) % len(WORDS)] for step in range(1, 3 + n % 7)) for n in range(first, first + count)
    ]
    vectors = embedder.embed(texts)
    return [
        MemoryItem(
            id=str(n),
            content_summary=text,
            embedding=vector,
            created_at=1e9 + n,
            scope=Scope(user="ab"[n % 2], conversation=f"c{n // 10}"),
            expires_at=1e12 if n % 11 else 3e9,
        )
        for n, (text, vector) in enumerate(zip(texts, vectors, strict=True), first)
    ]


def _segments(store: PostgresCollection) -> list[int]:
    query = "SELECT texts FROM segments WHERE store = %s ORDER BY segment"
    return [texts for (texts,) in store._fetch(query, [store._store])]


def _queries() -> list[SearchQuery]:
    embedder = HashEmbedder()
    texts = ("tea and rain", "会议室", "议", "the garden in winter", "key 周五见面", "the and of", "nowhere")
    wheres = (Filter(), Filter(scope=Scope(user="a")), Filter(scope=Scope(user="b"), after=1e9 + 20))
    return [
        SearchQuery(text=text, vector=embedder.embed([text])[0], limit=20, where=where, now=2e9)
        for text in texts
        for where in wheres
    ]


def _assert_ranks_alike(one: PostgresCollection | SqliteCollection, other: PostgresCollection) -> None:
    for query in _queries():
        found = [{hit.item.id: hit.score for hit in each.search(query)} for each in (one, other)]
        assert found[1] == pytest.approx(found[0], abs=1e-5), query.text


def test_segments_rank_as_a_file_does(store: PostgresCollection, clock: ManualClock, tmp_path: Path) -> None:
    """Whatever is in segments and whatever is in the tail; a file rounds no vectors of the provider `given`."""
    model = replace(HashEmbedder().identity, name="given:own")
    with closing(SqliteCollection(tmp_path / "store.db", model=model, clock=clock)) as file:
        for first in range(0, 90, 9):
            for collection in (file, store):
                collection.add(_items(9, first))
            if first % 2:
                store.maintain()
                _assert_ranks_alike(file, store)
        assert sum(_segments(store)) >= 80
        _assert_ranks_alike(file, store)


def test_deleted_and_expired_items_are_not_found(store: PostgresCollection, clock: ManualClock) -> None:
    """Neither are fewer of the others."""
    store.add(_items(60))
    store.maintain()
    store.delete(ids=[str(n) for n in range(0, 40, 2)])
    clock.advance(4e9 - clock())
    gone = {str(n) for n in range(0, 40, 2)} | {str(n) for n in range(0, 60, 11)}
    query = SearchQuery(text="tea rain train launch budget river", vector=HashEmbedder().embed(["tea"])[0], limit=100)
    found = {hit.item.id for hit in store.search(query)}
    assert not found & gone
    assert len(found) == 60 - len(gone)


def test_a_segment_of_mostly_deleted_items_is_made_again(store: PostgresCollection) -> None:
    """So that the postings of what was deleted do not stay."""
    store.add(_items(60))
    store.maintain()
    store.delete(ids=[str(n) for n in range(50)])
    store.maintain()
    assert _segments(store) == [10]
    assert {hit.item.id for hit in store.search(SearchQuery(text="tea rain", limit=60))} <= {
        str(n) for n in range(50, 60)
    }


def test_small_segments_are_joined(store: PostgresCollection) -> None:
    for first in range(0, 80, 5):
        store.add(_items(5, first))
        store.maintain()
    assert len(_segments(store)) <= 8
    assert sum(_segments(store)) == 80


def test_what_commits_late_is_found(store_url: str, store: PostgresCollection, clock: ManualClock) -> None:
    """A row whose number is lower than those in segments, but whose transaction ended after they were made."""
    (late,) = _items(1, 500)
    with closing(_open(store_url, clock)) as other:

        def add_slowly(connection: Connection) -> None:
            writer = BatchWriter(other._version_writer(connection), has_model=True, clock=clock)
            writer.add([PreparedItem.of(late)], Unique.ID, {})
            store.add(_items(20))
            store.maintain()

        other._database.write(add_slowly)
    assert sum(_segments(store)) == 20
    assert "500" in {hit.item.id for hit in store.search(SearchQuery(text=late.content_summary, limit=50))}
    store.add(_items(20, 600))
    store.maintain()
    assert sum(_segments(store)) == 41


def test_another_analysis_makes_the_segments_again(store_url: str, clock: ManualClock) -> None:
    with closing(_open(store_url, clock)) as store:
        store.add(_items(30))
        store.maintain()
        assert _segments(store)
        store._database.write(lambda one: one.execute("UPDATE stores SET analysis = 'older'"))
    with closing(_open(store_url, clock)) as store:
        assert {hit.item.id for hit in store.search(SearchQuery(text="tea", limit=30))}
        store.maintain()
        assert sum(_segments(store)) == 30


@pytest.mark.postgres
def test_many_vectors_are_searched_by_hnsw(store_url: str, clock: ManualClock) -> None:
    """It finds what comparing with all finds, and is gone when the vectors of another model come."""
    corpus = make_corpus(1500, dimension=32)
    items = [
        MemoryItem(id=str(n), content_summary=text, embedding=vector, created_at=float(n))
        for n, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
    ]
    model = HashEmbedder(dimension=32).identity
    with closing(
        PostgresCollection(
            store_url, model=model, clock=clock, index=IndexConfig(mode="server", search="approximate", codes_mb=0)
        )
    ) as store:
        store.add(items)
        store.maintain()
        valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)"
        assert store._fetch(valid, [f"vectors_hnsw_{store._store}"]) == [(True,)]
        for vector in corpus.vectors[:20]:
            found = [int(hit.item.id) for hit in store.search(SearchQuery(vector=vector, limit=10))]
            exact = np.argsort(-(corpus.vectors @ vector))[:10]
            assert len({*found} & {*exact.tolist()}) >= 9
        assert store.replace_model("another", 16) == 1500
        assert store._fetch(valid, [f"vectors_hnsw_{store._store}"]) == []


def test_auto_follows_until_there_is_much(store_url: str, clock: ManualClock) -> None:
    config = IndexConfig(server_from=20)
    with closing(PostgresCollection(store_url, clock=clock, index=config)) as store:
        assert store.info().mode == "follow"
        store.add(_items(25))
    with closing(PostgresCollection(store_url, clock=clock, index=config)) as store:
        assert store.info().mode == "server"
        assert store.search(SearchQuery(text="tea"))
    with closing(PostgresCollection(f"{store_url}&mode=follow", clock=clock, index=config)) as store:
        assert store.info().mode == "follow"


def test_items_without_words_are_in_segments_too(store: PostgresCollection) -> None:
    store.add([MemoryItem(id=str(n), content_summary=" ", created_at=1e9 + n) for n in range(9)])
    store.maintain()
    assert _segments(store) == [9]


def test_asked_to_it_merges_however_little_there_is(
    store_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "TAIL", 1000)
    with closing(_open(store_url, clock)) as store:
        store.add(_items(3))
        store.maintain()
        assert _segments(store) == [3]
