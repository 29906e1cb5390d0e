"""ChatDev's workflows, run by its own graph executor with devmem's memory."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import check.check
import pytest
import yaml
from runtime.node.agent.memory.memory_base import MemoryBase
from runtime.node.agent.memory.registry import memory_store_registry, register_memory_store
from runtime.sdk import WorkflowRunResult, run_workflow
from schema_registry import registry as schemas

import devmem
from devmem.adapters.chatdev import install
from tests.adapters.chatdev.scripted_service import Messages, ScriptedService

CHATDEV = Path(check.check.__file__).resolve().parents[1]
WORKFLOWS = CHATDEV / "yaml_instance"
BLOCK = "===== Related Memories ====="

pytestmark = pytest.mark.usefixtures("installed")


def run(workflow: Path, prompt: str, name: str = "test") -> WorkflowRunResult:
    return run_workflow(workflow.absolute(), task_prompt=prompt, session_name=name)


def text(messages: Messages) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def workflow(folder: Path, memory: dict[str, Any], *, nodes: tuple[str, ...] = ("first",), **attachment: Any) -> Path:
    """Write a workflow of agents in a row, all attached to one store."""
    config = {"provider": "openai", "base_url": "${BASE_URL}", "api_key": "${API_KEY}", "name": "scripted"}
    agents = [
        {"id": node, "type": "agent", "config": {**config, "role": f"You are {node}.", "memories": [attachment]}}
        for node in nodes
    ]
    edges = [{"from": one, "to": other} for one, other in itertools.pairwise(nodes)]
    graph = {"id": "made", "start": [nodes[0]], "end": [nodes[-1]], "memory": [memory], "nodes": agents, "edges": edges}
    file = folder / "made.yaml"
    file.write_text(yaml.safe_dump({"version": "0.4.0", "graph": graph}), encoding="utf-8")
    return file


def test_the_simple_demo_finds_in_a_second_run_what_the_first_one_said(service: ScriptedService) -> None:
    service.answer = lambda _messages: "Otters hold hands while they sleep, so that they do not drift apart."
    run(WORKFLOWS / "demo_simple_memory.yaml", "Write about otters that sleep in the river.")
    kept = json.loads(Path("memory_test/test.json").read_text(encoding="utf-8"))
    assert kept
    assert any("hold hands" in item["output_snapshot"]["text"] for item in kept)
    service.chats.clear()
    run(WORKFLOWS / "demo_simple_memory.yaml", "What do otters do while they sleep?")
    assert any(BLOCK in text(each) and "hold hands" in text(each) for each in service.chats)


def test_the_file_demo_answers_from_a_document(service: ScriptedService, folder: Path) -> None:
    documents = folder / "tests/file_memory_test"
    documents.mkdir(parents=True)
    (documents / "venue.md").write_text("# Venue\n\nThe summer party is in the old boathouse.", encoding="utf-8")
    run(WORKFLOWS / "demo_file_memory.yaml", "Where is the summer party?")
    assert BLOCK in text(service.chats[0])
    assert "old boathouse" in text(service.chats[0])


def test_the_mem0_demo_uses_the_client_that_was_handed_over(service: ScriptedService) -> None:
    class Client:
        def __init__(self) -> None:
            self.added: list[str] = []

        def add(self, messages: list[dict[str, str]], **_options: object) -> dict[str, Any]:
            self.added += [message["content"] for message in messages]
            return {"results": [{"id": "m1"}]}

        def search(self, _text: str, **_options: object) -> dict[str, Any]:
            memory = {"id": "m1", "memory": "The user plays the oboe.", "score": 0.9, "user_id": "project-user-123"}
            return {"results": [memory]}

    client = Client()
    install(mem0_client=lambda _config: client)
    run(WORKFLOWS / "demo_mem0_memory.yaml", "I practise every day.")
    assert "plays the oboe" in text(service.chats[0])
    assert client.added == ["I practise every day."]


def test_an_auto_blackboard_shows_a_node_what_another_one_said(service: ScriptedService, folder: Path) -> None:
    service.answer = lambda messages: "The code word is heron." if "You are first" in text(messages) else "Understood."
    board = {"name": "board", "type": "blackboard", "config": {"memory_path": "auto"}}
    result = run(workflow(folder, board, nodes=("first", "second"), name="board"), "Agree on a code word.")
    assert BLOCK in text(service.chats[1])
    assert "heron" in text(service.chats[1]).split(BLOCK)[1]
    assert list(result.meta_info.output_dir.glob("memory_board*.db"))
    service.chats.clear()
    run(workflow(folder, board, name="board"), "What was it?", name="another")
    assert BLOCK not in text(service.chats[0])


def test_a_store_type_of_others_keeps_working_and_its_failure_costs_no_answer(
    service: ScriptedService, folder: Path
) -> None:
    class Failing(MemoryBase):  # type: ignore[misc] # ChatDev is not in the environment of the type checkers
        def load(self) -> None: ...
        def save(self) -> None: ...
        def retrieve(self, *_arguments: object) -> list[Any]:
            raise OSError("gone")

        def update(self, *_arguments: object) -> None:
            raise OSError("gone")

    config_cls = schemas.get_memory_store_schema("blackboard").config_cls
    register_memory_store("failing", config_cls=config_cls, factory=Failing)
    try:
        result = run(workflow(folder, {"name": "x", "type": "failing", "config": {}}, name="x"), "Hello.")
    finally:
        del memory_store_registry._entries["failing"], schemas._memory_store_schemas["failing"]
    assert result.final_message is not None
    assert result.final_message.text_content() == "Noted."


def test_the_memory_of_a_user_stays_with_the_user(service: ScriptedService, folder: Path) -> None:
    file = workflow(folder, {"name": "n", "type": "simple", "config": {"memory_path": "n.db"}}, name="n")
    install(user="ann")
    run(file, "My locker has the number 4711.")
    install(user="bob")
    run(file, "Which number has my locker?")
    assert BLOCK not in text(service.chats[-1])
    with devmem.open("n.db", embedding=None) as memory:
        items = memory.store.recent(9)
    assert [item.scope.user for item in items] == ["bob", "ann"]
    assert {item.provenance.name for item in items} == {"first"}
