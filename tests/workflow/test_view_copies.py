"""Copies of records in the stores of single agents, and their restoration from the global memory."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from devmem import ConfigError, MemoryBase, Scope, Workflow, WorkflowRunner, open_stores
from devmem.errors import CollectionError, Finding, Level
from devmem.recording import InteractionLog
from devmem.workflow import check_workflow
from devmem.workflow.recording import rebuild_view

from .runner_doubles import ChatsByNode, agent_yaml, write_workflow

STORES = """
memory:
  - {name: global, type: conversation, config: {memory_path: global.db}}
  - {name: writers, type: simple, config: {memory_path: writers.db}}
  - {name: all, type: conversation, config: {memory_path: all.db}}
"""
COPIES = """
conversation:
  store: global
  copies:
    - {into: writers, agents: [writer], memory_types: [user]}
    - {into: all}
"""
EDGE = "edges: [{from: writer, to: reviewer}]"
AGENTS = "Agents: reviewer, writer."
OF_WRITER = ["User ann asked agent writer: Write.", "Agent writer answered user ann: writer says so"]


def workflow(folder: Path, copies: str = COPIES) -> Workflow:
    return write_workflow(folder, STORES, copies, "nodes:", agent_yaml("writer"), agent_yaml("reviewer"), EDGE)


def run(read: Workflow, stores: dict[str, MemoryBase]) -> None:
    with WorkflowRunner(read, stores, chat_models=ChatsByNode(), scope=Scope(user="ann")) as runner:
        runner.run("Write.")


def texts(store: MemoryBase) -> list[str]:
    return [item.content_summary for item in store.recent(9)][::-1]


def test_rules_say_what_is_copied_where(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores:
        run(read, dict(stores))
        assert texts(stores["writers"]) == OF_WRITER
        assert stores["all"].count() == stores["global"].count() == 4
        copied, kept = stores["writers"].recent(9), stores["global"].recent(9)
        assert {item.id for item in copied} <= {item.id for item in kept}
        assert {item.scope.user for item in copied} == {"ann"}


def test_a_rebuilt_view_has_everything_once(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    assert read.conversation is not None
    rule = read.conversation.copies[0]
    with open_stores(read) as stores:
        run(read, dict(stores))
        source = cast("InteractionLog", stores["global"])
        assert rebuild_view(source, rule, stores["writers"]) == (2, 0)
        stores["writers"].clear()
        assert rebuild_view(source, rule, stores["writers"]) == (2, 2)
        assert texts(stores["writers"]) == OF_WRITER


def test_a_store_that_takes_no_copies_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise CollectionError("writers", "this disk is full")

    read = workflow(tmp_path)
    with open_stores(read) as stores:
        monkeypatch.setattr(stores["writers"], "add", refuse)
        run(read, dict(stores))
        assert stores["global"].count() == stores["all"].count() == 4
    assert "`devmem copy WORKFLOW` adds them" in caplog.text


@pytest.mark.parametrize(
    ("copies", "message"),
    [
        ("{into: writer}", "there is no store 'writer'; did you mean 'writers'?"),
        ("{into: global}", "the records are in 'global' already; name another store"),
        ("{into: writers, memory_types: [users]}", "expected one of"),
        ("{agents: [writer]}", "this key is required"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(copies: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        workflow(tmp_path, f"conversation: {{store: global, copies: [{copies}]}}")
    assert message in str(caught.value)
    assert "conversation.copies[0]" in str(caught.value)


def warnings_of(read: Workflow) -> list[Finding]:
    assert read.file is not None
    return [found for found in check_workflow(read.file).findings if found.level is Level.WARNING]


def test_an_agent_that_no_node_is_gets_a_warning(tmp_path: Path) -> None:
    """Nothing would be copied of it, or seen, without a word."""
    view = "{name: global, write: false, view: {agent_id: reviewr}}"
    copies = "conversation: {store: global, copies: [{into: writers, agents: [writer, Writers]}]}"
    read = write_workflow(tmp_path, STORES, copies, "nodes:", agent_yaml("writer", view), agent_yaml("reviewer"), EDGE)
    assert [(found.path, found.line, found.message) for found in warnings_of(read)] == [
        ("conversation.copies[0].agents[1]", 7, f"no agent is named 'Writers'; did you mean 'writer'? {AGENTS}"),
        (
            "nodes[0].config.memories[0].view.agent_id",
            12,
            f"no agent is named 'reviewr'; did you mean 'reviewer'? {AGENTS}",
        ),
    ]
    # The name of an agent may be that of a variable which is not set yet.
    for copied, name in (("${NOBODY_SETS_THIS}", "reviewer"), ("reviewer", "${NOBODY_SETS_THIS}")):
        copies = COPIES.replace("[writer]", f'["{copied}"]')
        read = write_workflow(tmp_path, STORES, copies, "nodes:", agent_yaml("x", agent=name))
        assert "no agent is named" not in str([found.message for found in warnings_of(read)])
    copies = COPIES.replace("[writer]", "[reviewer]")
    assert not warnings_of(write_workflow(tmp_path, STORES, copies, "nodes:", agent_yaml("x", agent="reviewer")))


def test_the_stores_of_the_rules_have_to_be_open(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read, ["global"]) as stores, pytest.raises(ValueError, match="'writers', which `conversation"):
        WorkflowRunner(read, stores)
