"""LangChain's own suites of vector stores and retrievers, and what only devmem promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import RetrieversIntegrationTests, VectorStoreIntegrationTests

import devmem
from devmem.adapters.langchain import DevmemChatMessageHistory, DevmemRetriever, DevmemVectorStore
from devmem.stores import SourceKind
from tests.adapters.contract import ANSWER, QUESTION, RESULT, Histories, Searches, Talks
from tests.adapters.pages import run_example

GIVEN = {"provider": "given", "model": "fake"}
EMBEDDINGS = DeterministicFakeEmbedding(size=16)


class TestVectorStore(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        with devmem.open(str(tmp_path / "documents.db"), embedding=GIVEN) as memory:
            yield DevmemVectorStore(memory, self.get_embeddings())


class TestRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return DevmemRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        memory = devmem.open(":memory:", embedding=None)
        memory.add([f"Note {number} on the launch of the ferry number {number * 7}." for number in range(10)])
        return {"memory": memory}

    @property
    def retriever_query_example(self) -> str:
        return "launch of the ferry"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DevmemVectorStore]:
    with devmem.open(str(tmp_path / "documents.db"), embedding=GIVEN) as memory:
        yield DevmemVectorStore(memory, EMBEDDINGS)


def test_metadata_come_back_and_filter(store: DevmemVectorStore) -> None:
    metadata = {"key": "mine", "langchain": 1, "devmem.vector": "x", "a": {"b": [1, None]}, "stars": 3}
    (one,) = store.add_documents([Document(page_content="a", metadata=metadata)])
    store.add_texts(["a", ""], [{"stars": 5}, {"stars": 1}], ids=["two", "three"])
    assert store.get_by_ids(["two", "zz", one]) == [
        Document(id="two", page_content="a", metadata={"stars": 5}),
        Document(id=one, page_content="a", metadata=metadata),
    ]
    assert [each.id for each in store.similarity_search("a", k=9, filter={"stars": {">": 3}})] == ["two"]
    assert [each.id for each in store.similarity_search("a", k=9, filter={"key": "mine", "a.b": {"~=": 1}})] == [one]
    assert {each.id for each in store.similarity_search("a", filter=~devmem.Filter(metadata={"stars": 1}))} == {
        one,
        "two",
    }
    store.delete(["two"])
    assert [each.id for each in store.get_by_ids([one, "two"])] == [one], "a document of the same text stays"
    with pytest.raises(ValueError, match="do not fit together"):
        store.add_texts(["a"], ids=["x", "y"])
    with pytest.raises(devmem.DevmemError, match="no operator is"):
        store.similarity_search("a", filter={"stars": {"$gt": 3}})
    assert store.delete() is True
    assert store.similarity_search("a") == []


def test_scores_and_marginal_relevance(store: DevmemVectorStore) -> None:
    store.add_texts(["a", "b", "c"], ids=["1", "2", "3"])
    (best, score), *rest = store.similarity_search_with_score("a", k=3)
    assert (best.id, round(score, 4)) == ("1", 1.0)
    assert all(other < score for _, other in rest)
    assert store.similarity_search_with_relevance_scores("a", k=1)[0][1] == pytest.approx(1.0, abs=1e-4)
    assert store.max_marginal_relevance_search("a", k=2)[0].id == "1"
    assert [each.id for each in store.as_retriever(search_kwargs={"k": 1}).invoke("b")] == ["2"]


def test_a_store_of_texts_and_one_without_a_model(tmp_path: Path) -> None:
    place = str(tmp_path / "made.db")
    DevmemVectorStore.from_texts(["a", "b"], EMBEDDINGS, ids=["1", "2"], place=place, model="fake")._memory.close()
    with devmem.open(place, embedding=GIVEN) as memory:
        assert [each.id for each in DevmemVectorStore(memory, EMBEDDINGS).similarity_search("b", k=1)] == ["2"]
    with devmem.open(":memory:", embedding=None) as words:
        plain = DevmemVectorStore(words)
        plain.add_texts(["The launch is in June.", "Lunch is at noon."])
        assert plain.similarity_search("launch", k=1)[0].page_content == "The launch is in June."
        with pytest.raises(devmem.DevmemError, match="searched by words"):
            plain.similarity_search_by_vector([1.0])


def test_scopes_see_nothing_of_each_other(memory: devmem.Memory) -> None:
    ann, bob = (DevmemVectorStore(memory.scoped(user=user)) for user in ("ann", "bob"))
    for number, each in enumerate((ann, bob)):
        each.add_texts([f"secret {number}"], ids=["same"])
    assert [each.page_content for each in ann.similarity_search("secret")] == ["secret 0"]
    assert ann.get_by_ids(["same"])[0].page_content == "secret 0"
    ann.delete()
    assert [each.page_content for each in bob.get_by_ids(["same"])] == ["secret 1"]
    (record,) = memory.scoped(user="bob").list()
    assert (record.provenance.kind, record.trust) == (SourceKind.FILE, 0.6)


def test_a_history_keeps_every_message(memory: devmem.Memory) -> None:
    history = DevmemChatMessageHistory("s", memory)
    said: list[BaseMessage] = [
        HumanMessage("yes", name="ann"),
        HumanMessage("yes"),
        AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "1"}]),
        ToolMessage("2", tool_call_id="1"),
        HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]),
    ]
    history.add_messages(said[:2])
    history.add_messages(said[2:])
    assert DevmemChatMessageHistory("s", memory).messages == said
    assert asyncio.run(history.aget_messages()) == said
    DevmemChatMessageHistory("other", memory).add_user_message("hello")
    history.clear()
    assert history.messages == []
    assert len(DevmemChatMessageHistory("other", memory).messages) == 1
    with pytest.raises(ValueError, match="session"):
        DevmemChatMessageHistory(" ", memory)


class TestContract(Talks, Histories, Searches):
    keeps_results = True
    page, hands_on = "langchain", "new messages"

    def converse(self, memory: devmem.Memory, exchanges: Sequence[tuple[str, str]]) -> None:
        for asked, answer in exchanges:
            DevmemChatMessageHistory("s", memory).add_messages([HumanMessage(asked), AIMessage(answer)])

    def found(self, memory: devmem.Memory, query: str) -> int:
        return len(DevmemRetriever(memory).invoke(query))

    def talk(self, memory: devmem.Memory) -> None:
        DevmemChatMessageHistory("s", memory).add_messages(
            [HumanMessage(QUESTION), ToolMessage(RESULT, tool_call_id="1"), AIMessage(ANSWER)]
        )


def test_the_page(tmp_path: Path) -> None:
    assert "June" in run_example("langchain", tmp_path)
