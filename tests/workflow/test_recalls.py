"""The log of what agents were shown: block by block, and without what was forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

import devmem
from devmem import Scope, WorkflowRunner, load_workflow, open_stores
from devmem.errors import ConfigError
from devmem.memory import record_recall
from tests.command_line import recalls, run_devmem

WORKFLOW = """
memory:
  - {name: notes, type: simple, config: {memory_path: notes.db}}
record_recalls: RECORD
nodes:
  - id: helper
    type: agent
    config:
      provider: extractive
      memories: [{name: notes, top_k: 3, write: false, retrieve_stage: [gen]}]
"""


def workflow_in(folder: Path, record: str = "true") -> Path:
    file = folder / "team.yaml"
    file.write_text(WORKFLOW.replace("RECORD", record), encoding="utf-8")
    return file


def ask(file: Path, question: str) -> str:
    workflow = load_workflow(file)
    with open_stores(workflow) as stores, WorkflowRunner(workflow, stores) as runner:
        result = runner.run(question)
    return next(iter(result.nodes[0].recalled.values())).formatted_text


def remember(file: Path, *texts: str) -> list[str]:
    with devmem.open(f"{file}#notes") as memory:
        return memory.add(list(texts))


def test_the_log_has_the_very_block_that_the_agent_received(tmp_path: Path) -> None:
    file = workflow_in(tmp_path)
    launch, _ = remember(file, "The launch is on June 2nd.\n2. not an entry", "The venue of the launch is Berlin.")
    block = ask(file, "When is the launch?")
    (recall,) = recalls(file)
    assert recall.block == block
    assert (recall.node, recall.stage, recall.query) == ("helper", "gen", "When is the launch?")
    assert launch in {entry.item for entry in recall.entries}
    assert recalls(file, "--id", launch) == [recall]
    assert recalls(file, "--run", recall.run) == [recall]


def test_hashes_alone_name_the_items_and_keep_no_word(tmp_path: Path) -> None:
    file = workflow_in(tmp_path, "{contents: hash}")
    (item,) = remember(file, "Ann's locker is xylophone.")
    ask(file, "Where is Ann's xylophone locker?")
    (recall,) = recalls(file)
    assert recall.block is None
    assert recall.query is None
    assert [entry.item for entry in recall.entries] == [item]
    assert not any(b"xylophone" in each.read_bytes() for each in tmp_path.rglob("state.db*"))


@pytest.mark.parametrize("in_one_store", [False, True])
def test_forgetting_takes_an_item_out_of_every_block_that_showed_it(tmp_path: Path, in_one_store: bool) -> None:
    file = workflow_in(tmp_path)
    (secret, _) = remember(file, "The code of the lab is zanzibar.", "The lab opens at nine.")
    ask(file, "code of the lab is Zanzibar")
    if in_one_store:
        with devmem.open(f"{file}#notes") as memory:
            assert memory.forget(secret).items == 1
    else:
        assert not devmem.forget(file, secret).left
    (recall,) = recalls(file)
    assert recall.block is not None
    assert "[erased]" in recall.block
    assert "opens at nine" in recall.block
    assert recall.query is None
    assert all(b"zanzibar" not in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


def test_nothing_stays_in_a_log_that_is_open(tmp_path: Path) -> None:
    file = workflow_in(tmp_path)
    (secret, _) = remember(file, "The code of the lab is zanzibar.", "The lab opens at nine.")
    with devmem.open(f"{file}#notes") as memory:
        assert "zanzibar" in memory.context("code of the lab is zanzibar")
        assert memory.forget(secret).items == 1
        assert all(b"zanzibar" not in each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())


def test_forgetting_a_user_takes_all_that_the_users_runs_were_shown(tmp_path: Path) -> None:
    file = workflow_in(tmp_path)
    remember(file, "The lab opens at nine.")
    workflow = load_workflow(file)
    for user in ("ann", "bob"):
        with open_stores(workflow) as stores, WorkflowRunner(workflow, stores, scope=Scope(user=user)) as runner:
            runner.run("When does the lab open?")
    devmem.forget(file, user="ann", matching="nothing of the kind")
    assert [recall.user for recall in recalls(file)] == ["ann", "bob"]
    assert devmem.forget(file, user="ann").shown == 1
    assert [recall.user for recall in recalls(file)] == ["bob"]
    devmem.forget(file, user=devmem.ANY)
    assert recalls(file) == []


def test_a_log_that_is_damaged_is_named_by_the_receipt(tmp_path: Path) -> None:
    file = workflow_in(tmp_path)
    (secret, _) = remember(file, "The code of the lab is zanzibar.", "The lab opens at nine.")
    ask(file, "What is the code of the lab?")
    (log,) = tmp_path.rglob("state.db")
    log.write_bytes(b"damaged" * 1000)
    with devmem.open(f"{file}#notes") as memory:
        receipt = memory.forget(secret, verify=True)
    assert receipt.items == 1
    assert any("state.db" in left.place for left in receipt.residues)


def test_nothing_is_recorded_without_the_switch(tmp_path: Path) -> None:
    file = workflow_in(tmp_path, "false")
    remember(file, "The launch is on June 2nd.")
    ask(file, "When is the launch?")
    with devmem.open(f"{file}#notes") as memory:
        memory.context("When is the launch?")
    assert "record_recalls" in run_devmem("log", "--shown", file, code=None).output


@pytest.mark.parametrize("value", ["7", "[1]", "{contents: words}", "{retension: 3d}"])
def test_a_wrong_value_is_named(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="record_recalls"):
        load_workflow(workflow_in(tmp_path, value))


def test_what_a_program_is_shown_by_a_memory_is_recorded(tmp_path: Path) -> None:
    """Each opening of the memory is a run, or each conversation; the item leads to its steps, and takes itself out."""
    file = workflow_in(tmp_path)
    with devmem.open(f"{file}#notes") as memory:
        item = memory.add("The launch is on June 2nd.", user="ann")
        with devmem.acting_as("editor"):
            block = memory.context("When is the launch?", user="ann")
        memory.scoped(user="ann", agent="writer", conversation="c-1").context("launch?")
        memory.search("launch", user="ann")
    with devmem.open(f"{file}#notes") as memory:
        memory.context("launch?", user=devmem.ANY)
        record_recall(memory, "launch", memory.search("launch", user="ann"), host="crewai", began=0.0, user="ann")
    first, talk, other, listed = recalls(file)
    assert (first.block, first.node, first.agent, first.user) == (block, "editor", "editor", "ann")
    assert first.stage == "gen"
    assert first.budget == 2000
    assert [(entry.store, entry.item, entry.user) for entry in first.entries] == [("notes", item, "ann")]
    assert (talk.agent, talk.conversation, talk.run) == ("writer", "c-1", "c-1")
    assert other.run == listed.run != first.run
    assert (listed.node, listed.block) == ("crewai", "1. The launch is on June 2nd.")
    with devmem.open(f"{file}#notes") as memory:
        memory.scoped(user="ann").forget(item)
    assert [step.block for step in recalls(file, "--run", listed.run)][1:] == ["[erased]"]


def test_a_log_that_cannot_be_written_costs_a_program_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = workflow_in(tmp_path)
    with devmem.open(f"{file}#notes") as memory:
        memory.add("The launch is on June 2nd.")
        (tmp_path / ".devmem" / "default" / "state.db").mkdir(parents=True)
        assert "June 2nd" in memory.context("When is the launch?")
    assert "could not be recorded" in caplog.text
