"""`role_zero` in a workflow: every key changes what a node recalls, and a node's memory is its agent's."""

from __future__ import annotations

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
from devmem.config import Attachment
from devmem.testing import ScriptedChat
from devmem_stores.role_zero import RoleZeroMemory

from .conftest import OpenStore

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
