"""A workflow with `transaction: true`: its run is committed as a whole, or leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from devmem import ConfigError, MemoryBase, MemoryItem, Scope, Workflow, WorkflowRunner, acting_as, open_stores
from devmem.errors import ChatModelError, NoVersionsError, RunConflictError, RunStateError
from devmem.stores import runs, versions_of
from devmem.stores.commit_log import CommitRecord, RunOperation
from devmem.stores.runs import StoreRun
from devmem.workflow import revert_run

from .runner_doubles import DOWN, ChatsByNode, ScriptedChat, agent_yaml, write_workflow

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
        CommitRecord(run="r", stores=("notes", "board")).write(folder / "runs")
        versions_of(stores["notes"]).commit("r")
        assert counts(stores) == [1, 0]
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder)
        assert counts(stores) == [1, 1]
        assert list((folder / "runs").iterdir()) == []


def test_a_decision_on_a_store_that_is_not_there_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It waits for the store, as when the workflow was changed after a crash."""
    file = CommitRecord(run="half-done", stores=("notes", "attic")).write(tmp_path / "runs")
    assert runs.recover_runs(tmp_path / "runs", {}) == []
    assert "run 'half-done' was decided to end in stores" in caplog.text
    assert "(notes, attic)" in caplog.text
    assert file.exists()


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


def put(store: MemoryBase, text: str, run: str | None = None) -> None:
    store.add([MemoryItem(id="1", content_summary=text, scope=Scope(run=run))])


def texts(stores: Mapping[str, MemoryBase]) -> list[list[str]]:
    return [[item.content_summary for item in stores[name].recent(9)] for name in ("notes", "board")]


def test_a_conflict_that_comes_between_the_check_and_the_commits_commits_in_none(tmp_path: Path) -> None:
    """The other process writes when the first store has been checked; the run is discarded as a whole."""
    read = workflow(tmp_path)

    class Late(StoreRun):
        def check(self) -> None:
            super().check()
            put(stores["board"], "rain")

    with open_stores(read) as stores:
        run = Late("r", stores, decisions=tmp_path / "runs")
        for store in run.stores.values():
            put(store, "tea")
        with pytest.raises(RunConflictError, match=r"board\.db"):
            run.commit()
        assert texts(stores) == [[], ["rain"]]
        run.discard()
        states = [versions_of(stores[name]).find_run("r") for name in ("notes", "board")]
        assert [info and info.state.value for info in states] == ["discarded", "discarded"]
        assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize("operation", ["commit", "revert"])
def test_what_cannot_be_finished_is_undone_by_the_next_start(tmp_path: Path, operation: RunOperation) -> None:
    """The process died between the commits of the two stores, and then others changed the same item in the second."""
    read, folder = workflow(tmp_path), tmp_path / "session"
    with open_stores(read) as stores:
        for name in stores:
            put(stores[name], "old")
        run = StoreRun("r", stores, decisions=None)
        for store in run.stores.values():
            put(store, "new")
        run.close()
        if operation == "revert":
            run.commit()
        CommitRecord(run="r", stores=("notes", "board"), operation=operation).write(folder / "runs")
        getattr(versions_of(stores["notes"]), operation)("r")
        put(stores["board"], "rain")
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder)
        assert texts(stores) == [["old" if operation == "commit" else "new"], ["rain"]]
        assert not list(folder.glob("runs/*"))


def test_a_decision_to_revert_is_finished_by_the_next_start(tmp_path: Path) -> None:
    read, folder = workflow(tmp_path), tmp_path / "session"
    with open_stores(read) as stores:
        for name in stores:
            put(stores[name], "tea", run="r")
        CommitRecord(run="r", stores=("notes", "board"), operation="revert").write(folder / "runs")
        versions_of(stores["notes"]).revert("r")
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder)
        assert texts(stores) == [[], []]


def test_a_decision_that_its_own_process_is_carrying_out_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reverts the run between the look at the states and the locks of the one that starts."""
    read, folder = workflow(tmp_path), tmp_path / "session"
    end_everywhere = runs.end_everywhere

    def end_late(decision: CommitRecord, *arguments: Any) -> None:
        for name in decision.stores:
            versions_of(stores[name]).revert("r")
        end_everywhere(decision, *arguments)

    monkeypatch.setattr(runs, "end_everywhere", end_late)
    with open_stores(read) as stores:
        for name in stores:
            put(stores[name], "tea", run="r")
        CommitRecord(run="r", stores=("notes", "board"), operation="revert").write(folder / "runs")
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder)
        assert texts(stores) == [[], []]


def test_two_stores_on_one_file_are_committed_once(tmp_path: Path) -> None:
    read = write_workflow(
        tmp_path,
        "memory:",
        "  - {name: notes, type: simple, config: {memory_path: notes.db}}",
        "  - {name: board, type: simple, config: {memory_path: notes.db}}",
        "nodes:",
        agent_yaml("first", BOTH),
    )
    with open_stores(read) as stores:
        run = StoreRun("r", stores, decisions=tmp_path)
        put(run.stores["notes"], "tea")
        run.commit()
        assert texts(stores) == [["tea"], ["tea"]]


ORDINARY = ("nodes:", agent_yaml("first", BOTH), agent_yaml("second", BOTH))


def test_a_run_that_was_no_transaction_is_reverted_in_all_stores(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, STORES, *ORDINARY, TWO)
    with open_stores(read) as stores:
        runner = WorkflowRunner(read, stores, chat_models=ChatsByNode(), scope=Scope(run="one"))
        runner.run("Go")
        first = texts(stores)
        WorkflowRunner(read, stores, chat_models=ChatsByNode(), scope=Scope(run="two")).run("Stop")
        assert counts(stores) != [len(each) for each in first]
        undone = revert_run(read, stores, "two", tmp_path / "session")
        assert {name: info.run for name, info in undone.items()} == dict.fromkeys(("notes", "board"), "revert of two")
        assert texts(stores) == first
        assert {info.run: info.state.value for info in versions_of(stores["board"]).runs()} == {
            "one": "committed",
            "two": "reverted",
            "revert of two": "committed",
        }


def test_what_others_built_on_keeps_the_run_in_all_stores(tmp_path: Path) -> None:
    read = write_workflow(tmp_path, STORES, *ORDINARY, TWO)
    with open_stores(read) as stores:
        for name in stores:
            put(stores[name], "tea", run="r")
        put(stores["board"], "rain")
        with pytest.raises(RunConflictError, match="'1'"):
            revert_run(read, stores, "r", tmp_path / "session")
        assert texts(stores) == [["tea"], ["rain"]]
        with pytest.raises(RunStateError, match="no run"):
            revert_run(read, stores, "nobody", None)


def test_a_store_without_versions_that_the_run_wrote_to_is_named(tmp_path: Path) -> None:
    stores_yaml = STORES.replace("board.db", "board.json")
    read = write_workflow(tmp_path, stores_yaml, *ORDINARY, TWO)
    with open_stores(read) as stores:
        put(stores["notes"], "tea", run="r")
        put(stores["board"], "rain", run="s")
        revert_run(read, stores, "r", None)
        assert texts(stores) == [[], ["rain"]]
        put(stores["notes"], "snow", run="s")
        with pytest.raises(NoVersionsError, match=r"board\.json"):
            revert_run(read, stores, "s", None)
        assert texts(stores) == [["snow"], ["rain"]]


def test_a_deletion_in_a_node_has_its_run_and_its_agent(tmp_path: Path) -> None:
    """So that it is in the history, and reverted with the run."""
    read = write_workflow(tmp_path, STORES, *ORDINARY, TWO)
    with open_stores(read) as stores:
        put(stores["notes"], "tea")
        with acting_as("planner", run="r"):
            stores["notes"].delete(ids=["1"])
        (version,) = versions_of(stores["notes"]).history("1")
        assert version.ended is not None
        assert (version.ended.actor, version.ended.run) == ("planner", "r")
        revert_run(read, stores, "r", None)
        assert texts(stores) == [["tea"], []]
