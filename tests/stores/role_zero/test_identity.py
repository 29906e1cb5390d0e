"""A node's memory is its agent's: an edited prompt loses nothing, and other agents' memory stays theirs."""

from __future__ import annotations

from pathlib import Path

from devmem import Caller, MemoryManager, MemoryWritePayload, Scope, WorkflowRunner, load_workflow, open_stores
from devmem.config import Attachment
from devmem.testing import ScriptedChat

from .conftest import OpenStore

YAML = """
memory:
  - {name: talk, type: role_zero, config: {memory_path: talk.db, recall: always}}
nodes:
  - id: keeper
    type: agent
    config: {AGENT, memories: [talk]}
"""
FACT = "The boat is moored at pier nine."


def run(folder: Path, agent: str, text: str, *, answer: str = "Understood.") -> list[str]:
    """Run the workflow in a process of its own, as far as the store can tell; return what was recalled."""
    file = folder / "team.yaml"
    file.write_text(YAML.replace("AGENT", agent), encoding="utf-8")
    workflow, chat = load_workflow(file), ScriptedChat(answer)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, chat_models=lambda *_: chat) as runner:
        runner.run(text)
    return [hit.item.content_summary for hit in chat.requests[0].recalled]


def test_an_edited_prompt_keeps_its_memory(tmp_path: Path) -> None:
    run(tmp_path, "role: You keep the harbour.", FACT)
    assert run(tmp_path, "role: You keep the harbour well.", "Where is the boat moored?") == [f"{FACT}\nUnderstood."]


def test_agents_with_the_same_prompt_have_their_own_memory(tmp_path: Path) -> None:
    run(tmp_path, "agent: anna, role: You vote.", FACT)
    assert run(tmp_path, "agent: berta, role: You vote.", "Where is the boat moored?") == []


def test_the_manager_says_who_asks_and_writes(open_store: OpenStore) -> None:
    store = open_store()
    managers = [
        MemoryManager([Attachment(name="talk")], {"talk": store}, caller=Caller(node=node)) for node in ("a", "b")
    ]
    managers[0].update(MemoryWritePayload(inputs_text=FACT))
    found = [manager.retrieve(query="Where is the boat moored?") for manager in managers]
    assert [result is not None for result in found] == [True, False]
    handles = [manager.attachment("talk", Scope()) for manager in managers]
    assert [bool(handle.search("Where is the boat moored?")) for handle in handles] == [True, False]
