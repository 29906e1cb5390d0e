"""Files beside the database, other than SQLite's log, are caches: whatever happens to them, a search finds the same."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from devmem import MemoryItem
from devmem.config import IndexConfig
from devmem.storage import SearchQuery, SqliteCollection
from devmem.stores import PassageEmbeddings
from devmem.testing import HashEmbedder

Notes = Callable[..., list[MemoryItem]]
SIZES = [300, pytest.param(2400, marks=pytest.mark.kit)]
"""Numbers of items: enough for whatever is kept beside a file, and for an approximate index."""
TEXT = "number 7 about rain"


@pytest.fixture(params=SIZES)
def store(request: pytest.FixtureRequest, tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> Path:
    """A file that was searched."""
    folder = tmp_path / "store"
    folder.mkdir()
    fill(folder / "store.db", embedder, notes(0, request.param))
    return folder / "store.db"


def opened(path: Path, embedder: HashEmbedder) -> SqliteCollection:
    return SqliteCollection(path, model=embedder.identity, index=IndexConfig(search="approximate"))


def fill(path: Path, embedder: HashEmbedder, items: list[MemoryItem]) -> None:
    with closing(opened(path, embedder)) as collection:
        collection.add(items)
        collection.search(SearchQuery(text=TEXT, vector=embedder.vector(TEXT)))


def caches(path: Path) -> list[Path]:
    return [file for file in path.parent.iterdir() if file != path and not file.name.endswith(("-wal", "-shm"))]


def check(path: Path, embedder: HashEmbedder, text: str = TEXT) -> None:
    """Compare what is found with what is found in a copy of the database alone, twice."""
    alone = path.with_name("alone") / path.name
    alone.parent.mkdir()
    shutil.copy(path, alone)
    found = []
    for place in (path, path, alone):
        with closing(opened(place, embedder)) as collection:
            by_vector = collection.search(SearchQuery(vector=embedder.vector(text), limit=5))
            by_words = collection.search(SearchQuery(text=text, limit=5))
            assert all(hit.item in list(collection.get([hit.item.id])) for hit in (*by_vector, *by_words))
            found.append([[hit.score for hit in hits] for hits in (by_vector, by_words)])
    shutil.rmtree(alone.parent)
    for each in found[:2]:
        assert each[0] == pytest.approx(found[2][0], abs=8e-3)
        # Rows that were deleted count in the statistics of the words for a while.
        assert each[1] == pytest.approx(found[2][1], rel=0.1)


def cut_off(content: bytes, share: float) -> bytes:
    return content[: int(len(content) * share)]


def flip(content: bytes, share: float) -> bytes:
    damaged = bytearray(content)
    if damaged:
        damaged[int(len(damaged) * share)] ^= 0x10
    return bytes(damaged)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    **{f"cut off at {share}": partial(cut_off, share=share) for share in (0.01, 0.9)},
    **{f"bit at {share}": partial(flip, share=share) for share in (0.0, 0.002, 0.3, 0.999)},
    "another program's": lambda _: b"something else\n" * 1000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache(store: Path, embedder: HashEmbedder, damage: str) -> None:
    for file in caches(store):
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
    check(store, embedder)


def test_a_cache_that_is_gone_or_cannot_be_written(store: Path, embedder: HashEmbedder) -> None:
    for file in caches(store):
        file.unlink()
    check(store, embedder)
    for file in caches(store):
        file.unlink()
        file.mkdir()
    check(store, embedder)
    assert not list(store.parent.glob("*.part"))


def test_the_cache_of_another_database(store: Path, tmp_path: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """It has as many rows, and none of these items."""
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / store.name
    with closing(opened(store, embedder)) as collection:
        fill(other, embedder, notes(0, collection.count(), about="letter"))
    for file in caches(other):
        shutil.copy(file, store.parent)
    check(store, embedder)
    check(store, embedder, "letter number 7")


def test_what_was_written_since(store: Path, notes: Notes, embedder: HashEmbedder) -> None:
    """Adds, deletions, replacements and late embeddings are followed."""
    late = MemoryItem(id="late", content_summary=f"{TEXT} and more")
    with closing(opened(store, embedder)) as collection:
        collection.add([late, *notes(5000, 5020)])
        collection.delete(ids=[item.id for item in notes(0, 15)])
        collection.add([MemoryItem(id="note 20", content_summary="replaced", embedding=embedder.vector("replaced"))])
        collection.set_embeddings({"late": PassageEmbeddings.of(embedder.vector(late.content_summary))})
    for text in (TEXT, "replaced"):
        check(store, embedder, text)


@pytest.mark.parametrize("grown", [False, True])
def test_a_database_that_was_put_back_from_a_copy(
    store: Path, notes: Notes, embedder: HashEmbedder, *, grown: bool
) -> None:
    """The cache knows items that the database never had, or has others of."""
    copy = store.parent.with_name("copy.db")
    shutil.copy(store, copy)
    fill(store, embedder, notes(5000, 5600))
    newer = {file: file.read_bytes() for file in caches(store)}
    shutil.copy(copy, store)
    if grown:
        fill(store, embedder, notes(5000, 5600, about="letter"))
        for file, content in newer.items():
            file.write_bytes(content)
    check(store, embedder, "note number 5007 about bread")
    check(store, embedder, "letter number 5007 about bread")


def test_a_cache_from_before_another_model(store: Path, embedder: HashEmbedder) -> None:
    other = HashEmbedder(dimension=32, name="testing:other")
    before = {file: file.read_bytes() for file in caches(store)}
    with closing(opened(store, embedder)) as collection:
        collection.replace_model(other.identity.name, 32)
        waiting = collection.waiting(5000)
        collection.set_embeddings(
            {item.id: PassageEmbeddings.of(-embedder.vector(item.content_summary)) for item in waiting}
        )
    for file, content in before.items():
        file.write_bytes(content)
    check(store, other)
