"""A search in a PostgreSQL database ranks as one in a SQLite file; sums are rounded in another order."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery, SqliteCollection
from devmem.storage.postgres import passages, search
from devmem.storage.postgres.collection import PostgresCollection
from devmem.testing import HashEmbedder, ManualClock

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
@pytest.mark.parametrize("most_counted", [10_000, 0])
def test_what_others_say_changes_no_score(
    store_url: str, monkeypatch: pytest.MonkeyPatch, most_counted: int, *, include_unscoped: bool
) -> None:
    """Also where the server finds the candidates, and counts in a sample, as for a user with thousands of items."""
    for name in ("_FEW", "_FEW_ADMITTED"):
        monkeypatch.setattr(search, name, 0)
    monkeypatch.setattr(passages, "_MOST_COUNTED", most_counted)
    monkeypatch.setattr(passages, "_LEAST_SAMPLED", 1)
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
        add("c", ["tea"])
        queries = ["tea and rain", "会议", "the garden in winter", "key"]
        before = [found(collection, text) for text in queries]
        add("b", ["tea garden key"] * 200)
        for text, expected in zip(queries, before, strict=True):
            now = found(collection, text)
            assert [name for name, _ in now] == [name for name, _ in expected] != []
            assert [score for _, score in now] == pytest.approx([score for _, score in expected], abs=1e-6)
