"""Each signal of the ranking keeps the quality that it gives on a small corpus of our own.

A floor lies a little below the quality reached when it was set, and above that without the signal. Raise a floor when
the ranking improves; a change that falls below one makes search worse, whatever else it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from statistics import mean

import pytest

from devmem import SearchReport
from devmem.config import RerankerConfig
from devmem.storage import Collection, Ranking
from devmem.stores.reranking import RerankStage
from devmem.testing import ManualClock

from .corpus import Question, Signal, ndcg, opened, query, signals

Open = Callable[[str, frozenset[str]], Collection]


@pytest.fixture(scope="module")
def collection() -> Iterator[Open]:
    with ExitStack() as stack:

        @cache
        def open_once(corpus: str, waiting: frozenset[str]) -> Collection:
            made = opened(corpus, waiting=waiting)
            stack.callback(made.close)
            return made

        yield open_once


def quality(collection: Collection, signal: Signal, question: Question) -> float:
    asked = query(question.text, signal.ranking)
    if signal.conversations:
        groups = collection.conversations(asked, hits_each=1)
        return ndcg([str(group.hits[0].item.scope.conversation) for group in groups], question.evidence)
    return ndcg([hit.item.id for hit in collection.search(asked)], question.evidence)


@pytest.mark.parametrize("signal", signals(), ids=lambda signal: signal.name)
def test_a_signal_keeps_its_quality(collection: Open, signal: Signal) -> None:
    measured = {
        each.text: quality(collection(signal.corpus, signal.waiting), signal, each) for each in signal.questions
    }
    assert mean(measured.values()) >= signal.floor, measured


class _Negative:
    """A reranker whose scores, as those of many cross encoders, are below those of the search."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = query.lower().split()
        return [sum(word in text.lower() for word in wanted) - 9.0 for text in texts]


def test_hits_that_a_reranker_did_not_read_stay_behind_those_that_it_read(collection: Open) -> None:
    config = RerankerConfig(type="negative", depth=5)
    stage = RerankStage(_Negative(), config, store="notes", clock=ManualClock())
    hits = (
        collection("conversations", frozenset()).search(query("blue bowl glaze", Ranking(), stage.candidates(10))).hits
    )
    reranked = stage.at(SearchReport(hits=hits), "four attempts blue", 10).hits
    read = [hit.item.id for hit in hits[:5]]
    assert ndcg([hit.item.id for hit in reranked], frozenset({"exhibition/1"})) == 1.0
    assert sorted(hit.item.id for hit in reranked[:5]) == sorted(read)
    assert [hit.score for hit in reranked] == sorted((hit.score for hit in reranked), reverse=True)
