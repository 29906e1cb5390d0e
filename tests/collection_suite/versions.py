"""Versions of items: what the collection was at any time, and what is left of what was erased."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import closing
from typing import Final, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devmem import Filter, MemoryItem, Scope
from devmem.errors import CollectionReadOnlyError, FilterError
from devmem.memory import Change, Operation
from devmem.storage import SearchQuery, VersionedCollection
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, ids, item

SHARED: Final = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
"""Each example clears the collection that they share; each class that uses the suite runs its examples itself."""
_IDS = st.sampled_from(["a", "b", "c", "d"])
_WORDS = st.sampled_from(["tea at three", "tea at four", "rain", "the train is late", "会议 在 周五"])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), _IDS, _WORDS),
        st.tuples(st.just("delete"), _IDS, st.just("")),
        st.tuples(st.just("trim"), st.just("2"), st.just("")),
        st.tuples(st.just("erase"), _IDS, st.just("")),
        st.tuples(st.sampled_from(["clear", "pop"]), st.just(""), st.just("")),
    ),
    max_size=12,
)


class Versioning(Opening):
    """Tests of versions; they need a collection that is a `VersionedCollection`."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """A clock that the test advances; every recorded time is one that it showed."""
        return ManualClock()

    @pytest.fixture
    def versioned(self, opened: OpenCollection, clock: ManualClock) -> VersionedCollection:
        """A new collection with versions, whose time is the clock's."""
        collection = opened(model=MODEL, clock=clock)
        assert isinstance(collection, VersionedCollection)
        return collection

    def test_a_long_write_is_recorded_when_it_ends(self, opened: OpenCollection) -> None:
        """Until then nobody saw it, so an earlier state does not show it."""
        times = itertools.count(1_000_000.0)
        slow = cast("VersionedCollection", opened(model=MODEL, clock=lambda: next(times)))
        slow.add([item("rain", id="0"), item("rain", id="1")])
        began = next(times)
        slow.add([item("tea", id="1"), item("tea", id="2"), item("coffee", id="2")])
        ended = next(times)
        added = [version for each in ("1", "2") for version in slow.history(each) if version.ended is None]
        (at,) = {version.began.at for version in added}
        assert at is not None
        # The clock goes on with each question.
        assert began < at < ended
        assert at == ended - 1 or at - began > 2
        (replaced,) = [version.ended for version in slow.history("1") if version.ended is not None]
        assert replaced.at == at
        with closing(slow.as_of(at - 0.5)) as before, closing(slow.as_of(at)) as after:
            assert ids(list(before.scan())) == ["0", "1"]
            assert [each.content_summary for each in after.get(["0", "1", "2"])] == ["rain", "tea", "coffee"]

    def test_history_tells_what_changed_when(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Each version has the change that began it and the one that ended it, without a gap between them."""
        first, second = item("tea at three", id="1", scope=Scope(run="r1")), item("tea at four", id="1")
        times = []
        for change in (lambda: versioned.add([first]), lambda: versioned.add([second]), versioned.clear):
            times.append(clock())
            change()
            clock.advance(60)
        one, two = versioned.history("1")
        assert (one.item, two.item) == (first, second)
        assert [each.began.operation for each in (one, two)] == [Operation.ADD, Operation.UPDATE]
        assert [each.began.at for each in (one, two)] == pytest.approx(times[:2])
        assert one.ended is not None
        assert one.ended == Change(operation=Operation.UPDATE, at=two.began.at)
        assert two.ended is not None
        assert two.ended.operation is Operation.FORGET
        assert two.ended.at == pytest.approx(times[2])
        assert one.began.run == "r1"
        assert versioned.history("nobody") == []

    def test_a_state_is_searched_as_it_was(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Words, meaning, filters and counts are those of the time, and its items have their embeddings."""
        versioned.add([item("tea at three", id="1", scope=Scope(user="ann")), item("rain", id="2")])
        then = clock()
        clock.advance(60)
        versioned.add([item("snow at noon", id="1", scope=Scope(user="ann")), item("tea for two", id="3")])
        versioned.delete(ids=["2"])
        earlier = versioned.as_of(then)
        query = SearchQuery(text="tea", vector=EMBEDDER.vector("tea at three"), limit=9)
        assert earlier.search(query)[0].item.content_summary == "tea at three"
        assert ids(earlier.recent(9)) == ["2", "1"]
        assert (earlier.count(), earlier.info().items, versioned.count()) == (2, 2, 2)
        assert earlier.count(Filter(scope=Scope(user="ann"))) == 1
        (found,) = earlier.get(["1"])
        assert found.embedding == pytest.approx(EMBEDDER.vector("tea at three"), abs=3e-3)
        assert [hit.item.id for hit in versioned.search(SearchQuery(text="tea"))] == ["3"]
        earlier.close()

    def test_a_state_ranks_as_it_did(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """A search of a state has the hits and the scores that the same search had then."""
        versioned.add([item(f"tea number {n} in the garden", id=f"{n}") for n in range(30)])
        query = SearchQuery(text="tea number 7", vector=EMBEDDER.vector("tea number 7"), limit=9, now=clock())
        before, then = versioned.search(query), clock()
        clock.advance(60)
        versioned.add([item(f"coffee number {n} in the kitchen", id=f"{n}") for n in range(0, 30, 2)])
        versioned.delete(ids=[f"{n}" for n in range(1, 30, 4)])
        earlier = versioned.as_of(then)
        assert ids([hit.item for hit in earlier.search(query)]) == ids([hit.item for hit in before])
        assert [hit.score for hit in earlier.search(query)] == pytest.approx([hit.score for hit in before], abs=1e-5)
        earlier.close()

    def test_a_state_is_read_only(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Nothing can be written to the past."""
        versioned.add([item("tea", id="1")])
        earlier = versioned.as_of(clock())
        writes: list[Callable[[], object]] = [
            lambda: earlier.add([item("rain")]),
            lambda: earlier.delete(ids=["1"]),
            earlier.pop,
            earlier.clear,
            lambda: earlier.trim(keep=0),
            lambda: earlier.set_embeddings({}),
            lambda: earlier.replace_model("other", 3),
        ]
        for write in writes:
            with pytest.raises(CollectionReadOnlyError):
                write()
        assert ids(list(versioned.scan())) == ["1"]
        earlier.close()

    def test_what_had_expired_is_not_in_a_state(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Expiry counts from the time of the state; what expired leaves no version."""
        versioned.add([item("tea", id="1", expires_at=clock() + 30), item("rain", id="2")])
        clock.advance(60)
        earlier = versioned.as_of(clock())
        assert ids(list(earlier.scan())) == ["2"]
        versioned.add([item("snow", id="3")])
        assert versioned.history("1") == []
        earlier.close()

    def test_erasing_leaves_no_version(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """Also those that do not match the filter any more, and those of items that were deleted before."""
        ann = Scope(user="ann")
        versioned.add([item("her secret", id="1", scope=ann), item("rain", id="2"), item("gone", id="3", scope=ann)])
        then = clock()
        clock.advance(60)
        versioned.add([item("her other secret", id="1", scope=ann), item("rain again", id="2")])
        versioned.delete(ids=["3"])
        earlier = versioned.as_of(then)
        assert earlier.count() == 3
        assert versioned.erase(where=Filter(scope=ann)) == 1
        assert [versioned.history(name) for name in ("1", "3")] == [[], []]
        assert len(versioned.history("2")) == 2
        assert ids(list(earlier.scan())) == ["2"]
        assert [hit.item.id for hit in earlier.search(SearchQuery(text="secret gone rain"))] == ["2"]
        with pytest.raises(FilterError):
            versioned.erase()
        assert versioned.erase(ids=["2", "nobody"]) == 1
        assert list(versioned.scan()) == list(earlier.scan()) == []
        earlier.close()

    @settings(max_examples=25, suppress_health_check=SHARED, deadline=None)
    @given(steps=_STEPS)
    def test_every_state_equals_a_replay(
        self, versioned: VersionedCollection, clock: ManualClock, steps: list[tuple[str, str, str]]
    ) -> None:
        """Whatever happens, the collection as of a time is what a list was then, without what was erased."""
        versioned.erase(where=Filter())
        now: list[MemoryItem] = []
        states: dict[float, list[MemoryItem]] = {}
        for kind, name, text in steps:
            clock.advance(60)
            now, gone = self._step(versioned, now, (kind, name, text), clock())
            states = {time: [one for one in state if not gone(one)] for time, state in states.items()}
            states[clock()] = now
        for time, state in states.items():
            earlier = versioned.as_of(time)
            assert list(earlier.scan()) == state
            found = earlier.search(SearchQuery(text="tea rain train 会议", limit=99))
            assert {hit.item.id for hit in found} <= set(ids(state))
            earlier.close()

    @staticmethod
    def _step(
        versioned: VersionedCollection, now: list[MemoryItem], step: tuple[str, str, str], time: float
    ) -> tuple[list[MemoryItem], Callable[[MemoryItem], bool]]:
        """Do a step; return the items after it, and which versions it removed permanently."""
        kind, name, text = step
        kept = [one for one in now if one.id != name]
        if kind == "add":
            new = item(text, id=name, created_at=time)
            stored = versioned.add([new])[0].status.value != "duplicate"
            return ([*kept, new] if stored else now), lambda _: False
        if kind == "trim":
            versioned.trim(keep=int(name))
            removed = now[: -int(name)]
            return now[-int(name) :], lambda one: one in removed
        if kind == "erase":
            versioned.erase(ids=[name])
            return kept, lambda one: one.id == name
        if kind == "delete":
            versioned.delete(ids=[name])
            return kept, lambda _: False
        if kind == "pop":
            assert versioned.pop() == now[-1:]
            return now[:-1], lambda _: False
        versioned.clear()
        return [], lambda _: False
