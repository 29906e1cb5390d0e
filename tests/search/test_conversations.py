"""The score of a conversation: best item, who spoke of it first, the time that is asked for, the stretch of talk."""

from __future__ import annotations

import pytest

from devmem import MemoryItem, Scope
from devmem.model.results import HitGroup
from devmem.storage import Ranking, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder

DAY = 86_400
NOW = 1_700_000_000.0
SAID = {
    "first": (30, "We plan the regatta of the old harbour."),
    "again": (20, "The regatta of the old harbour was moved."),
    "best": (10, "Who wins the regatta of the old harbour this year?"),
    "other": (5, "Tea is cheap."),
}


def groups(asked: str) -> dict[str, HitGroup]:
    """Return the conversations that are found, best first."""
    model, collection = HashEmbedder(dimension=32), SqliteCollection()
    collection.add(
        [
            MemoryItem(
                content_summary=text,
                embedding=model.vector(text),
                event_time=NOW - days * DAY,
                scope=Scope(conversation=name),
            )
            for name, (days, text) in SAID.items()
        ]
    )
    query = SearchQuery(text=asked, vector=model.vector(asked), ranking=Ranking(), now=NOW)
    found = collection.conversations(query, hits_each=1)
    collection.close()
    return {str(group.conversation): group for group in found}


def test_the_parts_add_up_to_the_score_and_that_of_the_best_item_leads() -> None:
    found = groups("Who wins the regatta of the old harbour this year?")
    assert next(iter(found)) == "best"
    for group in found.values():
        assert sum(group.parts.values()) == pytest.approx(group.score)
        assert group.parts["best"] == pytest.approx(group.hits[0].score)


def test_a_conversation_after_the_asked_time_is_nearer_the_sooner_it_was_and_one_before_knows_nothing() -> None:
    found = groups("What was said of the regatta 21 days ago?")
    near = {name: group.parts.get("in_time", 0.0) for name, group in found.items()}
    assert near["again"] > near["best"] > near["other"] > near["first"] == 0
