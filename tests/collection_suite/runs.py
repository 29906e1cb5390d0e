"""Runs: pending, committed, discarded and reverted, those that were seen at once, and who sees what when."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem import Filter, MemoryItem, Scope, WriteStatus, acting_as
from devmem.errors import RunConflictError, RunStateError
from devmem.memory import Operation, RunState
from devmem.storage import Collection, SearchQuery, Unique, VersionedCollection
from devmem.stores import PassageEmbeddings, Provenance
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import EMBEDDER, ids, item, waiting_item
from tests.collection_suite.run_machine import check_runs
from tests.collection_suite.versions import SHARED, Versioning

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "delete", "clear", "trim", "pop"]),
        st.sampled_from(["a", "b", "c", "d"]),
        st.sampled_from(["tea at three", "tea at four", "rain", "snow"]),
    ),
    max_size=8,
)


def _texts(found: list[MemoryItem]) -> dict[str, str]:
    return {one.id: one.content_summary for one in found}


class Running(Versioning):
    """Tests of runs; they need a collection that is a `VersionedCollection`."""

    def test_a_run_sees_what_it_wrote_and_others_do_not(self, versioned: VersionedCollection) -> None:
        """By every way of reading, words and meaning included."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2"), item("snow", id="3")])
        run = versioned.run("r")
        run.add([item("tea at four", id="1"), item("tea for two", id="4")])
        run.delete(ids=["2"])
        query = SearchQuery(text="tea", vector=EMBEDDER.vector("tea at four"), limit=9)
        assert run.search(query)[0].item.content_summary == "tea at four"
        assert _texts(list(run.scan())) == {"3": "snow", "1": "tea at four", "4": "tea for two"}
        assert ids(run.recent(2)) == ["4", "1"]
        assert (run.count(), run.info().items) == (3, 3)
        assert run.get(["2"]) == []
        assert _texts(list(versioned.scan())) == {"1": "tea at three", "2": "rain", "3": "snow"}
        assert versioned.search(query)[0].item.content_summary == "tea at three"
        assert versioned.count() == 3
        run.close()

    def test_a_run_ranks_as_if_it_were_committed(self, versioned: VersionedCollection) -> None:
        """A search in a run has the hits and scores that the same search has after the commit."""
        versioned.add([item(f"tea number {n} in the garden", id=f"{n}") for n in range(20)])
        run = versioned.run("r")
        run.add([item(f"coffee number {n} in the kitchen", id=f"{n}") for n in range(0, 20, 2)])
        query = SearchQuery(text="tea number 7", vector=EMBEDDER.vector("tea number 7"), limit=9, now=1_700_000_000.0)
        within = run.search(query)
        run.close()
        versioned.commit("r")
        after = versioned.search(query)
        assert ids([hit.item for hit in within]) == ids([hit.item for hit in after])
        assert [hit.score for hit in within] == pytest.approx([hit.score for hit in after], abs=1e-4)

    def test_a_commit_shows_everything_at_once(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """With the history of what it replaced, and the run's name and actor in it."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        clock.advance(60)
        run = versioned.run("r", actor="planner")
        run.add([item("tea at four", id="1"), item("snow", id="3")])
        run.delete(ids=["2"])
        run.close()
        clock.advance(60)
        info = versioned.commit("r")
        assert (info.run, info.state, info.actor, info.changes) == ("r", RunState.COMMITTED, "planner", 3)
        assert _texts(list(versioned.scan())) == {"1": "tea at four", "3": "snow"}
        (hit,) = versioned.search(SearchQuery(vector=EMBEDDER.vector("tea at four"), limit=1))
        assert hit.similarity == pytest.approx(1, abs=1e-4)
        old, new = versioned.history("1")
        assert old.ended is not None
        assert (old.ended.run, old.ended.actor, new.began.run) == ("r", "planner", "r")
        assert old.ended.at == new.began.at == pytest.approx(clock())
        (gone,) = versioned.history("2")
        assert gone.ended is not None
        assert (gone.ended.operation, gone.ended.run) == (Operation.FORGET, "r")
        assert versioned.commit("r") == info

    def test_discarding_leaves_what_was_there(self, versioned: VersionedCollection) -> None:
        """The items that the run had replaced or deleted were never touched."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        before = list(versioned.scan())
        run = versioned.run("r")
        run.add([item("tea at four", id="1"), item("snow", id="3")])
        run.clear()
        run.add([item("hail", id="4")])
        run.close()
        info = versioned.discard("r")
        assert (info.state, info.changes) == (RunState.DISCARDED, 0)
        assert list(versioned.scan()) == before
        assert [len(versioned.history(name)) for name in ("1", "2", "3", "4")] == [1, 1, 0, 0]
        assert versioned.discard("r") == info
        with pytest.raises(RunStateError):
            versioned.commit("r")

    def test_a_pending_run_can_be_taken_up_again(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Also by another view of it; the states of runs are listed, newest first."""
        versioned.add([item("tea", id="1")])
        first = versioned.run("r")
        first.add([item("rain", id="2")])
        first.close()
        clock.advance(60)
        again, other = versioned.run("r"), versioned.run("s")
        assert ids(list(again.scan())) == ["1", "2"]
        assert ids(list(other.scan())) == ["1"]
        other.add([item("snow", id="3")])
        assert [(info.run, info.state, info.changes) for info in versioned.runs()] == [
            ("s", RunState.PENDING, 1),
            ("r", RunState.PENDING, 1),
        ]
        versioned.commit("r")
        assert ids(list(other.scan())) == ["1", "2", "3"] or ids(list(other.scan())) == ["1", "3", "2"]
        again.close()
        other.close()

    def test_an_ended_run_takes_no_writes(self, versioned: VersionedCollection) -> None:
        """Neither by a new view nor by one that was open."""
        run = versioned.run("r")
        run.add([item("tea", id="1")])
        versioned.commit("r")
        with pytest.raises(RunStateError, match="committed"):
            run.add([item("rain", id="2")])
        with pytest.raises(RunStateError):
            versioned.run("r")
        with pytest.raises(RunStateError):
            versioned.commit("nobody")
        run.close()

    @pytest.mark.parametrize("theirs", ["add", "update", "delete"])
    def test_what_others_changed_since_is_a_conflict(self, versioned: VersionedCollection, theirs: str) -> None:
        """Whether they added, changed or deleted it; the error names it, and what both deleted is none."""
        if theirs != "add":
            versioned.add([item("tea at three", id="1")])
        run = versioned.run("r")
        run.add([item("tea at four", id="1")])
        if theirs == "delete":
            versioned.delete(ids=["1"])
        else:
            versioned.add([item("tea at five", id="1")])
        with pytest.raises(RunConflictError, match="'1'") as caught:
            versioned.commit("r")
        assert caught.value.ids == ("1",)
        run.delete(ids=["1"])
        if theirs == "delete":
            versioned.commit("r")
            assert list(versioned.scan()) == []
        run.close()

    def test_duplicates_are_those_that_the_run_sees(self, versioned: VersionedCollection) -> None:
        """The same content once, and again after the run has deleted it."""
        versioned.add([item("tea", id="1")])
        run = versioned.run("r")
        assert run.add([item("tea", id="2")], unique=Unique.CONTENT)[0].status is WriteStatus.DUPLICATE
        run.delete(ids=["1"])
        assert run.add([item("tea", id="2")], unique=Unique.CONTENT)[0].status is WriteStatus.STORED
        assert ids(run.pop()) == ["2"]
        run.close()

    def test_waiting_items_of_a_run_are_embedded(self, versioned: VersionedCollection) -> None:
        """Before the commit or after it."""
        run = versioned.run("r")
        run.add([waiting_item("tea", id="1"), waiting_item("rain", id="2")])
        assert ids(run.waiting(9)) == ["1", "2"]
        assert versioned.waiting(9) == []
        assert run.set_embeddings({"1": PassageEmbeddings.of(EMBEDDER.vector("tea"))}) == 1
        assert [hit.item.id for hit in run.search(SearchQuery(vector=EMBEDDER.vector("tea")))] == ["1"]
        run.close()
        versioned.commit("r")
        assert ids(versioned.waiting(9)) == ["2"]
        assert [hit.item.id for hit in versioned.search(SearchQuery(vector=EMBEDDER.vector("tea")))] == ["1"]

    def test_reverting_brings_back_what_was_replaced(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """By changes that follow: the history keeps what was undone."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        then = clock()
        clock.advance(60)
        run = versioned.run("r")
        run.add([item("tea at four", id="1"), item("snow", id="3")])
        run.delete(ids=["2"])
        run.close()
        versioned.commit("r")
        during = clock()
        clock.advance(60)
        undone = versioned.revert("r")
        assert undone.state is RunState.COMMITTED
        assert _texts(list(versioned.scan())) == {"1": "tea at three", "2": "rain"}
        assert versioned.diff(then) == []
        assert {each.item_id: each.operation for each in versioned.diff(during)} == {
            "1": Operation.UPDATE,
            "2": Operation.ADD,
            "3": Operation.FORGET,
        }
        assert [version.began.operation.value for version in versioned.history("1")] == ["add", "update", "restore"]
        assert {info.run: info.state for info in versioned.runs()}["r"] is RunState.REVERTED
        (hit,) = versioned.search(SearchQuery(vector=EMBEDDER.vector("rain"), limit=1))
        assert hit.item.id == "2"
        with pytest.raises(RunStateError):
            versioned.revert("r")

    @pytest.mark.parametrize("later", ["changed", "deleted", "again", "derived"])
    def test_what_later_versions_build_on_is_not_reverted(self, versioned: VersionedCollection, later: str) -> None:
        """The error names them, and nothing is changed."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        run = versioned.run("r")
        run.add([item("tea at four", id="1"), item("snow", id="3")])
        run.delete(ids=["2"])
        run.close()
        versioned.commit("r")
        wanted = {"changed": "1", "deleted": "3", "again": "2", "derived": "summary"}[later]
        if later == "changed":
            versioned.add([item("tea at six", id="1")])
        elif later == "deleted":
            versioned.delete(ids=["3"])
        elif later == "again":
            versioned.add([item("rain again", id="2")])
        else:
            versioned.add([item("it snows", id="summary", provenance=Provenance(parents=("3",)))])
        before = list(versioned.scan())
        with pytest.raises(RunConflictError) as caught:
            versioned.revert("r")
        assert caught.value.ids == (wanted,)
        assert list(versioned.scan()) == before

    def test_differences_of_times_and_runs(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """A pending run's are those that its commit would make."""
        versioned.add([item("tea at three", id="1"), item("rain", id="2")])
        then = clock()
        clock.advance(60)
        run = versioned.run("r")
        run.add([item("tea at four", id="1")])
        run.delete(ids=["2"])
        run.close()
        pending = versioned.diff("r")
        assert versioned.diff(then) == []
        versioned.commit("r")
        for found in (pending, versioned.diff("r"), versioned.diff(then)):
            texts = [[one and one.content_summary for one in (each.before, each.after)] for each in found]
            assert [each.item_id for each in found] == ["1", "2"]
            assert texts == [["tea at three", "tea at four"], ["rain", None]]
        assert versioned.diff(then, then) == versioned.diff("r", clock()) == []
        with pytest.raises(RunStateError):
            versioned.diff("nobody")

    @settings(max_examples=25, suppress_health_check=SHARED, deadline=None)
    @given(before=_STEPS, within=_STEPS, ending=st.sampled_from(["commit", "discard", "revert"]))
    def test_a_run_is_all_or_nothing(
        self,
        versioned: VersionedCollection,
        clock: ManualClock,
        before: list[tuple[str, str, str]],
        within: list[tuple[str, str, str]],
        ending: str,
    ) -> None:
        """Whatever a run does, it sees it; a commit shows just that, a discard or a revert what was there before."""
        versioned.erase(where=Filter())
        clock.advance(60)
        for step in before:
            _do(versioned, step)
        # Several changes at one time of the clock are recorded one after the other.
        old, then, name = list(versioned.scan()), clock() + 1, f"run at {clock()}"
        clock.advance(60)
        run = versioned.run(name)
        for step in within:
            _do(run, step)
        new = _texts(list(run.scan()))
        assert list(versioned.scan()) == old
        run.close()
        if not any(info.run == name for info in versioned.runs()):
            return
        versioned.discard(name) if ending == "discard" else versioned.commit(name)
        assert _texts(list(versioned.scan())) == (_texts(old) if ending == "discard" else new)
        if ending == "revert":
            clock.advance(60)
            versioned.revert(name)
            assert versioned.diff(then) == []
            assert _texts(list(versioned.scan())) == _texts(old)
        found = versioned.search(SearchQuery(text="tea rain snow", limit=99))
        assert {hit.item.id for hit in found} <= set(_texts(list(versioned.scan())))

    def test_runs_do_what_dictionaries_do(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Whatever two runs and a writer outside of them do: what a run sees, its conflicts, and what it commits."""
        check_runs(versioned, clock, examples=25, steps=16)


def _do(collection: Collection, step: tuple[str, str, str]) -> None:
    kind, name, text = step
    if kind == "add":
        collection.add([item(text, id=name)])
    elif kind == "delete":
        collection.delete(ids=[name])
    elif kind == "trim":
        collection.trim(keep=2)
    elif kind == "pop":
        collection.pop()
    else:
        collection.clear()


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
