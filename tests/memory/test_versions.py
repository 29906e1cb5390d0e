"""The versions of what is remembered, and earlier states of a memory."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import devmem
from devmem.errors import CollectionReadOnlyError, NoVersionsError, RunStateError, ScopeError


def test_history_is_listed_with_its_times() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        launch = memory.add("The launch is on May 5th.")
        memory.update(launch, "The launch is on June 2nd.")
        first, second = memory.history(launch)
        assert [first.item.text, second.item.text] == ["The launch is on May 5th.", "The launch is on June 2nd."]
        assert (first.operation.value, second.operation.value) == ("add", "update")
        assert first.since < first.until == second.since  # type: ignore[operator]
        assert second.until is None
        assert second.ended is None
        assert asyncio.run(memory.ahistory(launch)) == [first, second]


def test_the_history_names_the_agent_or_the_program_that_changed_it() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("The launch is on May 5th.", id="launch", agent="editor")
        memory.scoped(agent="editor").update("launch", "The launch is on June 2nd.")
        with devmem.acting_as("importer"):
            memory.update("launch", "The launch is on June 3rd.")
        first, second, third = memory.history("launch")
        assert (first.actor, second.actor, third.actor) == ("editor", "editor", "importer")


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


def test_what_was_forgotten_is_in_no_history_and_no_state() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("Ann's first address", user="ann", id="1")
        then = time.time()
        memory.update("1", "Ann's second address")
        assert memory.forget(user="ann").items == 1
        assert memory.history("1") == []
        with memory.as_of(then) as earlier:
            assert len(earlier) == 0


def test_nothing_is_written_to_an_earlier_state() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("tea", id="1")
        with memory.as_of(time.time()) as earlier, pytest.raises(CollectionReadOnlyError):
            earlier.store.delete(ids=["1"])


def test_a_store_without_versions_says_so(tmp_path: Path) -> None:
    with devmem.open(tmp_path / "notes.json", embedding=None) as memory:
        memory.add("tea", id="1")
        with pytest.raises(NoVersionsError, match=r"notes\.json, which keeps none"):
            memory.history("1")
        with pytest.raises(NoVersionsError):
            memory.as_of("2026-01-01")
        assert memory.forget("1").items == 1


def test_a_brain_refuses_what_its_states_have_no_versions_for() -> None:
    with devmem.open({"type": "brain", "config": {}}) as memory, pytest.raises(NoVersionsError, match="states"):
        memory.as_of(time.time())


def test_history_of_a_json_file_is_refused_in_the_declaration(tmp_path: Path) -> None:
    config = {"memory_path": str(tmp_path / "notes.json"), "history": 3}
    with pytest.raises(devmem.ConfigError, match="keeps no versions"):
        devmem.open({"type": "simple", "config": config})


@pytest.mark.parametrize(("history", "kept"), [("none", 1), ("keep", 2), (0.5, 2)])
def test_the_declaration_bounds_the_history(history: object, kept: int) -> None:
    with devmem.open({"type": "simple", "config": {"history": history}}) as memory:
        memory.add("one", id="1")
        memory.update("1", "two")
        assert len(memory.history("1")) == kept


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


def test_an_error_discards_the_run() -> None:
    with devmem.open(":memory:", embedding=None) as memory:
        memory.add("tea", id="1")

        def go_wrong() -> None:
            with memory.run("r") as pending:
                pending.forget("1")
                pending.add("rain", id="2")
                raise KeyError

        with pytest.raises(KeyError):
            go_wrong()
        assert [record.text for record in memory] == ["tea"]
        assert [(run.run, run.state.value) for run in memory.runs()] == [("r", "discarded")]


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
