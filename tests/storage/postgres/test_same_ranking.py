"""A search in a PostgreSQL database ranks as one in a SQLite file; sums are rounded in another order."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from devmem.model.items import MemoryItem, Scope
from devmem.storage import Filter, SearchQuery, SqliteCollection
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
