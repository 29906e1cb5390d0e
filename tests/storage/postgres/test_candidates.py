"""Searches of a large store: candidates hold what comparing with everything finds, scores are those of SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from devmem.config import IndexConfig
from devmem.config.store import LEAST_FOR_APPROXIMATE
from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery, SqliteCollection
from devmem.storage.erasure import EraseRequest
from devmem.storage.postgres import search
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.tables import NOW
from devmem.testing import HashEmbedder, ManualClock
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
@pytest.mark.parametrize(
    "where", [Filter(), Filter(scope=Scope(user="a")), Filter(before=_ITEMS / 2)], ids=["all", "user", "time"]
)
def test_the_best_hits_are_those_of_comparing_with_everything(
    store: PostgresCollection,
    corpus: Corpus,
    where: Filter,
    most_exact: int,
    most_of_owners: int,
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


WORDS = "tea rain train launch budget river stone bread key lamp 会议 周五 garden winter song".split()


def test_scores_are_those_of_sqlite(store_url: str, tmp_path: Path) -> None:
    embedder, clock = HashEmbedder(), ManualClock()
    texts = [" ".join(WORDS[(n * step) % len(WORDS)] for step in range(1, 3 + n % 7)) for n in range(80)]
    vectors = embedder.embed(texts)
    items = [
        MemoryItem(
            id=str(n), content_summary=text, embedding=vectors[n], created_at=clock() - n, scope=Scope(user="ab"[n % 2])
        )
        for n, text in enumerate(texts)
    ]
    # The vectors of this provider are rounded in neither.
    model = replace(embedder.identity, name="given:own")
    with (
        closing(PostgresCollection(store_url, model=model, clock=clock)) as database,
        closing(SqliteCollection(tmp_path / "store.db", model=model, clock=clock)) as file,
    ):
        for collection in (database, file):
            collection.add(items)
            collection.delete(ids=["3", "17"])
        for text in ("tea and rain", "会议", "the garden in winter", "key"):
            for where in (Filter(), Filter(scope=Scope(user="a"))):
                query = SearchQuery(text=text, vector=embedder.embed([text])[0], limit=20, where=where)
                found = [[(hit.item.id, hit.score) for hit in each.search(query)] for each in (database, file)]
                assert [name for name, _ in found[0]] == [name for name, _ in found[1]] != []
                scores = [[score for _, score in each] for each in found]
                assert scores[0] == pytest.approx(scores[1], abs=1e-6)


@pytest.mark.parametrize("include_unscoped", [False, True])
def test_what_others_say_changes_no_score(
    store_url: str, monkeypatch: pytest.MonkeyPatch, *, include_unscoped: bool
) -> None:
    """Also where the server finds the candidates, as it does for a user with thousands of items."""
    for name in ("_FEW", "_FEW_ADMITTED"):
        monkeypatch.setattr(search, name, 0)
    embedder = HashEmbedder()
    texts = [" ".join(WORDS[(n * step) % len(WORDS)] for step in range(1, 4)) for n in range(60)]
    where = Filter(scope=Scope(user="a"), include_unscoped=include_unscoped)

    def found(collection: PostgresCollection, text: str) -> list[tuple[str, float]]:
        query = SearchQuery(text=text, vector=embedder.embed([text])[0], limit=20, where=where)
        return [(hit.item.id, hit.score) for hit in collection.search(query)]

    with closing(PostgresCollection(store_url, model=replace(embedder.identity, name="given:own"))) as collection:

        def add(user: str | None, given: list[str]) -> None:
            vectors = embedder.embed(given)
            collection.add(
                [
                    MemoryItem(id=f"{user}{n}", content_summary=text, embedding=vectors[n], scope=Scope(user=user))
                    for n, text in enumerate(given)
                ]
            )

        add("a", texts[:50])
        add(None, texts[50:])
        queries = ["tea and rain", "会议", "the garden in winter", "key"]
        before = [found(collection, text) for text in queries]
        add("b", ["tea garden key"] * 200)
        for text, expected in zip(queries, before, strict=True):
            now = found(collection, text)
            assert [name for name, _ in now] == [name for name, _ in expected] != []
            assert [score for _, score in now] == pytest.approx([score for _, score in expected], abs=1e-6)


_EMBEDDER = HashEmbedder(dimension=256)
_LARGE = 8_000
_FEW = [f"item {number}" for number in range(0, _LARGE, 100)]
# What a server does with a statement that it has run ten times: it does not look at the values any more.
_SETTINGS = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL max_parallel_workers_per_gather = 0"
_READ = (
    "SELECT COALESCE(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables "
    "WHERE relname ~ '^(passages|vectors|tokens)'"
)  # fmt: skip


@pytest.fixture(scope="module")
def large_store(postgres_server: PostgresServer) -> Iterator[PostgresCollection]:
    url = postgres_server.url(store="lookups")
    with closing(PostgresCollection(url, model=_EMBEDDER.identity, durability="normal")) as opened:
        texts = [f"train {number} leaves late" for number in range(_LARGE)]
        opened.add(
            [
                MemoryItem(id=f"item {at}", content_summary=text, scope=Scope(user="ann"), embedding=vector)
                for at, (text, vector) in enumerate(zip(texts, _EMBEDDER.embed(texts), strict=True))
            ]
        )
        opened.database.transactions.write(
            lambda connection: connection.execute("ANALYZE vectors, passages, tokens, items")
        )
        yield opened


def _embeddings(large_store: PostgresCollection, connection: Connection) -> int:
    return len(large_store.database._tables(connection).embeddings(_FEW, NOW))


def _ended(large_store: PostgresCollection, connection: Connection) -> int:
    return large_store._changes(large_store.database._tables(connection)).delete(_FEW, None)


def _removed(large_store: PostgresCollection, connection: Connection) -> int:
    return large_store.database._tables(connection).delete("id = ANY(?)", [_FEW])


class _UndoneError(Exception):
    """Rolls a transaction back."""


@pytest.mark.parametrize("operation", [_embeddings, _ended, _removed])
def test_no_table_is_read_from_end_to_end(
    large_store: PostgresCollection, operation: Callable[[PostgresCollection, Connection], int]
) -> None:
    """A plan for any number of items compared all vectors of the store with all of them."""
    found: list[int] = []

    def run(connection: Connection) -> None:
        for setting in _SETTINGS.split("; "):
            connection.execute(composed(setting))
        ((before,),) = connection.execute(_READ).fetchall()
        found.append(operation(large_store, connection))
        ((after,),) = connection.execute(_READ).fetchall()
        found.append(int(after - before))
        raise _UndoneError

    with pytest.raises(_UndoneError):
        large_store.database.transactions.write(run)
    assert found == [len(_FEW), 0]
