"""A workflow with `transaction: true`: its run is committed as a whole, or leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from devmem import ConfigError, MemoryBase, MemoryItem, Workflow, WorkflowRunner, open_stores
from devmem.errors import ChatModelError, RunConflictError
from devmem.stores.runs import CommitDecision, StoreRun
from devmem.stores.versioned import versions_of

from .doubles import DOWN, ChatsByNode, ScriptedChat, agent_yaml, write_workflow

STORES = """memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
  - {name: board, type: blackboard, config: {memory_path: board.db}}"""
BOTH = "{name: notes, retrieve_stage: [gen]}, {name: board, retrieve_stage: [gen]}"
TWO = "edges: [{from: first, to: second}]"


def workflow(folder: Path) -> Workflow:
    nodes = ("nodes:", agent_yaml("first", BOTH), agent_yaml("second", BOTH))
    return write_workflow(folder, "transaction: true", STORES, *nodes, TWO)


def counts(stores: Mapping[str, MemoryBase]) -> list[int]:
    return [stores[name].count_memories() for name in ("notes", "board")]


def test_a_run_is_seen_by_others_when_all_of_it_is_there(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    chats = ChatsByNode()
    with open_stores(read) as stores:
        WorkflowRunner(read, stores, chat_models=chats).run("Go")
        assert counts(stores) == [2, 2]
        (info,) = versions_of(stores["notes"]).runs()
        assert (info.state.value, info.changes) == ("committed", 2)
    # Within the run, the second node recalled what the first one had written.
    assert "first says so" in str(chats.chats["second"].heard())


def test_a_run_that_goes_wrong_leaves_nothing_and_can_be_run_again(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores:
        runner = WorkflowRunner(read, stores, chat_models=ChatsByNode(second=ScriptedChat(DOWN)))
        with pytest.raises(ChatModelError):
            runner.run("Go")
        assert counts(stores) == [0, 0]
        assert [info.state.value for info in versions_of(stores["notes"]).runs()] == ["discarded"]
        WorkflowRunner(read, stores, chat_models=ChatsByNode()).run("Go")
        assert counts(stores) == [2, 2]


def test_what_was_decided_is_finished_by_the_next_start(tmp_path: Path) -> None:
    """The process died between the commits of the two stores."""
    read = workflow(tmp_path)
    folder = tmp_path / "session"
    with open_stores(read) as stores:
        run = StoreRun("r", stores, decisions=None)
        for store in run.stores.values():
            store.add([MemoryItem(id="1", content_summary="tea")])
        run.close()
        CommitDecision(run="r", stores=("notes", "board")).write(folder / "runs")
        versions_of(stores["notes"]).commit("r")
        assert counts(stores) == [1, 0]
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder)
        assert counts(stores) == [1, 1]
        assert list((folder / "runs").iterdir()) == []


def test_a_conflict_in_one_store_commits_in_none(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores:
        run = StoreRun("r", stores, decisions=tmp_path)
        for store in run.stores.values():
            store.add([MemoryItem(id="1", content_summary="tea")])
        stores["board"].add([MemoryItem(id="1", content_summary="rain")])
        with pytest.raises(RunConflictError, match="board"):
            run.commit()
        assert counts(stores) == [0, 1]
        run.discard()
        assert counts(stores) == [0, 1]


@pytest.mark.parametrize(
    ("store", "reason"),
    [
        ("{name: notes, type: brain, config: {}}", "the type 'brain'"),
        ("{name: notes, type: simple, config: {memory_path: notes.json}}", "the JSON file notes.json"),
    ],
)
def test_a_store_that_cannot_take_part_is_refused_before_a_run(tmp_path: Path, store: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        write_workflow(
            tmp_path, "transaction: true", f"memory: [{store}]", "nodes:", agent_yaml("first", "{name: notes}")
        )


def test_transaction_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected true or false"):
        write_workflow(tmp_path, "transaction: maybe", "nodes:", agent_yaml("first"))
