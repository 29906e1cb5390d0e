"""A chat model picks the related messages; when it cannot, the search's own order stays, and that is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from devmem.config import RerankerConfig
from devmem.errors import ChatModelError, RerankerError
from devmem.models import register_reranker
from devmem.stores import ChatReply, ChatRequest
from devmem_stores.role_zero.config import ChatRanker, RankerConfig
from devmem_stores.role_zero.role import RoleMessages

from .conftest import OpenStore, ids, said


class Chooser:
    """A chat model that prefers the messages with a word."""

    def __init__(self, word: str, answer: str | None = None) -> None:
        self.word, self.answer = word, answer
        self.requests: list[ChatRequest] = []

    def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        shown = json.loads(request.messages[-1].content)["messages"]
        chosen = [each["number"] for each in shown if self.word in each["text"]]
        return ChatReply(text=self.answer if self.answer is not None else f"Here it is: {chosen}")


def make(open_store: OpenStore, model: Chooser, **config: Any) -> RoleMessages:
    ranker = ChatRanker(RankerConfig.model_validate({"params": {"temperature": 0}}), lambda _: model)
    store = open_store(memory_k=1, recall="always", similarity_top_k=2, rules={"ranker": ranker}, **config)
    memory = store.role("engineer")
    memory.add_batch(said(number, f"build report {number} {'red' if number == 3 else 'green'}") for number in range(8))
    memory.add(said(8, "build report?"))
    return memory


def test_the_model_s_choice_comes_first(open_store: OpenStore) -> None:
    model = Chooser("red")
    memory = make(open_store, model)
    recall = memory.recall(1)
    assert recall.related[0].id == "m3"
    assert len(recall.related) == 2
    assert [hit.rerank for hit in recall.hits] == [1.0, 0.5]
    (request,) = model.requests
    assert request.params == {"temperature": 0}
    assert len(json.loads(request.messages[-1].content)["messages"]) == 8


def test_the_same_question_is_ranked_once_until_something_new_is_found(open_store: OpenStore) -> None:
    model = Chooser("red")
    memory = make(open_store, model)
    memory.recall(1)
    memory.recall(1)
    assert len(model.requests) == 1
    memory.add(said(10, "build report 10 red"))
    memory.add(said(12, "build report?!"))
    assert set(ids(memory.recall(1).related)) == {"m3", "m10"}
    assert len(model.requests) == 2


@pytest.mark.parametrize("answer", ["[1, 1, 99, 0, 2]", "[]", "numbers: [2,1]"])
def test_numbers_that_make_no_sense_are_passed_over(open_store: OpenStore, answer: str) -> None:
    recall = make(open_store, Chooser("red", answer)).recall(1)
    assert len(set(ids(recall.related))) == 2
    assert recall.failures == ()


def test_an_answer_that_is_none_is_told_and_costs_nothing(open_store: OpenStore) -> None:
    memory = make(open_store, Chooser("red", "I cannot help with that."))
    recall = memory.recall(1)
    (failure,) = recall.failures
    assert (failure.operation, type(failure.error)) == ("rank what was found", ChatModelError)
    assert len(recall.related) == 2


def test_the_ranker_asks_the_model_that_the_setup_opens(open_store: OpenStore) -> None:
    model = Chooser("red")
    memory = open_store(memory_k=1, recall="always", chat=model, llm_ranker={"model": "m"}).role("engineer")
    memory.add_batch([said(0, "the build is green"), said(1, "the build is red"), said(2, "the build?")])
    assert list(memory.recall(1).failures) == []
    assert model.requests


read: list[int] = []


class Redness:
    """A reranker of the `retrieval:` block, which prefers what is red."""

    def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        if "broken" in query:
            raise RerankerError("out of order")
        read.append(len(texts))
        return [float("red" in text) for text in texts]


def redness(_config: RerankerConfig, _base_dir: Path) -> Redness:
    return Redness()


def reranked(open_store: OpenStore, question: str = "build report?", **config: Any) -> RoleMessages:
    register_reranker("test_redness", redness)
    block = {"reranker": {"type": "test_redness", "depth": 40}}
    store = open_store(memory_k=1, recall="always", similarity_top_k=2, retrieval=block, **config)
    memory = store.role("engineer")
    # Many of those that are found first say the same and are passed over, so that the search goes on.
    memory.add_batch(said(number, "build report? build report? green") for number in range(20))
    memory.add_batch(
        said(number, f"build report {number} {'red' if number > 27 else 'green'}") for number in range(20, 30)
    )
    memory.add(said(30, question))
    read.clear()
    return memory


def test_the_reranker_of_the_retrieval_block_reads_the_related_messages_once(open_store: OpenStore) -> None:
    recall = reranked(open_store).recall(1)
    assert set(ids(recall.related)) == {"m28", "m29"}
    assert [hit.rerank for hit in recall.hits] == [1.0, 1.0]
    assert (read, recall.failures) == ([11], ())
