"""A score is the sum of its parts, each of which one signal explains."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devmem import MemoryItem, Scope
from devmem.search import ContextFeatures, Features, ScoreBreakdown, add_context, overview_scores, score_features
from devmem.search.score import best_of_thread
from devmem.storage import Ranking, SearchQuery, SqliteCollection
from devmem.testing import HashEmbedder

SIGNALS = [part.name for part in fields(Features) if part.name != "thread"]
PARTS = [part.name for part in fields(ScoreBreakdown) if part.name not in ("signals", "late_interaction")]
LOSING = ("is_question", "second_person")
THREADS = st.lists(st.tuples(st.floats(0, 1, width=32), st.integers(-1, 4)), max_size=30)


def candidates(count: int, *, seed: int = 0, **signals: list[float]) -> Features:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {name: rng.random(count) for name in SIGNALS} | {"thread": rng.integers(-1, 3, count)}
    return replace(Features(**columns), **{name: np.array(column) for name, column in signals.items()})


def plain(count: int, **signals: list[float]) -> Features:
    """Features for whom nothing speaks but what is given."""
    nothing: dict[str, Any] = {name: np.zeros(count) for name in SIGNALS} | {"thread": np.full(count, -1)}
    return Features(**{**nothing, **{name: np.array(column) for name, column in signals.items()}})


def weighed(of: Features, **ranking: Any) -> ScoreBreakdown:
    return score_features(of, Ranking(**ranking), np.full(len(of.match), np.nan))


@given(values=THREADS)
def test_the_best_of_a_conversation(values: list[tuple[float, int]]) -> None:
    wanted = []
    for _, thread in values:
        best = sorted((value for value, other in values if other == thread), reverse=True)[:3]
        wanted.append(sum(best) / 3 if thread >= 0 else 0.0)
    score = np.array([value for value, _ in values], dtype=np.float64)
    threads = np.array([thread for _, thread in values], dtype=np.int64)
    assert best_of_thread(score, threads).tolist() == pytest.approx(wanted)


@given(seed=st.integers(0, 1000), count=st.integers(0, 12))
def test_the_parts_add_up_to_the_score(seed: int, count: int) -> None:
    evidence = weighed(candidates(count, seed=seed), importance=0.1)
    total = evidence.total()
    assert [sum(evidence.parts_of([at])[0].values()) for at in range(count)] == pytest.approx(total.tolist())
    assert all(set(evidence.parts_of([at])[0]) <= set(PARTS) for at in range(count))


def test_parts_that_are_nothing_are_left_out() -> None:
    assert weighed(plain(1, match=[0.5])).parts_of([0])[0] == {"match": 0.5}
    assert weighed(plain(1)).total().tolist() == [0.0]


@pytest.mark.parametrize("signal", [name for name in SIGNALS if name not in (*LOSING, "brevity")])
def test_every_signal_speaks_for_a_candidate(signal: str) -> None:
    given_signals = {signal: [0.0, 1.0], "brevity": [1.0, 1.0]}
    worse, better = weighed(plain(2, **given_signals), importance=0.1).total()
    assert better > worse


@pytest.mark.parametrize("signal", LOSING)
def test_a_mere_question_is_worth_less(signal: str) -> None:
    worse, better = weighed(plain(2, **{signal: [1.0, 0.0]})).total()
    assert worse < better


def test_a_conversation_lends_to_all_its_turns_and_to_no_other() -> None:
    of = plain(4, match=[0.9, 0.2, 0.2, 0.2], coverage=[0.8, 0.0, 0.0, 0.0], thread=[5, 5, 6, -1])
    lent = weighed(of).conversation
    assert lent[0] == lent[1] > 0
    assert lent[2] == lent[3] == 0


def test_the_best_matches_of_a_conversation_lend_where_there_are_no_token_vectors() -> None:
    of = plain(4, match=[0.9, 0.3, 0.3, 0.3], thread=[5, 5, 6, -1])
    lent = weighed(of).conversation
    assert lent[0] == lent[1] > lent[2] > lent[3] == 0
    assert not score_features(of, Ranking(), np.array([0.9, 0.3, np.nan, 0.3])).conversation.any()


@pytest.mark.parametrize(
    ("ranking", "silent"),
    [
        ({"context": False}, {"conversation", "speaker", "second_person"}),
        ({"time": "off"}, {"in_time"}),
        ({"recency": 0.0}, {"recency"}),
        ({"importance": 0.0}, {"importance"}),
    ],
)
def test_what_the_options_turn_off(ranking: dict[str, Any], silent: set[str]) -> None:
    of = candidates(6, seed=4, thread=[1, 1, 1, 2, 2, -1])
    everything, less = weighed(of, importance=0.1), weighed(of, **{"importance": 0.1, **ranking})
    for name in PARTS:
        if name in silent:
            assert not getattr(less, name).any(), name
            assert getattr(everything, name).any(), name
        else:
            assert np.array_equal(getattr(less, name), getattr(everything, name)), name


def test_the_options_scale_their_parts() -> None:
    of = plain(1, recency=[0.5], importance=[1.0])
    assert weighed(of, recency=0.4, importance=0.3).parts_of([0])[0] == pytest.approx(
        {"recency": 0.2, "importance": 0.3}
    )


def test_no_candidates() -> None:
    assert weighed(candidates(0)).total().shape == (0,)


def test_the_turns_around_lend_to_short_texts() -> None:
    of = plain(2, brevity=[1.0, 0.25])
    around = ContextFeatures(
        window=np.array([0.1, 0.1]),
        answered=np.array([0.0, 0.4]),
        restated=np.array([0.5, 0.5]),
        opening=np.array([0.0, 0.2]),
    )
    with_turns = add_context(weighed(of), around)
    assert with_turns.window[0] == pytest.approx(4 * with_turns.window[1])
    assert with_turns.answered[0] == 0 < with_turns.answered[1]
    assert with_turns.restated[0] == pytest.approx(4 * with_turns.restated[1])
    assert with_turns.opening[0] == 0 < with_turns.opening[1]
    assert with_turns.total()[0] > weighed(of).total()[0]


def test_for_an_overview_the_match_is_that_of_meaning_and_most_cues_do_not_count() -> None:
    of = candidates(3, seed=2)
    scores = overview_scores(weighed(of, importance=0.1), np.array([0.1, 0.9, 0.5]), np.array([0.2, 0.0, 0.1]))
    assert scores.match.tolist() == [0.1, 0.9, 0.5]
    assert scores.lexical.tolist() == [0.2, 0.0, 0.1]
    silent = (
        "window",
        "conversation",
        "speaker",
        "has_time",
        "names",
        "second_person",
        "standing",
    )
    assert all(not getattr(scores, name).any() for name in silent)
    assert all(getattr(scores, name).any() for name in ("in_time", "recency", "importance"))


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


def test_in_an_overview_of_what_people_said_each_turn_counts_alone() -> None:
    found = exchanges(speakers=("Ann", "Bob"))
    assert found["A kettle of glass suits it"]["match"] != pytest.approx(found["I drink oolong tea"]["match"])
    assert all("lexical" not in parts for parts in found.values())
