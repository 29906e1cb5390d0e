"""A workflow with `transaction: true`: its run is committed as a whole, or leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from devmem import ConfigError, MemoryBase, MemoryItem, Scope, Workflow, WorkflowRunner, acting_as, open_stores
from devmem.errors import ChatModelError, RunConflictError
from devmem.stores.abilities import versions_of

# A run over several stores by hand: a runner's own meets no conflict, as its items have new ids.
from devmem.stores.runs import StoreRun
from tests.command_line import run_devmem
from tests.conftest import StartScript
from tests.dying import DYING

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
    return [stores[name].count() for name in ("notes", "board")]


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


_DYING = (
    DYING
    + """
from pathlib import Path
from tests.workflow.runner_doubles import ChatsByNode
file, share = sys.argv[1:]
read = devmem.load_workflow(file)

def go():
    with devmem.open_stores(read) as stores:
        devmem.WorkflowRunner(
            read, stores, chat_models=ChatsByNode(), rescue_dir=Path(file).parent / "session"
        ).run("Go")

lines = lines_of(go)
die_after(int(lines * float(share)), go)
os._exit(9)
"""
)


@pytest.mark.parametrize("places", [10, pytest.param(100, marks=pytest.mark.kit)])
def test_a_process_that_dies_leaves_all_of_its_run_or_nothing(
    tmp_path: Path, start_script: StartScript, places: int
) -> None:
    """In both stores alike, when the workflow is started again; most of the time is spent before the run is decided."""
    outcomes = set()
    for number in range(1, places + 1):
        folder = tmp_path / str(number)
        folder.mkdir()
        read = workflow(folder)
        share = 1 - 0.5 * number / (places + 1)
        assert start_script(_DYING, read.file, share).wait(120) == 9
        with open_stores(read) as stores:
            WorkflowRunner(read, stores, chat_models=ChatsByNode(), rescue_dir=folder / "session")
            assert counts(stores) in ([2, 2], [4, 4])
            outcomes.add(counts(stores)[0])
            states = {info.state.value for name in stores for info in versions_of(stores[name]).runs()}
            assert states <= {"committed", "discarded", "pending"}
    assert 2 in outcomes


def test_a_conflict_in_one_store_commits_in_none(tmp_path: Path) -> None:
    read = workflow(tmp_path)
    with open_stores(read) as stores:
        run = StoreRun("r", stores, decisions=tmp_path / "state.db")
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
        run = StoreRun("r", stores, decisions=tmp_path / "state.db")
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
        run_devmem("runs", read.file, "--revert", "two")
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
        assert "'1'" in run_devmem("runs", read.file, "--revert", "r", code=2).stderr
        assert texts(stores) == [["tea"], ["rain"]]
        assert "no run" in run_devmem("runs", read.file, "--revert", "nobody", code=2).stderr


def test_a_store_without_versions_that_the_run_wrote_to_is_named(tmp_path: Path) -> None:
    stores_yaml = STORES.replace("board.db", "board.json")
    read = write_workflow(tmp_path, stores_yaml, *ORDINARY, TWO)
    with open_stores(read) as stores:
        put(stores["notes"], "tea", run="r")
        put(stores["board"], "rain", run="s")
        run_devmem("runs", read.file, "--revert", "r")
        assert texts(stores) == [[], ["rain"]]
        put(stores["notes"], "snow", run="s")
        assert "board.json" in run_devmem("runs", read.file, "--revert", "s", code=2).stderr
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
        run_devmem("runs", read.file, "--revert", "r")
        assert texts(stores) == [["tea"], []]
