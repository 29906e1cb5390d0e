"""The versions of what is remembered, and earlier states of a memory."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import devmem
from devmem.errors import RunStateError, ScopeError


def test_an_earlier_state_is_read_within_its_scope() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("Ann likes tea.", user="ann", id="1")
        memory.add("Bob likes tea.", user="bob", id="2")
        then = time.time()
        memory.update("1", "Ann likes coffee.")
        memory.forget("2")
        with memory.scoped(user="ann").as_of(then) as earlier:
            assert [hit.text for hit in earlier.search("Who likes tea?")] == ["Ann likes tea."]
            assert len(earlier) == 1
        assert memory.scoped(user="bob").history("1") == []
        assert [hit.text for hit in memory.search("likes", user=devmem.ANY)] == ["Ann likes coffee."]


def test_a_run_is_seen_by_others_from_its_end_on() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("The launch is on May 5th.", id="launch")
        with memory.run("r", actor="planner") as pending:
            pending.update("launch", "The launch is on June 2nd.")
            pending.add("Ann brings the cake.", id="cake")
            assert [hit.text for hit in pending.search("launch")] == ["The launch is on June 2nd."]
            assert [hit.text for hit in memory.search("launch")] == ["The launch is on May 5th."]
            assert [(each.operation.value, each.after and each.after.id) for each in memory.diff(run="r")] == [
                ("add", "cake"),
                ("update", "launch"),
            ]
        assert [hit.text for hit in memory.search("launch")] == ["The launch is on June 2nd."]
        assert memory.history("launch")[1].actor == "planner"
        assert memory.revert("r").run == "revert of r"
        assert [record.text for record in memory] == ["The launch is on May 5th."]


def test_a_run_whose_process_died_is_pending(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    with devmem.open(file, embedding=None) as memory:
        run = memory.run("r")
        run.memory.add("tea", id="1")
        run.close()
    with devmem.open(file, embedding=None) as memory:
        assert len(memory) == 0
        assert [(run.run, run.state.value, run.changes) for run in memory.runs()] == [("r", "pending", 1)]
        with memory.run("r") as again:
            again.add("rain", id="2")
        assert len(memory) == 2
        with pytest.raises(ScopeError):
            memory.scoped(user="ann").revert("r")
        with pytest.raises(RunStateError):
            memory.discard("r")
        with pytest.raises(ValueError, match="run"):
            memory.diff()
