"""Candidates of a large store: found by words and by HNSW they hold what comparing with everything finds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from devmem.config import IndexConfig
from devmem.config.store import LEAST_FOR_APPROXIMATE
from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery
from devmem.storage.erasure import EraseRequest
from devmem.storage.postgres import passages, search
from devmem.storage.postgres.collection import PostgresCollection
from devmem.testing import HashEmbedder
from tools.bench.synthetic import Corpus, make_corpus
from tools.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

_ITEMS = LEAST_FOR_APPROXIMATE + 500


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(_ITEMS, dimension=32)


@pytest.fixture(scope="module")
def store(postgres_server: PostgresServer, corpus: Corpus) -> Iterator[PostgresCollection]:
    """A store with an HNSW index, of two users."""
    items = [
        MemoryItem(
            id=str(n), content_summary=text, embedding=vector, created_at=float(n), scope=Scope(user="ab"[n % 2])
        )
        for n, (text, vector) in enumerate(zip(corpus.texts, corpus.vectors, strict=True))
    ]
    url, model = postgres_server.url(store="candidates"), HashEmbedder(dimension=32).identity
    with closing(PostgresCollection(url, model=model, index=IndexConfig(search="approximate"))) as opened:
        opened.add(items)
        opened.maintain()
        yield opened


@pytest.mark.parametrize("most_exact", [0, 10_000])
@pytest.mark.parametrize("most_of_owners", [0, 100_000])
@pytest.mark.parametrize("most_counted", [0, 10_000])
@pytest.mark.parametrize(
    "where", [Filter(), Filter(scope=Scope(user="a")), Filter(before=_ITEMS / 2)], ids=["all", "user", "time"]
)
def test_the_best_hits_are_those_of_comparing_with_everything(
    store: PostgresCollection,
    corpus: Corpus,
    where: Filter,
    most_exact: int,
    most_of_owners: int,
    most_counted: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found() -> list[list[str]]:
        queries = [
            SearchQuery(text=corpus.texts[at], vector=corpus.vectors[at], limit=10, where=where)
            for at in range(0, 200, 20)
        ]
        return [[hit.item.id for hit in store.search(query)] for query in queries]

    for name in ("_FEW", "_FEW_ADMITTED"):
        monkeypatch.setattr(search, name, 10**6)
    everything = found()
    for name in ("_FEW", "_FEW_ADMITTED"):
        monkeypatch.setattr(search, name, 0)
    monkeypatch.setattr(search, "_MOST_EXACT", most_exact)
    monkeypatch.setattr(search, "_MOST_OF_OWNERS", most_of_owners)
    monkeypatch.setattr(passages, "_MOST_COUNTED", most_counted)
    monkeypatch.setattr(passages, "_LEAST_SAMPLED", 20)
    pairs = zip(everything, found(), strict=True)
    shared = [len(set(each) & set(other)) / len(each) for each, other in pairs]
    assert sum(shared) / len(shared) > 0.9


def test_terms_are_counted_as_items_come_and_go(store_url: str) -> None:
    """Also of what an item says next, of what a run commits, and of what is taken out of the archive."""
    counts = "SELECT term, texts, total_length::integer FROM terms WHERE store = %s AND texts <> 0 ORDER BY term"
    again = (
        "SELECT term, count(*)::integer, sum(length)::integer FROM passages, "
        "LATERAL (SELECT DISTINCT unnest(terms) AS term) AS each WHERE store = %s AND is_current "
        "GROUP BY term ORDER BY term"
    )
    totals = "SELECT texts, total_length FROM stores WHERE store = %s"
    totals_again = "SELECT count(*), sum(length)::bigint FROM passages WHERE store = %s AND is_current"
    with closing(PostgresCollection(store_url)) as store:
        store.add([MemoryItem(id=str(at), content_summary=f"tea and milk {at} " * at) for at in range(1, 9)])
        store.add([MemoryItem(id="1", content_summary="coffee, black")])
        store.delete(ids=["2"])
        store.archive(["3", "4"])
        store.restore(["4"])
        with closing(store.run("r")) as run:
            run.add([MemoryItem(id="5", content_summary="rain"), MemoryItem(id="new", content_summary="snow")])
            run.delete(ids=["6"])
        store.commit("r")
        store.erase(ids=["7"])
        for kept, wanted in ((counts, again), (totals, totals_again)):
            assert store._fetch(kept, [store.database.store]) == store._fetch(wanted, [store.database.store])


def test_an_erasure_leaves_no_term(store_url: str) -> None:
    """Hashes tell what a text was about, and of whom it was."""
    with closing(PostgresCollection(store_url)) as store:
        store.add([_of("a", "tea"), _of("b", "quillfeather")])
        store.finish_erasure(store.begin_erasure(EraseRequest(ids=("b",))))
        # The word that is left, and its user.
        assert store._fetch("SELECT texts FROM terms WHERE store = %s", [store.database.store]) == [(1,), (1,)]


def _of(user: str, text: str) -> MemoryItem:
    return MemoryItem(id=user, content_summary=text, scope=Scope(user=user))
