"""A search follows what other processes write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from devmem import MemoryItem
from devmem.storage import Collection, JsonCollection, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder

Operate = Callable[[Path], Any]


@pytest.fixture(params=[SqliteCollection, JsonCollection])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path]:
    kind = request.param
    return kind, tmp_path / ("store.json" if kind is JsonCollection else "store.db")


def found(collection: Collection, embedder: HashEmbedder, text: str) -> list[str]:
    hits = collection.search(SearchQuery(text=text, vector=embedder.vector(text), limit=100))
    return sorted(hit.item.id for hit in hits)


def test_another_process_is_followed(place: tuple[Any, Path], operator: Operate, embedder: HashEmbedder) -> None:
    """Its adds, replacements, late embeddings and deletions; and it follows ours."""
    kind, path = place
    here = kind(path, model=embedder.identity)
    there = operator(path)
    here.add([MemoryItem(id="ours", content_summary="our tea", embedding=embedder.vector("our tea"))])
    assert there("search", text="tea") == ["ours"]
    assert there("add", texts={"theirs": "their tea"}) == ["stored"]
    assert found(here, embedder, "tea") == ["ours", "theirs"]
    assert there("add", texts={"ours": "a replacement of tea"}) == ["superseded"]
    assert found(here, embedder, "replacement")[0] == "ours"
    there("add_waiting", texts={"late": "late tea"})
    assert found(here, embedder, "late tea") == ["late", "ours", "theirs"]
    assert here.search(SearchQuery(vector=embedder.vector("late tea")))[0].item.id != "late"
    assert there("embed", texts={"late": "late tea"}) == 1
    assert here.search(SearchQuery(vector=embedder.vector("late tea")))[0].item.id == "late"
    assert there("delete", ids=["ours", "late"]) == 2
    assert found(here, embedder, "tea") == ["theirs"]
    assert here.count() == 1
    assert there.finish() == 0
    here.close()


def test_an_opening_that_slept_through_many_deletions(tmp_path: Path) -> None:
    path, kept = tmp_path / "store.db", MemoryItem(id="kept", content_summary="one note of rain")
    sleeper = SqliteCollection(path, durability="normal")
    sleeper.add([MemoryItem(id=str(n), content_summary=f"note {n}") for n in range(2_100)])
    sleeper.add([kept])
    assert len(sleeper.search(SearchQuery(text="note"))) == 10
    busy = SqliteCollection(path, durability="normal")
    for start in range(0, 2_100, 300):
        busy.delete(ids=[str(n) for n in range(start, start + 300)])
    busy.add([MemoryItem(id="new", content_summary="a new note")])
    for collection in (sleeper, busy):
        hits = collection.search(SearchQuery(text="note", limit=30_000))
        assert sorted(hit.item.id for hit in hits) == ["kept", "new"]
        assert collection.count() == 2
        collection.close()
