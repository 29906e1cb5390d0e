"""`role_zero` in a workflow: what a node recalls, and the chat model that picks the related messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devmem import (
    Caller,
    Filter,
    Hit,
    MemoryContentSnapshot,
    MemoryManager,
    MemoryWritePayload,
    Scope,
    WorkflowRunner,
    load_workflow,
    open_stores,
)
from devmem.config import Attachment, RerankerConfig
from devmem.errors import ChatModelError, RerankerError
from devmem.models import register_reranker
from devmem.stores import ChatReply, ChatRequest
from devmem.testing import ScriptedChat
from devmem_stores.role_zero import RoleZeroMemory
from devmem_stores.role_zero.config import ChatRanker, RankerConfig
from devmem_stores.role_zero.role import RoleMessages

from .conftest import OpenStore, ids, said

YAML = """
memory:
  - name: notes
    type: role_zero
    config: {{memory_path: notes.db{config}}}
nodes:
  - id: helper
    type: agent
    config: {{role: engineer, memories: [{{name: notes, top_k: {top_k}}}]}}
"""
FACT = "The launch of the harbour app is on June 2nd."
FILLER = [f"Lunch on day {number} was soup." for number in range(4)]


@contextmanager
def workflow(folder: Path, config: str = "", *, top_k: int = 2) -> Iterator[MemoryManager]:
    """Open the store of a workflow with some lines of `config`, and remember a fact and then other things."""
    file = folder / "team.yaml"
    file.write_text(YAML.format(config=f", {config}" if config else "", top_k=top_k), encoding="utf-8")
    loaded = load_workflow(file)
    with open_stores(loaded) as stores:
        agent = loaded.node("helper").config
        assert agent is not None
        manager = MemoryManager(agent.memories, stores)
        for text in (FACT, *FILLER):
            manager.update(MemoryWritePayload(inputs_text=text, agent_role="engineer"))
        yield manager


def recalled(manager: MemoryManager, query: str = "the launch of the harbour app?", **options: Any) -> list[str]:
    found = manager.retrieve(agent_role="engineer", query=query, **options)
    return [] if found is None else [hit.item.content_summary for hit in found.hits]


def from_node(name: str, text: str, role: str = "assistant") -> MemoryContentSnapshot:
    return MemoryContentSnapshot(text=f"=== INPUT FROM {name} ({role}) ===\n\n{text}")


@pytest.mark.parametrize(
    ("config", "found"),
    [("", True), ("recall: always", True), ("recall: never", False), ("similarity_threshold: 1.0", True)],
)
def test_recall_says_whether_older_messages_are_searched_for(config: str, found: bool, tmp_path: Path) -> None:
    """Without an embedding no similarity is known, so that a threshold does not apply."""
    with workflow(tmp_path, config) as manager:
        assert (FACT in recalled(manager)) is found


@pytest.mark.parametrize(
    ("config", "sender", "role", "found"),
    [
        ("", "user", "user", True),
        ("", "writer", "assistant", False),
        ("", "Mike", "assistant", True),
        ("team_leaders: [writer]", "writer", "assistant", True),
        ("team_leaders: [writer]", "Mike", "assistant", False),
        ("recall: always", "writer", "assistant", True),
    ],
)
def test_requirement_is_what_the_user_or_a_team_leader_sends(
    config: str, sender: str, role: str, found: bool, tmp_path: Path
) -> None:
    with workflow(tmp_path, config) as manager:
        question = manager.retrieve(agent_role="engineer", query=from_node(sender, "The launch of the harbour?", role))
        assert question is not None
        assert (FACT in [hit.item.content_summary for hit in question.hits]) is found


def test_similarity_top_k_limits_what_is_related(tmp_path: Path) -> None:
    with workflow(tmp_path, "similarity_top_k: 1", top_k=3) as manager:
        found = manager.retrieve(agent_role="engineer", query="The launch of the app, and lunch on day 1")
        assert found is not None
        filling = [hit for hit in found.hits if hit.score == 0]
        assert (len(found.hits), len(filling)) == (3, 2)


def test_query_of_the_last_turns(tmp_path: Path) -> None:
    """The question alone shares no word with the fact; the turn before it does."""
    with workflow(tmp_path, "query: last_turns, query_turns: 2") as manager:
        manager.update(MemoryWritePayload(inputs_text="Let us talk about the harbour app.", agent_role="engineer"))
        assert FACT in recalled(manager, "So when?")
    with workflow(tmp_path) as manager:
        manager.update(MemoryWritePayload(inputs_text="Let us talk about the harbour app.", agent_role="engineer"))
        assert FACT not in recalled(manager, "So when?")


@pytest.mark.parametrize("across", [True, False])
def test_other_sessions_are_recalled_on_request(across: bool, tmp_path: Path) -> None:
    with workflow(tmp_path, f"across_sessions: {str(across).lower()}") as manager:
        scope = Scope(session="old")
        manager.update(MemoryWritePayload(inputs_text="The keel is of oak.", agent_role="engineer", scope=scope))
        found = recalled(manager, "What is the keel made of?", where=Filter(scope=Scope(session="new")))
        assert ("The keel is of oak." in found) is across


class Reversing:
    """Puts the hits upside down."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def rank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        self.queries.append(query)
        return list(reversed(hits))


def managed(store: RoleZeroMemory) -> MemoryManager:
    for text in (FACT, "The launch of the other app is on May 5th.", *FILLER):
        store.update(MemoryWritePayload(inputs_text=text))
    return MemoryManager([Attachment(name="roles", top_k=2)], {"roles": store})


def test_ranker_orders_what_a_node_recalls(open_store: OpenStore) -> None:
    plain = recalled(managed(open_store()), "launch of the app")
    ranker = Reversing()
    store = open_store(memory_path="other.db", rules={"ranker": ranker}, similarity_top_k=20)
    ranked = recalled(managed(store), "launch of the app")
    assert ranker.queries == ["launch of the app"]
    assert set(plain) == {FACT, "The launch of the other app is on May 5th."}
    assert not set(plain) & set(ranked)


TEAM = """
memory:
  - {name: talk, type: role_zero, config: {memory_path: talk.db, recall: always}}
nodes:
  - id: keeper
    type: agent
    config: {AGENT, memories: [talk]}
"""
MOORED = "The boat is moored at pier nine."


def run(folder: Path, agent: str, text: str, *, answer: str = "Understood.") -> list[str]:
    """Run the workflow in a process of its own, as far as the store can tell; return what was recalled."""
    file = folder / "team.yaml"
    file.write_text(TEAM.replace("AGENT", agent), encoding="utf-8")
    workflow, chat = load_workflow(file), ScriptedChat(answer)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, chat_models=lambda *_: chat) as runner:
        runner.run(text)
    return [hit.item.content_summary for hit in chat.requests[0].recalled]


def test_an_edited_prompt_keeps_its_memory(tmp_path: Path) -> None:
    run(tmp_path, "role: You keep the harbour.", MOORED)
    assert run(tmp_path, "role: You keep the harbour well.", "Where is the boat moored?") == [f"{MOORED}\nUnderstood."]


def test_agents_with_the_same_prompt_have_their_own_memory(tmp_path: Path) -> None:
    run(tmp_path, "agent: anna, role: You vote.", MOORED)
    assert run(tmp_path, "agent: berta, role: You vote.", "Where is the boat moored?") == []


def test_the_manager_says_who_asks_and_writes(open_store: OpenStore) -> None:
    store = open_store()
    managers = [
        MemoryManager([Attachment(name="talk")], {"talk": store}, caller=Caller(node=node)) for node in ("a", "b")
    ]
    managers[0].update(MemoryWritePayload(inputs_text=MOORED))
    found = [manager.retrieve(query="Where is the boat moored?") for manager in managers]
    assert [result is not None for result in found] == [True, False]
    handles = [manager.attachment("talk", Scope()) for manager in managers]
    assert [bool(handle.search("Where is the boat moored?")) for handle in handles] == [True, False]


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
