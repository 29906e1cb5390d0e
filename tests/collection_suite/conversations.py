"""Which conversations a query is about: by their best item, and by what their items say together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from devmem import Filter, Scope
from devmem.storage import Collection, SearchQuery, Weights
from tests.collection_suite.fixtures import EMBEDDER, PLAIN, Opening, add_encoded, asked, found, turn

_TALKS = {
    "cooking": ["the soup needs more salt", "add pepper to the soup", "soup again tomorrow"],
    "travel": ["the train leaves at nine", "pack the tent for the lake", "soup at the station"],
    "garden": ["tomatoes grow well", "the hose leaks"],
}


def _filled(collection: Collection) -> Collection:
    add_encoded(
        collection,
        [
            turn(f"{talk} {at}", text, conversation=talk)
            for talk, texts in _TALKS.items()
            for at, text in enumerate(texts)
        ],
    )
    return collection


def _ranked(collection: Collection, query: SearchQuery) -> list[str | None]:
    return [group.conversation for group in collection.conversations(query)]


class Conversing(Opening):
    """Conversations instead of items."""

    def test_conversations_come_with_their_best_items(self, collection: Collection) -> None:
        """Each once, that of the best item first, and its items as a search ranks them."""
        query = asked("salt in the soup")
        groups = _filled(collection).conversations(query, hits_each=2)
        assert {group.conversation for group in groups} == set(_TALKS)
        ranked = [hit.item.id for hit in collection.search(query)]
        assert [groups[0].conversation, groups[0].hits[0].item.id] == ["cooking", ranked[0]]
        for group in groups:
            names = [hit.item.id for hit in group.hits]
            assert names == [name for name in ranked if name.startswith(str(group.conversation))][:2]
        assert [group.score for group in groups] == sorted((group.score for group in groups), reverse=True)
        for group in groups:
            assert sum(group.parts.values()) == pytest.approx(group.score)
            assert group.parts["best"] == pytest.approx(group.hits[0].score)

    def test_no_more_than_asked_for(self, collection: Collection) -> None:
        """`limit` bounds the conversations, `hits_each` the items of each."""
        groups = _filled(collection).conversations(asked("soup and tomatoes", limit=2), hits_each=1)
        assert [len(group.hits) for group in groups] == [1, 1]
        assert collection.conversations(asked("soup"), hits_each=0) == [], "each has at least one item"

    def test_the_names_of_conversations_decide_nothing(self, collection: Collection) -> None:
        """Groups of equal score keep the order of a search; of simultaneous turns each counts as the first."""
        for at, name in enumerate("pqrstuvwxyz"):
            add_encoded(collection, [turn(name, f"soup in town {at % 2}", conversation=name)])
        query = asked("soup in town", limit=20, ranking=replace(PLAIN, collapse=False))
        groups = collection.conversations(query)
        assert [group.hits[0].item.id for group in groups] == found(collection, query)
        assert len({round(group.score, 6) for group in groups[1:]}) <= 2

    def test_conversations_by_words_or_meaning_alone(self, collection: Collection) -> None:
        """A query without a signal is ranked by the others."""
        _filled(collection)
        assert _ranked(collection, SearchQuery(text="tent")) == ["travel"]
        assert _ranked(collection, SearchQuery(vector=EMBEDDER.vector("the hose leaks")))[0] == "garden"
        assert _ranked(collection, replace(asked("the hose leaks"), weights=Weights()))[0] == "garden"
        assert collection.conversations(SearchQuery(text=" ")) == []
        assert collection.conversations(SearchQuery(text="zeppelin")) == []
        assert collection.conversations(asked("soup", limit=0)) == []

    def test_a_filter_leaves_out_conversations(self, collection: Collection) -> None:
        """They are ranked by the items that it lets through."""
        _filled(collection)
        where = Filter(scope=Scope(conversation="travel"))
        groups = collection.conversations(asked("soup", where=where))
        assert [(group.conversation, group.hits[0].item.id) for group in groups] == [("travel", "travel 2")]

    def test_items_of_no_conversation_stand_for_themselves(self, collection: Collection) -> None:
        """None of them is in another's group."""
        add_encoded(
            collection, [turn(name, f"soup with {name}", conversation=None) for name in ("leek", "corn", "egg")]
        )
        groups = collection.conversations(asked("soup"))
        assert sorted(hit.item.id for group in groups for hit in group.hits) == ["corn", "egg", "leek"]
        assert [len(group.hits) for group in groups] == [1, 1, 1]

    def test_a_session_is_a_conversation_of_its_own(self, collection: Collection) -> None:
        """The same names with another user are another conversation."""
        items = [turn(f"{user} {at}", f"soup number {at}", user=user) for user in ("u", "v") for at in range(4)]
        halved = [replace(one, scope=replace(one.scope, session=f"s{at % 4 // 2}")) for at, one in enumerate(items)]
        add_encoded(collection, halved)
        groups = collection.conversations(asked("soup number"), hits_each=9)
        together = sorted((group.session, sorted(hit.item.id for hit in group.hits)) for group in groups)
        assert together == [
            ("s0", ["u 0", "u 1"]),
            ("s0", ["v 0", "v 1"]),
            ("s1", ["u 2", "u 3"]),
            ("s1", ["v 2", "v 3"]),
        ]

    def test_who_speaks_of_it_first_comes_before_who_comes_back_to_it(self, collection: Collection) -> None:
        """After the conversation of the best item, which is the first in any case."""
        question = "the new canoe is red and fast"
        for day in (9, 5, 1, 3, 7):
            text = question if day == 9 else "about the new canoe"
            when = datetime(2024, 3, day, tzinfo=UTC).timestamp()
            add_encoded(collection, [turn(f"day {day}", text, conversation=f"c{day}", event_time=when)])
        assert _ranked(collection, asked(question))[:2] == ["c9", "c1"]

    def test_a_time_in_the_query_brings_what_was_told_then_or_soon_after(self, collection: Collection) -> None:
        """A turn before the period cannot be about it."""
        for name, day in {"before": 1, "then": 6, "after": 9, "later": 20}.items():
            when = datetime(2024, 2, day, tzinfo=UTC).timestamp()
            texts = ["we went to the lake", f"nothing else in {name}"]
            items = [turn(f"{name} {at}", text, conversation=name, event_time=when) for at, text in enumerate(texts)]
            add_encoded(collection, items)
        groups = collection.conversations(asked("What did we do at the lake on 6 February 2024?"))
        near = {group.conversation: group.parts.get("in_time", 0.0) for group in groups}
        assert list(near)[:2] == ["then", "after"]
        assert near["then"] >= near["after"] > near["later"] > near["before"] == 0
