"""`consolidate:` of a store: when a runner is closed, the store is consolidated if its schedule says so."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import devmem
from devmem import WorkflowRunner, open_stores
from devmem.errors import ConfigError
from devmem.testing import ManualClock
from tests.workflow.runner_doubles import ChatsByNode, agent_yaml, write_workflow

STORE = "memory: [{{name: notes, type: simple, config: {{memory_path: '{path}', consolidate: {options}}}}}]"
SAME = ("Ann has two cats.", "ann has 2 cats")
HOUR = 3600.0


def workflow_of(folder: Path, options: str, path: str = "notes.db") -> devmem.Workflow:
    return write_workflow(
        folder, STORE.format(path=path, options=options), "nodes:", agent_yaml("writer", "name: notes")
    )


def closed_runner(workflow: devmem.Workflow, clock: ManualClock, *texts: str) -> int:
    """Add texts while a runner is open; return the number of items after it was closed."""
    with open_stores(workflow, clock=clock) as stores:
        with WorkflowRunner(workflow, stores, chat_models=ChatsByNode()):
            devmem.Memory(stores["notes"]).add(texts)
        return stores["notes"].count()


def test_a_store_is_consolidated_once_in_a_while(tmp_path: Path) -> None:
    workflow, clock = workflow_of(tmp_path, "{every: 2h}"), ManualClock()
    assert closed_runner(workflow, clock, *SAME) == 1
    clock.advance(HOUR)
    assert closed_runner(workflow, clock, SAME[1]) == 2
    clock.advance(HOUR)
    assert closed_runner(workflow, clock, "Bob has a dog.") == 2


def test_a_store_that_is_only_opened_is_not(tmp_path: Path) -> None:
    workflow = workflow_of(tmp_path, "{}")
    with open_stores(workflow) as stores:
        devmem.Memory(stores["notes"]).add(SAME)
    with open_stores(workflow) as stores:
        assert stores["notes"].count() == 2


def test_keys_that_may_differ_and_digests(tmp_path: Path) -> None:
    workflow, clock = workflow_of(tmp_path, "{ignore: [line], digest_after: 30d}"), ManualClock()
    with open_stores(workflow, clock=clock) as stores:
        memory = devmem.Memory(stores["notes"])
        for line, text in enumerate(SAME):
            memory.add(text, metadata={"line": line})
        for number in range(10):
            time = clock() - 40 * 24 * HOUR + number
            memory.add(f"Task {number} is done by Ann.", conversation="launch", time=time)
        WorkflowRunner(workflow, stores, chat_models=ChatsByNode()).close()
        assert len(memory) == 12
        assert memory.count(where={"source_kind": "summary"}) == 1


def test_a_failure_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow, clock = workflow_of(tmp_path, "{every: 1d}"), ManualClock()

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr("devmem.stores.consolidation.replace_file", refuse)
        assert closed_runner(workflow, clock, *SAME) == 1
    assert "could not be consolidated: no space left" in caplog.text
    assert closed_runner(workflow, clock, SAME[1]) == 1


def test_a_damaged_time_counts_as_none(tmp_path: Path) -> None:
    workflow, clock = workflow_of(tmp_path, "{}"), ManualClock()
    closed_runner(workflow, clock, SAME[0])
    (file,) = (tmp_path / ".devmem" / "default").glob("*.consolidated")
    file.write_bytes(b"\xff not a time")
    assert closed_runner(workflow, clock, SAME[1]) == 1


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ("{every: never}", "notes.db", "every"),
        ("{evry: 1d}", "notes.db", "evry"),
        ("{digest_after: -3}", "notes.db", "digest_after"),
        ("{}", "notes.json", "needs the versions of items"),
        ("{}, history: none", "notes.db", "needs the versions of items"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, options: str, path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        workflow_of(tmp_path, options, path)
