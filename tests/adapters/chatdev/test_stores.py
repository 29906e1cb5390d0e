"""ChatDev's interface to devmem's stores, and its configuration."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import runtime.node.agent.memory as memory_package
import workflow.graph
from entity.configs.base import ConfigError
from entity.configs.node.memory import MemoryAttachmentConfig, MemoryStoreConfig, SimpleMemoryConfig
from entity.enums import AgentExecFlowStage
from entity.messages import AttachmentRef, Message, MessageBlock, MessageBlockType, MessageRole
from runtime.node.agent.memory import MemoryFactory
from runtime.node.agent.memory.memory_base import MemoryContentSnapshot, MemoryWritePayload
from utils.schema_exporter import build_schema_response

import devmem
from devmem.adapters.chatdev import install, uninstall
from tests.command_line import recalls

PAGE = Path(__file__).resolve().parents[3] / "docs/adapters/chatdev.md"
pytestmark = pytest.mark.usefixtures("installed")


def made(store_type: str = "simple", **config: Any) -> Any:
    declared = MemoryStoreConfig.from_dict({"name": "notes", "type": store_type, "config": config}, path="memory[0]")
    store = MemoryFactory.create_memory(declared)
    store.load()
    return store


def payload(asked: str, answered: str) -> MemoryWritePayload:
    return MemoryWritePayload(
        agent_role="You are kind.",
        inputs_text=asked,
        input_snapshot=MemoryContentSnapshot(text=asked),
        output_snapshot=MemoryContentSnapshot(text=answered),
    )


def test_what_was_written_is_found_and_shown_with_both_sides() -> None:
    store = made()
    store.update(payload("Where does the ferry land?", "It lands at pier nine."))
    [item] = store.retrieve("", MemoryContentSnapshot(text="ferry pier"), 3, -1.0)
    assert "pier nine" in item.content_summary
    assert item.input_snapshot.text == "Where does the ferry land?"
    assert item.output_snapshot.text == "It lands at pier nine."
    assert [each.id for each in store.contents] == [item.id]
    assert store.count_memories() == 1


def test_attachments_come_back_as_they_were() -> None:
    ref = AttachmentRef(attachment_id="a1", mime_type="image/png", name="map.png", size=3, data_uri="data:,abc")
    blocks = [MessageBlock.text_block("The map of the harbour"), MessageBlock(MessageBlockType.IMAGE, attachment=ref)]
    message = Message(role=MessageRole.USER, content=blocks)
    said = payload("The map of the harbour", "A fine map.")
    said.input_snapshot = MemoryContentSnapshot.from_messages([message])
    store = made()
    store.update(said)
    [item] = store.retrieve("", MemoryContentSnapshot(text="harbour map"), 1, -1.0)
    assert item.attachments() == said.input_snapshot.attachment_overview()
    assert item.input_snapshot.to_message_blocks()[1].attachment == ref


def test_two_stores_on_one_json_file_lose_nothing_of_each_other(folder: Path) -> None:
    one, other = made(memory_path="shared.json"), made(memory_path="shared.json")
    one.update(payload("The first note is about rain.", "Noted rain."))
    other.update(payload("The second note is about snow.", "Noted snow."))
    one.save()
    other.save()
    assert len(json.loads((folder / "shared.json").read_text(encoding="utf-8"))) == 2
    assert made(memory_path="shared.json").count_memories() == 2


def test_a_long_input_does_not_swallow_the_answer() -> None:
    store = made()
    store.update(payload("Background. " * 200, "The verdict is green."))
    store.update(payload("Background. " * 200, "The verdict is amber."))
    assert {each.output_snapshot.text for each in store.contents} == {"The verdict is green.", "The verdict is amber."}


def test_the_manager_retrieves_at_the_stages_of_an_attachment() -> None:
    store = made()
    attachment = MemoryAttachmentConfig.from_dict({"name": "notes", "retrieve_stage": ["gen"], "top_k": 99999}, path="")
    manager = workflow.graph.MemoryManager([attachment], {"notes": store})
    manager.update(payload("Where is the key?", "The key is under the mat."))
    query = MemoryContentSnapshot(text="=== INPUT FROM TASK (user) ===\n\nkey mat")
    assert manager.retrieve("", query, AgentExecFlowStage.PRE_GEN_THINKING_STAGE) is None
    found = manager.retrieve("", query, AgentExecFlowStage.GEN_STAGE)
    assert "under the mat" in found.formatted_text
    assert [item.id for item in found.items] == [item.id for item in store.contents]
    with pytest.raises(ValueError, match="notes"):
        workflow.graph.MemoryManager([attachment], {})


def test_what_agents_are_shown_is_recorded_in_a_workflows_log(folder: Path) -> None:
    team = folder / "team.yaml"
    team.write_text("memory: [{name: notes, type: simple, config: {memory_path: n.db}}]\nrecord_recalls: true\n")
    install(user="ann", record_recalls=team)
    store = made()
    attachment = MemoryAttachmentConfig.from_dict({"name": "notes", "retrieve_stage": ["gen"], "top_k": 3}, path="")
    manager = workflow.graph.MemoryManager([attachment], {"notes": store})
    manager.update(payload("Where is the key?", "The key is under the mat."))
    found = manager.retrieve("", MemoryContentSnapshot(text="key mat"), AgentExecFlowStage.GEN_STAGE)
    assert manager.retrieve("", MemoryContentSnapshot(text="key"), AgentExecFlowStage.PRE_GEN_THINKING_STAGE) is None
    (step,) = recalls(team)
    assert (step.block, step.user, step.stage) == (found.formatted_text, "ann", "gen")
    assert [entry.store for entry in step.entries] == ["notes"]


def test_every_store_type_and_key_of_devmem_can_be_declared() -> None:
    store = made("role_zero", memory_k=3)
    store.update(payload("Hello there, captain.", "Ahoy."))
    assert store.count_memories()
    board = made("blackboard", order="chronological", memory_path=None)
    assert board.kept.config.order == "chronological"


def test_a_wrong_key_is_refused_at_its_place() -> None:
    with pytest.raises(ConfigError, match=r"memory\[0\]\.config: .*max_itemz.*max_items") as caught:
        made(max_itemz=3)
    assert caught.value.path == "memory[0].config"


def test_devmems_keys_of_an_attachment_are_kept() -> None:
    store = made()
    given = {"name": "notes", "min_trust": 0.9, "ttl": "30d", "write_stage": ["finished"]}
    manager = workflow.graph.MemoryManager([MemoryAttachmentConfig.from_dict(given, path="")], {"notes": store})
    manager.update(payload("Where is the key?", "The key is under the mat."))
    query = MemoryContentSnapshot(text="key mat")
    assert manager.retrieve("", query, AgentExecFlowStage.GEN_STAGE) is None
    [item] = store.kept.recent(1)
    assert item.expires_at is not None
    assert store.retrieve("", query, 3, -1.0)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [("min_trsut", 0.5, "min_trust"), ("min_trust", 7, "less than or equal to 1"), ("write_stage", "gen", "finished")],
)
def test_a_key_of_an_attachment_that_cannot_be_kept_is_refused(key: str, value: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        MemoryAttachmentConfig.from_dict({"name": "notes", key: value}, path="memories[0]")
    assert caught.value.path == f"memories[0].{key}"


def test_a_write_names_chatdev_or_whoever_acts() -> None:
    store = made()
    store.update(payload("Where is the key?", "Under the mat."))
    with devmem.acting_as("planner"):
        store.update(payload("Where is the lamp?", "On the roof."))
    actors = [store.kept.collection.history(item.id)[0].began.actor for item in store.contents]
    assert actors == ["chatdev", "planner"]


def test_objects_of_chatdevs_own_classes_are_understood() -> None:
    config = SimpleMemoryConfig(path="", memory_path="own.json", embedding=None)
    store = MemoryFactory.create_memory(MemoryStoreConfig(path="", name="notes", type="simple", config=config))
    store.load()
    store.update(payload("The gate opens at nine.", "Noted nine."))
    assert Path("own.json").is_file()
    with pytest.raises(ValueError, match="Simple memory store configuration expected"):
        MemoryFactory.create_memory(MemoryStoreConfig(path="", name="notes", type="simple", config=None))


def test_chatdevs_forms_show_devmems_keys_and_blocks() -> None:
    steps = [
        {"node": "DesignConfig", "field": "graph"},
        {"node": "GraphDefinition", "field": "memory"},
        {"node": "MemoryStoreConfig", "field": "config", "value": "simple"},
    ]
    form = build_schema_response(steps)
    assert {"memory_path", "max_items", "retrieval"} <= {field["name"] for field in form["fields"]}
    inner = build_schema_response([*steps, {"node": form["node"], "field": "embedding"}])
    assert "provider" in {field["name"] for field in inner["fields"]}


def test_uninstalling_returns_chatdevs_own_memory() -> None:
    uninstall()
    assert type(MemoryFactory.create_memory(_blackboard())).__name__ == "BlackboardMemory"
    assert workflow.graph.MemoryManager is memory_package.MemoryManager
    assert workflow.graph.MemoryManager.__module__ == "runtime.node.agent.memory.memory_base"
    uninstall()
    install()
    install()
    assert type(MemoryFactory.create_memory(_blackboard())).__name__ == "ChatDevMemory"


def _blackboard() -> MemoryStoreConfig:
    return MemoryStoreConfig.from_dict({"name": "b", "type": "blackboard", "config": {}}, path="")


def test_the_example_of_the_page_works(folder: Path) -> None:
    uninstall()
    code = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pier nine" in done.stdout
