"""The components, in pipelines that are written as YAML and read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from haystack import Document, Pipeline
from haystack.dataclasses import ChatMessage

import devmem
from devmem.adapters.haystack import (
    DevmemDocumentStore,
    DevmemEmbeddingRetriever,
    DevmemHybridRetriever,
    DevmemKeywordRetriever,
    DevmemMemoryRetriever,
    DevmemMemoryWriter,
)
from tests.adapters.contract import EXCHANGES, Histories
from tests.adapters.pages import run_example


@pytest.fixture
def place(tmp_path: Path) -> str:
    place = str(tmp_path / "documents.db")
    store = DevmemDocumentStore(place)
    store.write_documents(
        [
            Document(content="The launch is in June.", embedding=[1.0, 0.0], meta={"topic": "launch"}),
            Document(content="Lunch is at noon.", embedding=[0.0, 1.0], meta={"topic": "lunch"}),
        ]
    )
    store.close()
    return place


def read_again(pipeline: Pipeline) -> Pipeline:
    return Pipeline.loads(pipeline.dumps(), allowed_modules=["devmem.*"])


def test_retrievers_survive_a_pipelines_yaml(place: str) -> None:
    store = DevmemDocumentStore(place)
    pipeline = Pipeline()
    pipeline.add_component("words", DevmemKeywordRetriever(store, top_k=1))
    pipeline.add_component("nearest", DevmemEmbeddingRetriever(store, top_k=1, filter_policy="merge"))
    pipeline.add_component("both", DevmemHybridRetriever(store, top_k=2))
    lunch = {"field": "meta.topic", "operator": "==", "value": "lunch"}
    found = read_again(pipeline).run(
        {
            "words": {"query": "launch"},
            "nearest": {"query_embedding": [1.0, 0.1], "filters": lunch},
            "both": {"query": "When is the launch?", "query_embedding": [1.0, 0.2]},
        }
    )
    shown = {name: [each.content for each in result["documents"]] for name, result in found.items()}
    assert shown["words"] == ["The launch is in June."]
    assert shown["nearest"] == ["Lunch is at noon."]
    assert shown["both"][0] == "The launch is in June."
    assert all(each.score is not None and each.embedding is None for each in found["both"]["documents"])


def test_what_was_said_is_remembered_once_and_recalled(tmp_path: Path) -> None:
    store = DevmemDocumentStore(str(tmp_path / "chat.db"), embedding=None, user="ann")
    pipeline = Pipeline()
    pipeline.add_component("writer", DevmemMemoryWriter(store, history=True))
    pipeline.add_component("recall", DevmemMemoryRetriever(store, top_k=3))
    pipeline = read_again(pipeline)
    history = [ChatMessage.from_user("The launch is in June."), ChatMessage.from_assistant("Noted.")]
    for _ in range(2):
        written = pipeline.run({"writer": {"messages": history, "session": "s"}, "recall": {"query": "launch?"}})
    assert written["writer"]["messages_written"] == 2
    assert "The launch is in June." in written["recall"]["block"]
    assert [each.content for each in written["recall"]["documents"]].count("The launch is in June.") == 1
    reader = DevmemMemoryRetriever(store)
    assert "June" not in reader.run("launch", messages=history)["block"]
    assert reader.run("  ")["documents"] == []
    assert store.count_documents() == 0, "messages are no documents"


class TestContract(Histories):
    page, hands_on = "haystack", "new messages"

    @pytest.fixture
    def memory(self) -> Iterator[devmem.Memory]:
        self.store = DevmemDocumentStore(embedding=None)
        yield devmem.Memory(self.store.memory.store)
        self.store.close()

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        for asked, answer in exchanges:
            said = [ChatMessage.from_user(asked), ChatMessage.from_assistant(answer)]
            assert DevmemMemoryWriter(self.store).run(said)["messages_written"] == 2

    def test_whole_histories_are_stored_once(self, memory: devmem.Memory) -> None:
        writer, history = DevmemMemoryWriter(self.store, history=True), list[ChatMessage]()
        for asked, answer in EXCHANGES:
            history += [ChatMessage.from_user(asked), ChatMessage.from_assistant(answer)]
            writer.run(history, session="s")
        assert [record.text for record in memory] == [text for exchange in EXCHANGES for text in exchange]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="needs the `session`"):
        DevmemMemoryWriter(DevmemDocumentStore(), history=True).run([ChatMessage.from_user("status?")])
    with pytest.raises(ValueError, match="above 0"):
        DevmemKeywordRetriever(DevmemDocumentStore(), top_k=0)


def test_the_page(tmp_path: Path) -> None:
    assert "June" in run_example("haystack", tmp_path)
