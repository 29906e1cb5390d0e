"""Random sequences of operations: a collection does what a plain list would do."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from devmem.collections import Collection, Filter, JsonCollection, SearchQuery, SqliteCollection, Unique
from devmem.embedding import PassageEmbeddings
from devmem.model.items import MemoryItem, Scope
from devmem.model.results import WriteStatus
from devmem.testing import HashEmbedder

EMBEDDER = HashEmbedder(dimension=16)
WORDS = ("tea", "rain", "train", "bread", "会议", "Zürich")
IDS = st.sampled_from([f"id {n}" for n in range(12)])
USERS = st.sampled_from([None, "ann", "bob"])
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
        older = next((one for one in self.items if one.id == item.id), None)
        if older is not None and older.content_hash == item.content_hash:
            return WriteStatus.DUPLICATE
        twins = (
            one for one in self.items if one.content_hash == item.content_hash and one.scope.user == item.scope.user
        )
        if unique is Unique.CONTENT and any(twins):
            return WriteStatus.DUPLICATE
        self.items = [one for one in self.items if one.id != item.id] + [item]
        return WriteStatus.SUPERSEDED if older else WriteStatus.STORED

    @rule(
        batch=st.lists(st.tuples(IDS, TEXTS, USERS, st.booleans()), min_size=1, max_size=4),
        unique=st.sampled_from(list(Unique)),
    )
    def add(self, batch: list[tuple[str, str, str | None, bool]], unique: Unique) -> None:
        items = [
            MemoryItem(
                id=name,
                content_summary=text,
                scope=Scope(user=user),
                embedding=EMBEDDER.vector(text) if embedded else None,
            )
            for name, text, user, embedded in batch
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
        by_words = self.collection.search(SearchQuery(text=word, limit=99, where=where))
        wanted = sorted(one.id for one in admitted if word in one.content_summary.split())
        assert sorted(hit.item.id for hit in by_words) == wanted
        by_vector = self.collection.search(SearchQuery(vector=EMBEDDER.vector(word), limit=99, where=where))
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
TestSqliteAgainstAList.settings = settings(max_examples=40, stateful_step_count=25)
TestJsonAgainstAList = JsonAgainstAList.TestCase
TestJsonAgainstAList.settings = settings(max_examples=25, stateful_step_count=20)
