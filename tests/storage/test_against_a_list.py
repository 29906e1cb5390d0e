"""Random operations and items: a collection does what a plain list would do, and gives back what it got."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from devmem import MemoryItem, Scope, WriteStatus
from devmem.errors import VersionConflictError
from devmem.storage import (
    Collection,
    Filter,
    JsonCollection,
    Ranking,
    SearchQuery,
    SqliteCollection,
    Unique,
    version_hash,
)
from devmem.stores import ModelIdentity, PassageEmbeddings
from devmem.testing import HashEmbedder
from tests.generated import examples
from tests.strategies import items

EMBEDDER = HashEmbedder(dimension=16)
WORDS = ("tea", "rain", "train", "bread", "会议", "Zürich")
IDS = st.sampled_from([f"id {n}" for n in range(12)])
USERS = st.sampled_from([None, "ann", "bob"])
ALL = Ranking(collapse=False)
"""Without it, of two items that say the same the older is left out."""
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


class AgainstAList(RuleBasedStateMachine):
    """Keeps the items in a list too, in the order of storing."""

    kind: ClassVar[Any]
    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.items: list[MemoryItem] = []

    @initialize()
    def start(self) -> None:
        self.collection: Collection = self.open()

    def open(self) -> Collection:
        opened: Collection = self.kind(self.folder / self.name, model=EMBEDDER.identity)
        return opened

    def expect(self, item: MemoryItem, unique: Unique) -> WriteStatus:
        """Add it to the list as the contract says."""
        older = self.stored(item.id)
        if older is not None and version_hash(older) == version_hash(item):
            return WriteStatus.DUPLICATE
        same = (one for one in self.items if one.content_hash == item.content_hash)
        if unique is Unique.CONTENT and any(one.scope.user == item.scope.user for one in same if one.id != item.id):
            return WriteStatus.DUPLICATE
        if older is not None and older.content_hash == item.content_hash and item.embedding is None:
            item = replace(item, embedding=older.embedding)
        self.items = [one for one in self.items if one.id != item.id] + [item]
        return WriteStatus.SUPERSEDED if older else WriteStatus.STORED

    def stored(self, item_id: str) -> MemoryItem | None:
        return next((one for one in self.items if one.id == item_id), None)

    @rule(name=IDS, text=TEXTS, seen=IDS | st.none())
    def compare_and_set(self, name: str, text: str, seen: str | None) -> None:
        """Expect the version of some item, mostly another one, or none."""
        there, known = self.stored(name), self.stored(seen) if seen else None
        wanted = version_hash(known) if known else None
        item = MemoryItem(id=name, content_summary=text)
        if wanted != (version_hash(there) if there else None):
            with pytest.raises(VersionConflictError):
                self.collection.add([item], expected={name: wanted})
        else:
            status = self.expect(item, Unique.ID)
            assert self.collection.add([item], expected={name: wanted})[0].status is status

    @rule(count=st.integers(0, 3), user=USERS)
    def pop(self, count: int, user: str | None) -> None:
        newest = [one for one in self.items[::-1] if user in (None, one.scope.user)][:count]
        assert self.collection.pop(count, Filter(scope=Scope(user=user))) == newest
        self.items = [one for one in self.items if one not in newest]

    @rule(user=USERS, limit=st.none() | st.integers(0, 3))
    def values(self, user: str | None, limit: int | None) -> None:
        admitted = [one for one in self.items if user in (None, one.scope.user)]
        numbers = sorted({int(str(one.metadata["number"])) for one in admitted if "number" in one.metadata})
        where = Filter(scope=Scope(user=user))
        assert self.collection.values("metadata.number", where, limit=limit) == numbers[:limit]
        users = sorted({one.scope.user for one in admitted if one.scope.user is not None})
        assert self.collection.values("user", where, limit=limit) == users[:limit]

    @rule(
        batch=st.lists(
            st.tuples(IDS, TEXTS, USERS, st.booleans(), st.none() | st.integers(0, 2)), min_size=1, max_size=4
        ),
        unique=st.sampled_from(list(Unique)),
    )
    def add(self, batch: list[tuple[str, str, str | None, bool, int | None]], unique: Unique) -> None:
        items = [
            MemoryItem(
                id=name,
                content_summary=text,
                scope=Scope(user=user),
                metadata={} if number is None else {"number": number},
                embedding=EMBEDDER.vector(text) if embedded else None,
            )
            for name, text, user, embedded, number in batch
        ]
        expected = [self.expect(item, unique) for item in items]
        assert [outcome.status for outcome in self.collection.add(items, unique=unique)] == expected

    @rule(ids=st.lists(IDS, max_size=3, unique=True))
    def delete(self, ids: list[str]) -> None:
        gone = [one for one in self.items if one.id in ids]
        assert self.collection.delete(ids=ids) == len(gone)
        self.items = [one for one in self.items if one.id not in ids]

    @rule(user=st.sampled_from(["ann", "bob"]))
    def forget_user(self, user: str) -> None:
        kept = [one for one in self.items if one.scope.user != user]
        assert self.collection.delete(where=Filter(scope=Scope(user=user))) == len(self.items) - len(kept)
        self.items = kept

    @rule(keep=st.integers(0, 8))
    def trim(self, keep: int) -> None:
        surplus = max(len(self.items) - keep, 0)
        assert self.collection.trim(keep=keep) == surplus
        self.items = self.items[surplus:]

    @rule()
    def embed_what_waits(self) -> None:
        waiting = self.collection.waiting(100)
        assert [one.id for one in waiting] == [one.id for one in self.items if one.embedding is None]
        self.collection.set_embeddings(
            {one.id: PassageEmbeddings.of(EMBEDDER.vector(one.content_summary)) for one in waiting}
        )
        self.items = list(self.collection.scan())

    @rule()
    def open_again(self) -> None:
        self.collection.close()
        self.collection = self.open()

    @rule(word=st.sampled_from(WORDS), user=USERS)
    def search(self, word: str, user: str | None) -> None:
        where = Filter(scope=Scope(user=user))
        admitted = [one for one in self.items if user in (None, one.scope.user)]
        by_words = self.collection.search(SearchQuery(text=word, limit=99, where=where, ranking=ALL))
        wanted = sorted(one.id for one in admitted if word in one.content_summary.split())
        assert sorted(hit.item.id for hit in by_words) == wanted
        by_vector = self.collection.search(
            SearchQuery(vector=EMBEDDER.vector(word), limit=99, where=where, ranking=ALL)
        )
        embedded = sorted(one.id for one in admitted if one.embedding is not None)
        assert sorted(hit.item.id for hit in by_vector) == embedded

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "collection"):
            assert list(self.collection.scan()) == self.items
            assert self.collection.recent(3) == self.items[:-4:-1]
            assert self.collection.count() == self.collection.info().items == len(self.items)

    def teardown(self) -> None:
        if hasattr(self, "collection"):
            self.collection.close()
        shutil.rmtree(self.folder)


class SqliteAgainstAList(AgainstAList):
    kind, name = SqliteCollection, "store.db"


class JsonAgainstAList(AgainstAList):
    kind, name = JsonCollection, "store.json"


TestSqliteAgainstAList = SqliteAgainstAList.TestCase
TestSqliteAgainstAList.settings = settings(max_examples=examples(12), stateful_step_count=25)
TestJsonAgainstAList = JsonAgainstAList.TestCase
TestJsonAgainstAList.settings = settings(max_examples=examples(8), stateful_step_count=20)


DIMENSION = 8
MODEL = ModelIdentity(name="testing", dimension=DIMENSION)
ROUNDED = 5e-3
BATCHES = st.lists(items(DIMENSION), max_size=4, unique_by=lambda item: item.id)


def same(found: list[MemoryItem], wanted: list[MemoryItem]) -> None:
    """Compare items; a file rounds a vector to a byte per component."""
    assert found == wanted
    for one, other in zip(found, wanted, strict=True):
        assert (one.embedding is None) == (other.embedding is None)
        if one.embedding is not None and other.embedding is not None:
            assert one.embedding == pytest.approx(other.embedding, abs=ROUNDED)


@given(batch=BATCHES)
def test_every_collection_gives_back_what_it_got_and_finds_it(batch: list[MemoryItem]) -> None:
    """No text breaks the search, and an item with a vector is its own best match."""
    with TemporaryDirectory() as folder:
        in_memory = SqliteCollection(model=MODEL)
        in_memory.add(batch)
        opened: list[Collection] = [in_memory]
        for kind in (SqliteCollection, JsonCollection):
            written = kind(Path(folder, kind.__name__), model=MODEL)
            written.add(batch)
            # As in another process: the file is opened again.
            written.close()
            opened.append(kind(Path(folder, kind.__name__), model=MODEL))
        for collection in opened:
            same(collection.get([item.id for item in batch]), batch)
            same(list(collection.scan()), batch)
            same(collection.recent(len(batch))[::-1], batch)
            for item in batch:
                collection.search(SearchQuery(text=item.content_summary, vector=item.embedding))
                if item.embedding is not None:
                    best, *_ = collection.search(SearchQuery(vector=item.embedding))
                    assert best.similarity == pytest.approx(1.0, abs=ROUNDED)
            collection.close()
