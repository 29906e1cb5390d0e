"""Random writes in runs and outside of them: runs do what an overlay of a plain dictionary would do."""

# ruff: noqa: S101, D102 - a suite asserts, and its rules say by their names what they do

from __future__ import annotations

from itertools import count
from typing import Final, TypeAlias, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from devmem.errors import RunConflictError
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.search.query import Ranking, SearchQuery
from devmem.storage.protocol import Collection, VersionedCollection

_NAMES: Final = [f"id {n}" for n in range(5)]
_IDS = st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3, unique=True)
_SLOTS = st.sampled_from([0, 1])
_EVERY: Final = SearchQuery(text="note", limit=99, ranking=Ranking(collapse=False))

_RUNS: Final = count()
"""Numbers of runs, of which each has a name that no other had in the collection."""

Texts: TypeAlias = dict[str, str]
Overlay: TypeAlias = dict[str, tuple[str | None, str | None]]
"""Change of each item in a run: the text that was there first, and the one that the run wrote; None is no item."""


class RunsAgainstADictionary(RuleBasedStateMachine):
    """Two pending runs at a time, and a writer outside of them."""

    def __init__(self, collection: VersionedCollection) -> None:
        super().__init__()
        self.collection = collection
        self.collection.erase(where=Filter())
        self._numbers = count()
        self.outside: Texts = {}
        self.overlays: list[Overlay] = [{}, {}]
        self.views = [self._view(), self._view()]

    def _view(self) -> tuple[str, Collection]:
        name = f"random run {next(_RUNS)}"
        view = self.collection.run(name)
        # A run exists from its first write on, even if that changes nothing.
        view.delete(ids=["absent"])
        return name, view

    def _items(self, ids: list[str]) -> list[MemoryItem]:
        return [MemoryItem(id=each, content_summary=f"note {next(self._numbers)}") for each in ids]

    def _seen(self, slot: int) -> Texts:
        own = self.overlays[slot]
        others = {key: text for key, text in self.outside.items() if key not in own}
        return others | {key: text for key, (_, text) in own.items() if text is not None}

    def _conflicts(self, slot: int) -> list[str]:
        return sorted(
            key
            for key, (base, text) in self.overlays[slot].items()
            if self.outside.get(key) != base and not (text is None and key not in self.outside)
        )

    @rule(ids=_IDS)
    def add_outside(self, ids: list[str]) -> None:
        items = self._items(ids)
        self.collection.add(items)
        self.outside |= {item.id: item.content_summary for item in items}

    @rule(ids=_IDS)
    def delete_outside(self, ids: list[str]) -> None:
        assert self.collection.delete(ids=ids) == sum(key in self.outside for key in ids)
        self.outside = {key: text for key, text in self.outside.items() if key not in ids}

    @rule(slot=_SLOTS, ids=_IDS)
    def add_in_run(self, slot: int, ids: list[str]) -> None:
        items = self._items(ids)
        self.views[slot][1].add(items)
        for item in items:
            base, _ = self.overlays[slot].get(item.id, (self.outside.get(item.id), None))
            self.overlays[slot][item.id] = base, item.content_summary

    @rule(slot=_SLOTS, ids=_IDS)
    def delete_in_run(self, slot: int, ids: list[str]) -> None:
        seen = self._seen(slot)
        assert self.views[slot][1].delete(ids=ids) == sum(key in seen for key in ids)
        for key in set(ids) & set(seen):
            self._note_deleted(slot, key)

    @rule(slot=_SLOTS)
    def clear_in_run(self, slot: int) -> None:
        seen = self._seen(slot)
        assert self.views[slot][1].clear() == len(seen)
        for key in seen:
            self._note_deleted(slot, key)

    def _note_deleted(self, slot: int, key: str) -> None:
        base, _ = self.overlays[slot].get(key, (self.outside.get(key), None))
        self.overlays[slot][key] = base, None
        if base is None and key not in self.outside:
            # The run added it itself, and nobody else did.
            del self.overlays[slot][key]

    @rule(slot=_SLOTS)
    def commit(self, slot: int) -> None:
        name, view = self.views[slot]
        conflicts = self._conflicts(slot)
        if conflicts:
            with pytest.raises(RunConflictError):
                self.collection.commit(name)
            return
        self.collection.commit(name)
        changed = {key: text for key, (_, text) in self.overlays[slot].items()}
        others = {key: text for key, text in self.outside.items() if key not in changed}
        self.outside = others | {key: text for key, text in changed.items() if text is not None}
        self._begin_another(slot, view)

    @rule(slot=_SLOTS)
    def discard(self, slot: int) -> None:
        name, view = self.views[slot]
        self.collection.discard(name)
        self._begin_another(slot, view)

    def _begin_another(self, slot: int, view: Collection) -> None:
        view.close()
        self.overlays[slot] = {}
        self.views[slot] = self._view()

    @invariant()
    def shows_the_same(self) -> None:
        _expect(self.collection, self.outside)
        for slot, (name, view) in enumerate(self.views):
            _expect(view, self._seen(slot))
            assert sorted(self.collection.conflicts(name)) == self._conflicts(slot)

    def teardown(self) -> None:
        for name, view in self.views:
            view.close()
            self.collection.discard(name)


def _expect(collection: Collection, texts: Texts) -> None:
    assert {item.id: item.content_summary for item in collection.get(_NAMES)} == texts
    assert {item.id: item.content_summary for item in collection.scan()} == texts
    assert {hit.item.id: hit.item.content_summary for hit in collection.search(_EVERY)} == texts
    assert collection.count() == len(texts)


def check_runs(collection: VersionedCollection, *, examples: int, steps: int) -> None:
    """Compare random runs with dictionaries; the collection is erased before each example."""
    chosen = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    # Any function that makes a machine will do, whatever the annotation says.
    made = cast("type[RunsAgainstADictionary]", lambda: RunsAgainstADictionary(collection))
    run_state_machine_as_test(made, settings=chosen)
