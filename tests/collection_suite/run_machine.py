"""Random writes in runs and outside of them: runs do what an overlay of a plain dictionary would do.

The clock jumps, back too: what is seen does not depend on it, and recorded times grow.
"""

from __future__ import annotations

from itertools import count
from typing import Final, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from devmem import Filter, MemoryItem
from devmem.errors import RunConflictError
from devmem.storage import Collection, VersionedCollection
from devmem.testing import ManualClock
from tools.torture.run_model import RunModel, Texts, shown_texts

_NAMES: Final = [f"id {n}" for n in range(5)]
_IDS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True)
_SLOTS = st.sampled_from([0, 1])

_RUNS: Final = count()
"""Numbers of runs, of which each has a name that no other had in the collection."""


class RunsAgainstADictionary(RuleBasedStateMachine):
    """Two pending runs at a time, and a writer outside of them."""

    def __init__(self, collection: VersionedCollection, clock: ManualClock) -> None:
        super().__init__()
        self.collection, self.clock = collection, clock
        self.collection.erase(where=Filter())
        self._numbers = count()
        self.model = RunModel()
        self.views = [self._view(), self._view()]

    def _view(self) -> tuple[str, Collection]:
        name = f"random run {next(_RUNS)}"
        view = self.collection.run(name)
        # A run exists from its first write on, even if that changes nothing.
        view.delete(ids=["absent"])
        return name, view

    def _texts(self, ids: list[str]) -> Texts:
        return {each: f"note {next(self._numbers)}" for each in ids}

    @rule(seconds=st.sampled_from([-1e7, -3600.0, -0.001, 3600.0]))
    def jump(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(ids=_IDS)
    def add_outside(self, ids: list[str]) -> None:
        texts = self._texts(ids)
        self.collection.add(_items(texts))
        self.model.add(texts)

    @rule(ids=_IDS)
    def delete_outside(self, ids: list[str]) -> None:
        assert self.collection.delete(ids=ids) == self.model.delete(ids)

    @rule(slot=_SLOTS, ids=_IDS)
    def add_in_run(self, slot: int, ids: list[str]) -> None:
        texts = self._texts(ids)
        self.views[slot][1].add(_items(texts))
        self.model.add_in_run(slot, texts)

    @rule(slot=_SLOTS, ids=_IDS)
    def delete_in_run(self, slot: int, ids: list[str]) -> None:
        assert self.views[slot][1].delete(ids=ids) == self.model.delete_in_run(slot, ids)

    @rule(slot=_SLOTS)
    def clear_in_run(self, slot: int) -> None:
        assert self.views[slot][1].clear() == self.model.delete_in_run(slot, self.model.seen(slot))

    @rule(slot=_SLOTS)
    def commit(self, slot: int) -> None:
        name, view = self.views[slot]
        if not self.model.commit(slot):
            with pytest.raises(RunConflictError):
                self.collection.commit(name)
            return
        self.collection.commit(name)
        self._begin_another(slot, view)

    @rule(slot=_SLOTS)
    def discard(self, slot: int) -> None:
        name, view = self.views[slot]
        self.collection.discard(name)
        self.model.discard(slot)
        self._begin_another(slot, view)

    def _begin_another(self, slot: int, view: Collection) -> None:
        view.close()
        self.views[slot] = self._view()

    @invariant()
    def shows_the_same(self) -> None:
        _expect(self.collection, self.model.outside)
        for slot, (name, view) in enumerate(self.views):
            _expect(view, self.model.seen(slot))
            assert sorted(self.collection.conflicts(name)) == self.model.conflicts(slot)

    def teardown(self) -> None:
        for name, view in self.views:
            view.close()
            self.collection.discard(name)
        for name in _NAMES:
            changes = [change for each in self.collection.history(name) for change in (each.began, each.ended)]
            times = [change.at or 0.0 for change in changes if change is not None]
            assert times == sorted(times)


def _items(texts: Texts) -> list[MemoryItem]:
    return [MemoryItem(id=key, content_summary=text) for key, text in texts.items()]


def _expect(collection: Collection, texts: Texts) -> None:
    assert shown_texts(collection, _NAMES) == [texts] * 3
    assert collection.count() == len(texts)


def check_runs(collection: VersionedCollection, clock: ManualClock, *, examples: int, steps: int) -> None:
    """Compare random runs with dictionaries; the collection is erased before each example."""
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    # Any function that makes a machine will do, whatever the annotation says.
    made = cast("type[RunsAgainstADictionary]", lambda: RunsAgainstADictionary(collection, clock))
    run_state_machine_as_test(made, settings=chosen)
