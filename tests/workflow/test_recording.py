"""Workflows that are recorded by a few lines of YAML."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partialmethod
from pathlib import Path

import pytest

from devmem import ConfigError, Scope, Workflow, WorkflowRunner, load_workflow, open_stores, record_tool
from devmem.errors import ChatModelError, CollectionError
from devmem.recording import Interaction, InteractionLog, InteractionRecorder
from devmem.stores import ChatReply
from devmem.views.diagrams import call_tree, tree_lines

from .runner_doubles import DOWN, ChatsByNode, ScriptedChat, agent_yaml, write_workflow

STORE = "memory: [{name: global, type: conversation, config: {memory_path: global.db}}]"
EDGE = "edges: [{from: writer, to: reviewer}]"


def workflow(folder: Path, options: str = "", memories: str = "", store: str = STORE) -> Workflow:
    nodes = (agent_yaml("writer", memories), agent_yaml("reviewer", memories, agent="critic"))
    return write_workflow(folder, store, f"conversation: {{store: global{options}}}", "nodes:", *nodes, EDGE)


@contextmanager
def recorded(read: Workflow, *runs: str, user: str | None = "ann", **chats: ScriptedChat) -> Iterator[InteractionLog]:
    """Run a workflow, once for each input, and return its records when the runner is closed."""
    with open_stores(read) as stores:
        scope = Scope(user=user, session="monday")
        with WorkflowRunner(read, stores, chat_models=ChatsByNode(**chats), scope=scope) as runner:
            for text in runs:
                runner.run(text)
        log = stores["global"]
        assert isinstance(log, InteractionLog)
        yield log


def lines(records: list[Interaction]) -> list[str]:
    return [f"{one.source.name} > {one.target.name} {one.kind.value}: {one.content}" for one in records]


SAID = [
    "ann > writer input: Write.",
    "writer > ann output: writer says so",
    "writer > critic input: writer says so",
    "critic > writer output: reviewer says so",
]


def test_two_nodes_are_recorded_by_yaml_alone(tmp_path: Path) -> None:
    with recorded(workflow(tmp_path), "Write.") as log:
        records = log.log("monday")
        assert lines(records) == SAID
        (trace,) = {one.trace for one in records}
        assert log.trace(trace) == records
        tree = [line.split(" (")[0] for line in tree_lines(call_tree(records))]
        assert tree == [
            "ann -> agent writer",
            "  = writer says so",
            "writer -> agent critic",
            "  = reviewer says so",
        ]


def two_agents(folder: Path, **more: str) -> Workflow:
    """Return a workflow whose writer has more settings."""
    nodes = (agent_yaml("writer", **more), agent_yaml("reviewer", agent="critic"))
    return write_workflow(folder, STORE, "conversation: {store: global, types: [agent, llm]}", "nodes:", *nodes, EDGE)


def test_an_agent_that_is_not_traced_leaves_no_record_of_itself_or_its_model(tmp_path: Path) -> None:
    with recorded(two_agents(tmp_path, auto_trace="false"), "A secret.") as log:
        assert {one.target.name for one in log.log("monday") if one.kind.value == "input"} == {"critic", "extractive"}
        assert not any("A secret." in one.content and one.source.name == "ann" for one in log.log("monday"))


def test_an_agent_may_have_kinds_of_calls_of_its_own(tmp_path: Path) -> None:
    with recorded(two_agents(tmp_path, collection_types="[tool]"), "Write.") as log:
        records = log.log("monday")
    asked = [(one.source.name, one.target.type.value) for one in records if one.kind.value == "input"]
    assert ("writer", "llm") not in asked
    assert ("critic", "llm") in asked
    assert ("ann", "agent") in asked


DOCUMENTED = Path(__file__).parents[2] / "docs" / "stores" / "conversation.md"
EXAMPLE = Path(__file__).parents[2] / "configs" / "recorded.yaml"


def test_the_example_gives_the_tree_that_the_documentation_shows(tmp_path: Path) -> None:
    read = load_workflow(shutil.copy(EXAMPLE, tmp_path))
    chats = ChatsByNode(writer=ScriptedChat("Rain falls on the harbour."), reviewer=ScriptedChat("Too short."))
    with open_stores(read) as stores:
        with WorkflowRunner(read, stores, chat_models=chats, scope=Scope(user="ann")) as runner:
            trace = runner.run("Write one sentence about rain.").trace
        log = stores["global"]
        assert isinstance(log, InteractionLog)
        tree = [re.sub(r"[(][0-9.]+ s[)]", "(0.001 s)", line) for line in tree_lines(call_tree(log.trace(trace or "")))]
    assert "\n".join(tree) in DOCUMENTED.read_text(encoding="utf-8")


def test_the_run_names_its_trace(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores, WorkflowRunner(read, stores, chat_models=ChatsByNode()) as runner:
        first, second = runner.run("Write."), runner.run("Write.")
    assert first.trace
    assert second.trace not in (None, first.trace)
    with open_stores(read) as stores:
        log = stores["global"]
        assert isinstance(log, InteractionLog)
        assert len(log.trace(first.trace)) == 4


@pytest.mark.parametrize("stages", ["finished", "[pre, gen, finished]"])
def test_attachments_that_write_there_too_store_nothing_twice(stages: str, tmp_path: Path) -> None:
    read = workflow(tmp_path, memories=f"{{name: global, read: false, write_stage: {stages}}}")
    with recorded(read, "Write.", "Write.") as log:
        assert lines(log.log("monday")) == SAID * 2


def test_the_next_run_reads_what_the_last_one_said(tmp_path: Path) -> None:
    writer = ScriptedChat("Noted.")
    read = workflow(tmp_path, memories="{name: global, write: false, top_k: 5}")
    with recorded(read, "The boat is blue.", "Which colour?", writer=writer):
        assert writer.recalled(0) == []
        assert "The boat is blue." in " ".join(writer.recalled(1))


def test_a_failed_node_is_recorded_with_its_error(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores:
        chats = ChatsByNode(writer=ScriptedChat(DOWN))
        with WorkflowRunner(read, stores, chat_models=chats) as runner, pytest.raises(ChatModelError):
            runner.run("Write.")
        log = stores["global"]
        assert isinstance(log, InteractionLog)
        (trace,) = {item.scope.trace for item in stores["global"].recent(9)}
        assert [one.kind.value for one in log.trace(trace or "")] == ["input", "error"]


@pytest.mark.parametrize(
    ("options", "count"), [(", active: false", 0), (", types: [tool]", 1), (", types: [agent, llm, tool]", 9)]
)
def test_options_say_what_is_recorded(options: str, count: int, tmp_path: Path) -> None:
    """A tool that an agent's model calls is a part of its tree."""

    @record_tool("clock")
    def now() -> str:
        return "noon"

    class Asking(ScriptedChat):
        def complete(self, request: object) -> ChatReply:
            return ChatReply(text=now())

    read = workflow(tmp_path, options)
    with recorded(read, "When?", writer=Asking()) as log:
        records = log.log("monday")
        inputs = [one for one in records if one.kind.value == "input"]
        assert len(inputs) == (count + 1) // 2
        if count > 1:
            callers = [(one.source.name, one.target.type.value) for one in inputs]
            assert callers == [
                ("ann", "agent"),
                ("writer", "llm"),
                ("extractive", "tool"),
                ("writer", "agent"),
                ("critic", "llm"),
            ]


def test_a_store_that_is_down_costs_the_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its records wait and are stored by the next run."""

    def refuse(_: object) -> None:
        raise CollectionError("global", "this disk is full")

    read = workflow(tmp_path)
    with open_stores(read) as stores:
        monkeypatch.setattr(stores["global"], "record", refuse)
        monkeypatch.setattr(InteractionRecorder, "close", partialmethod(InteractionRecorder.close, timeout=0.01))
        with WorkflowRunner(read, stores, chat_models=ChatsByNode(), scope=Scope(session="monday")) as runner:
            assert runner.run("Write.").output == "reviewer says so"
        assert stores["global"].count() == 0
    monkeypatch.undo()
    with recorded(read, "Again.", user=None) as log:
        assert len(log.log("monday")) == 8


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("{store: globl}", "there is no store 'globl'; did you mean 'global'?"),
        ("{store: notes}", "stores of type 'simple' keep no records; name one of type 'conversation'"),
        ("{stor: global}", "unknown key"),
        ("{store: global, types: [user]}", "expected one of agent, tool, knowledge, llm"),
    ],
)
def test_a_block_that_cannot_work_is_refused(block: str, message: str, tmp_path: Path) -> None:
    stores = STORE.replace("]", ", {name: notes, type: simple}]")
    with pytest.raises(ConfigError, match="conversation") as caught:
        write_workflow(tmp_path, stores, f"conversation: {block}", "nodes:", agent_yaml("a"))
    assert message in str(caught.value)


def test_a_runner_without_the_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'global', which `conversation` names, was not opened"):
        WorkflowRunner(workflow(tmp_path), {})


def test_records_are_in_the_database_when_the_runner_is_closed(tmp_path: Path) -> None:
    with recorded(workflow(tmp_path), "Write."):
        pass
    with sqlite3.connect(tmp_path / "global.db") as db:
        assert db.execute("SELECT count(*) FROM items").fetchone() == (4,)
