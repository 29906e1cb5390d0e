"""A score is the sum of its parts, each of which one signal explains; without a ranking, signals are weighed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryItem, Scope
from devmem.search.query import fuse
from devmem.storage import Ranking, SearchQuery, SqliteCollection, Weights
from devmem.testing import HashEmbedder

TALK = (
    ("Ann", "Have you ever painted the harbour?"),
    ("Bob", "You painted it in May 2023, at low tide."),
    ("Ann", "I painted the harbour with oil last week, and Cleo Marsh bought it."),
    ("Bob", "Wonderful."),
)
ASKED = "When did Ann paint the harbour, was it last week?"
NOW = 1_700_000_000.0


@pytest.fixture(scope="module")
def talk() -> Iterator[SqliteCollection]:
    """Return a conversation of two, and a text that is of none, with vectors."""
    model, collection = HashEmbedder(dimension=32), SqliteCollection()
    items = [
        MemoryItem(
            content_summary=text,
            embedding=model.vector(text),
            event_time=NOW - 6 * 86_400,
            scope=Scope(conversation="talk"),
            metadata={"speaker": speaker, "importance": 0.5},
        )
        for speaker, text in TALK
    ]
    alone = "The harbour was dredged."
    items.append(MemoryItem(content_summary=alone, embedding=model.vector(alone), event_time=NOW - 90 * 86_400))
    collection.add(items)
    yield collection
    collection.close()


def parts(talk: SqliteCollection, asked: str = ASKED, **ranking: Any) -> dict[str, dict[str, float]]:
    """Return the parts of the hits by text, whose sum is the score."""
    options = Ranking(**{"importance": 0.1, "collapse": False, **ranking})
    query = SearchQuery(text=asked, vector=HashEmbedder(dimension=32).vector(asked), ranking=options, now=NOW)
    hits = talk.search(query).hits
    for hit in hits:
        assert sum(hit.parts.values()) == pytest.approx(hit.score)
        assert all(hit.parts.values())
    return {hit.item.content_summary: dict(hit.parts) for hit in hits}


def test_each_signal_speaks_for_what_has_it(talk: SqliteCollection) -> None:
    found = parts(talk)
    (_, question), (_, told), (_, answer), _ = TALK
    assert found[answer]["speaker"] > 0 > found[told]["speaker"]
    assert found[answer]["has_time"] == found[told]["has_time"] > 0
    assert found[question]["is_question"] < 0
    assert found[told]["second_person"] < 0
    assert "second_person" not in found[answer]
    assert found[answer]["in_time"] > 0
    assert "in_time" not in found["The harbour was dredged."]
    assert found[answer]["recency"] > found["The harbour was dredged."]["recency"]
    assert found[answer]["importance"] == 0.05
    assert "names" in parts(talk, "Who bought Ann's harbour?")[answer]


@pytest.mark.parametrize(
    ("ranking", "silent"),
    [
        ({"context": False}, {"conversation", "speaker", "second_person"}),
        ({"time": "off"}, {"in_time"}),
        ({"recency": 0.0}, {"recency"}),
        ({"importance": 0.0}, {"importance"}),
    ],
)
def test_what_the_options_turn_off(talk: SqliteCollection, ranking: dict[str, Any], silent: set[str]) -> None:
    everything, less = parts(talk), parts(talk, **ranking)
    for text, each in everything.items():
        assert {name: value for name, value in each.items() if name not in silent} == pytest.approx(less[text])
    assert all(any(name in each for each in everything.values()) for name in silent)


def test_who_speaks_says_less_where_many_do() -> None:
    collection = SqliteCollection()
    collection.add(
        [
            MemoryItem(
                content_summary=f"we could paint the harbour, says {speaker}",
                scope=Scope(conversation=conversation),
                metadata={"speaker": speaker},
            )
            for conversation, speakers in {"two": ("Ann", "Bob"), "three": ("Ann", "Bob", "Cleo")}.items()
            for speaker in speakers
        ]
    )
    query = SearchQuery(text="What did Ann want to paint at the harbour?", ranking=Ranking(collapse=False))
    found = {
        (hit.item.scope.conversation, hit.item.metadata["speaker"]): hit.parts.get("speaker", 0.0)
        for hit in collection.search(query)
    }
    assert len(found) == 5
    assert found["two", "Ann"] > found["three", "Ann"] > 0
    assert found["two", "Bob"] < 0
    assert found["three", "Bob"] == found["three", "Cleo"] == 0
    collection.close()


def exchanges(*, speakers: tuple[str, str]) -> dict[str, dict[str, float]]:
    """Return the parts of the hits for an overview, by text."""
    model = HashEmbedder(dimension=32)
    texts = {"tea": ("I drink oolong tea", "A kettle of glass suits it"), "sea": ("I swim daily", "Mind the tide")}
    collection = SqliteCollection()
    collection.add(
        [
            MemoryItem(
                content_summary=text,
                embedding=model.vector(text),
                scope=Scope(conversation=name),
                metadata={"speaker": speaker},
            )
            for name, pair in texts.items()
            for text, speaker in zip(pair, speakers, strict=True)
        ]
    )
    asked = "Give me a summary of my oolong tea"
    hits = collection.search(SearchQuery(text=asked, vector=model.vector(asked)))
    collection.close()
    return {hit.item.content_summary: dict(hit.parts) for hit in hits}


def test_an_overview_takes_an_exchange_with_an_assistant_as_one() -> None:
    found = exchanges(speakers=("user", "assistant"))
    for part in ("match", "lexical"):
        assert found["A kettle of glass suits it"][part] == pytest.approx(found["I drink oolong tea"][part])
    assert found["I drink oolong tea"]["lexical"] > found["Mind the tide"].get("lexical", 0.0)


NAN = float("nan")
SIGNALS = st.lists(
    st.tuples(st.just(NAN) | st.floats(-1, 1, width=32), st.floats(0, 50, width=32)), min_size=1, max_size=20
)


def fused(similarities: list[float], words: list[float], **weights: float) -> list[float]:
    scores: list[float] = fuse(np.array(similarities), np.array(words), Weights(**weights)).tolist()
    return scores


@pytest.mark.parametrize(
    ("similarity", "lexical", "wanted"),
    [
        # Similarity is stretched from its least to its most, words from none to their most.
        ([0.2, 0.6, 0.4], [0.0, 5.0, 10.0], [0.0, 0.75, 0.75]),
        ([0.2, 0.6], [0.0, 0.0], [0.0, 1.0]),
        ([NAN, NAN], [4.0, 8.0], [0.5, 1.0]),
        # Without an embedding a candidate counts as the least similar, not as unknown.
        ([NAN, 0.1, 0.5], [8.0, 0.0, 0.0], [0.5, 0.0, 0.5]),
        # Equal similarities speak for all of them.
        ([0.3, 0.3], [0.0, 2.0], [0.5, 1.0]),
        ([NAN], [0.0], [0.0]),
    ],
)
def test_equal_weights(similarity: list[float], lexical: list[float], wanted: list[float]) -> None:
    assert fused(similarity, lexical) == pytest.approx(wanted)


@given(signals=SIGNALS)
def test_who_is_better_by_both_is_better(signals: list[tuple[float, float]]) -> None:
    known = [pair for pair in signals if not np.isnan(pair[0])]
    scores = fused([pair[0] for pair in known], [pair[1] for pair in known])
    for one, first in zip(known, scores, strict=True):
        for other, second in zip(known, scores, strict=True):
            if one[0] <= other[0] and one[1] <= other[1]:
                assert first <= second + 1e-9
