"""Stored items are found: by words, by meaning, within their scope, also after an outage of the provider."""

# ruff: noqa: S101 - a suite asserts
from __future__ import annotations

import asyncio
from functools import partial

import pytest

from devmem.model.filters import Filter
from devmem.model.items import MemoryContentSnapshot, Scope
from devmem.model.results import WriteStatus
from devmem.search.indexes.passages import passages_of
from devmem.stores.memory import MemoryBase, MemoryQuery
from devmem.testing.abilities import needs
from devmem.testing.clock import ManualClock
from devmem.testing.embedders import FailingEmbedder, HashEmbedder
from devmem.testing.store_suite.fixtures import NAME, Opening, OpenStore

_FACTS = {
    "key": ("Where is the spare key?", "The spare key is under the blue flowerpot."),
    "train": ("When does the train leave?", "The night train to Vienna leaves at nine."),
    "bread": ("How long does the bread bake?", "Sourdough bread bakes for forty minutes."),
}


class Recalling(Opening):
    """Retrieve and search."""

    def filled(self, store: MemoryBase) -> MemoryBase:
        """Return the store with three facts in it."""
        for asked, answered in _FACTS.values():
            assert store.update(self.exchange(asked, answered)).status is WriteStatus.STORED
        return store

    @pytest.mark.parametrize("fact", _FACTS)
    @pytest.mark.parametrize("embedded", [True, False])
    @needs("searches")
    def test_the_fitting_item_comes_first(self, open_store: OpenStore, fact: str, embedded: bool) -> None:
        """With an embedding and without one."""
        store = self.filled(open_store(embedder=HashEmbedder() if embedded else None))
        asked, answered = _FACTS[fact]
        best, *_ = store.retrieve("", asked, 3)
        assert answered in best.content_summary

    def test_no_more_than_asked_for(self, store: MemoryBase) -> None:
        """`top_k` bounds the answer; none is asked for with 0."""
        self.filled(store)
        assert len(store.retrieve("", "the train the key the bread", 2)) == 2
        assert len(store.retrieve("", "the train the key the bread", 99)) == 3
        assert store.retrieve("", "the train", 0) == []

    def test_an_empty_store_gives_nothing(self, store: MemoryBase) -> None:
        """The first node of a workflow finds an empty memory."""
        assert store.retrieve("", "anything", 3) == []

    def test_conversations_are_found(self, store: MemoryBase) -> None:
        """At most `top_k` conversations of at most `hits_each` items, every item marked with the store's name."""
        self.filled(store)
        groups = store.search_conversations(MemoryQuery(text="the train the key the bread", limit=2), hits_each=1)
        assert 1 <= len(groups) <= 2
        assert [len(group.hits) for group in groups] == [1] * len(groups)
        assert all(hit.store == NAME for group in groups for hit in group.hits)
        assert store.search_conversations(MemoryQuery(text="the train", limit=0)) == []

    def test_a_query_may_be_a_snapshot(self, store: MemoryBase) -> None:
        """As nodes ask it."""
        self.filled(store)
        query = MemoryContentSnapshot(text="the night train to Vienna")
        assert store.retrieve("", query, 1) == store.retrieve("", query.text, 1)

    def test_hits_name_their_store_and_are_in_order(self, store: MemoryBase) -> None:
        """Best first, each with its score."""
        asked = partial(MemoryQuery, text="the spare key", limit=3, asked_at=ManualClock().now)
        hits = self.filled(store).search(asked())
        assert {hit.store for hit in hits} == {NAME}
        if self.searches:
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert asyncio.run(store.asearch(asked())) == hits

    def test_a_scope_is_respected(self, store: MemoryBase) -> None:
        """One user's items are not shown to another."""
        for user in ("ann", "bob"):
            store.update(
                self.exchange("What is my code word?", f"Your code word is {user}-secret.", scope=Scope(user=user))
            )
        where = Filter(scope=Scope(user="bob"))
        hits = store.search(MemoryQuery(text="what is my code word", limit=5, where=where))
        assert [hit.item.scope.user for hit in hits] == ["bob"]
        assert store.count(where) == 1
        assert store.delete(where=where) == 1
        assert store.count() == 1

    def test_the_same_words_of_two_users_are_two_items(self, store: MemoryBase) -> None:
        """A text that one user said is no duplicate when another says it."""
        for user in ("ann", "bob"):
            payload = self.exchange("What do I like?", "You like dark chocolate.", scope=Scope(user=user))
            assert store.update(payload).status is WriteStatus.STORED

    @needs("searches", "embeds")
    def test_less_similar_items_are_left_out(self, open_store: OpenStore) -> None:
        """The threshold is a cosine."""
        embedder = HashEmbedder()
        store = self.filled(open_store(embedder=embedder))
        (train,) = [item for item in store.recent(9) if "Vienna" in item.content_summary]
        assert store.retrieve("", passages_of(train)[0], 3, similarity_threshold=0.95) == [train]

    @needs("embeds")
    def test_a_provider_that_is_down_costs_no_write(self, open_store: OpenStore) -> None:
        """The item is stored, found by its words, and embedded when the provider answers again."""
        clock, embedder = ManualClock(), FailingEmbedder()
        store = open_store(embedder=embedder, clock=clock)
        asked, answered = _FACTS["train"]
        outcome = store.update(self.exchange(asked, answered))
        assert (outcome.status, outcome.waiting) == (WriteStatus.STORED, True)
        assert store.info().waiting == 1
        assert answered in store.retrieve("", "night train", 1)[0].content_summary
        embedder.recover()
        clock.advance(3600)
        store.save()
        assert store.info().waiting == 0
        (hit,) = store.search(MemoryQuery(text=f"{asked} {answered}", limit=1))
        assert hit.similarity is not None
        assert hit.similarity > 0.5

    @needs("embeds")
    def test_a_provider_that_is_down_is_not_asked_at_every_write(self, open_store: OpenStore) -> None:
        """The store backs off, so that an outage does not slow down every node."""
        embedder = FailingEmbedder()
        store = open_store(embedder=embedder)
        for n in range(20):
            store.update(self.exchange(f"question number {n}", f"the answer to that is {n}"))
        assert embedder.refused == 1
        assert store.info().waiting == store.count() == 20
