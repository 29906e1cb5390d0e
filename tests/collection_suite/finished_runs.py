"""Runs whose changes were seen by all at once, and how runs end."""

from __future__ import annotations

from contextlib import closing

import pytest

from devmem import Scope, acting_as
from devmem.errors import RunConflictError, RunStateError
from devmem.memory import Operation, RunState
from devmem.storage import Collection, VersionedCollection
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import item
from tests.collection_suite.runs import Running

_RUN = Scope(run="r")


def _state(collection: Collection) -> dict[str, str]:
    return {one.id: one.content_summary for one in collection.scan()}


def _advancing(clock: ManualClock) -> float:
    clock.advance(1.0)
    return clock.now


class FinishedRuns(Running):
    """Tests of runs that end, and of those that never were pending; they need a `VersionedCollection`."""

    @pytest.mark.parametrize("end", ["commit", "revert"])
    def test_a_run_ends_as_of_the_end_of_its_transaction(
        self, versioned: VersionedCollection, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, end: str
    ) -> None:
        """However long it takes: no earlier state shows what nobody could see then."""
        versioned.add([item("old", id="a")])
        with closing(versioned.run("r")) as view:
            view.add([item("new", id="a"), item("more", id="b")])
        if end == "revert":
            versioned.commit("r")
        clock.advance(60)
        before, began = _state(versioned), clock() + 1.0
        monkeypatch.setattr(ManualClock, "__call__", _advancing)
        ended = (versioned.commit if end == "commit" else versioned.revert)("r").ended_at
        monkeypatch.undo()
        assert ended is not None
        assert ended == clock() > began
        with closing(versioned.as_of(ended - 0.5)) as earlier, closing(versioned.as_of(ended)) as then:
            assert (_state(earlier), _state(then)) == (before, _state(versioned))
        assert _state(versioned) != before

    def test_a_run_that_was_never_pending_is_known(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """By what it wrote: it is listed, compared and found, and what others wrote meanwhile is not of it."""
        versioned.add([item("tea at three", id="1")])
        clock.advance(60)
        started = clock()
        versioned.add([item("tea at four", id="1", scope=_RUN)])
        clock.advance(60)
        versioned.add([item("rain", id="2")])
        clock.advance(60)
        versioned.add([item("snow", id="3", scope=_RUN)])
        (info,) = versioned.runs()
        assert info == versioned.find_run("r")
        assert (info.run, info.state, info.changes) == ("r", RunState.COMMITTED, 2)
        assert (info.started_at, info.ended_at) == pytest.approx((started, clock()))
        assert {each.item_id: each.operation for each in versioned.diff("r")} == {
            "1": Operation.UPDATE,
            "3": Operation.ADD,
        }
        assert versioned.commit("r") == info
        with pytest.raises(RunStateError):
            versioned.discard("r")

    def test_a_run_that_was_never_pending_is_reverted(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """However often it changed an item, and with what was deleted while it acted; and that is reverted again."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        before, then = _state(versioned), clock()
        clock.advance(60)
        for text in ("tea at four", "tea at five"):
            versioned.add([item(text, id="1", scope=_RUN), item(text, id="new", scope=_RUN)])
        with acting_as("planner", run="r"):
            versioned.delete(ids=["2"])
        after = _state(versioned)
        (gone,) = versioned.history("2")
        assert gone.ended is not None
        assert (gone.ended.run, gone.ended.actor) == ("r", "planner")
        clock.advance(60)
        assert versioned.conflicts("r") == []
        undone = versioned.revert("r")
        assert _state(versioned) == before
        assert versioned.diff(then) == []
        known = versioned.find_run("r")
        assert known is not None
        assert known.state is RunState.REVERTED
        versioned.revert(undone.run)
        assert _state(versioned) == after

    @pytest.mark.parametrize("later", ["changed", "between", "deleted"])
    def test_what_others_wrote_since_keeps_it(self, versioned: VersionedCollection, later: str) -> None:
        """The items are named, and nothing is changed."""
        versioned.add([item("tea at three", id="1")])
        versioned.add([item("tea at four", id="1", scope=_RUN)])
        if later == "deleted":
            versioned.delete(ids=["1"])
        else:
            versioned.add([item("tea at five", id="1")])
        if later == "between":
            versioned.add([item("tea at six", id="1", scope=_RUN)])
        before = _state(versioned)
        assert versioned.conflicts("r") == ["1"]
        with pytest.raises(RunConflictError) as caught:
            versioned.revert("r")
        assert caught.value.ids == ("1",)
        assert _state(versioned) == before

    @pytest.mark.parametrize("ending", ["commit", "revert"])
    def test_nothing_is_changed_when_what_follows_fails(self, versioned: VersionedCollection, ending: str) -> None:
        """The next store of several, say: its error ends the transaction of the first."""
        run = versioned.run("r")
        run.add([item("tea", id="1")])
        run.close()
        if ending == "revert":
            versioned.commit("r")
        before = _state(versioned), versioned.find_run("r")

        def fail() -> None:
            raise KeyError("the next store")

        with pytest.raises(KeyError):
            versioned.commit("r", then=fail) if ending == "commit" else versioned.revert("r", then=fail)
        assert (_state(versioned), versioned.find_run("r")) == before

    def test_the_history_names_who_changed_what(self, versioned: VersionedCollection) -> None:
        """Within a run and without one; a run's own actor where nobody acts."""
        versioned.add([item("tea at three", id="1")])
        with acting_as("editor"):
            versioned.add([item("tea at four", id="1")])
        run = versioned.run("r", actor="runner")
        run.add([item("tea at five", id="1")])
        with acting_as("planner"):
            run.delete(ids=["1"])
        run.close()
        versioned.commit("r")
        first, second = versioned.history("1")
        assert first.ended is not None
        assert second.ended is not None
        assert [first.ended.actor, second.began.actor, second.ended.actor] == ["editor", "editor", "planner"]

    def test_any_name_of_a_run(self, versioned: VersionedCollection) -> None:
        """A run is listed by its own name, whether it was pending or not."""
        name = "\\escaped:a plan \\ud83d 计划"
        run = versioned.run(f"{name} pending", actor=name)
        run.add([item("tea", id="1"), item("rain", id=name)])
        run.close()
        versioned.add([item("snow", id="2", scope=Scope(run=name))])
        versioned.commit(f"{name} pending")
        assert {info.run for info in versioned.runs()} == {name, f"{name} pending"}
        assert {info.actor for info in versioned.runs()} == {name, None}
        assert [versioned.find_run(info.run) for info in versioned.runs()] == versioned.runs()
        assert versioned.revert(name).run == f"revert of {name}"
        versioned.add([item("hail", id=name)])
        assert versioned.conflicts(f"{name} pending") == [name]
