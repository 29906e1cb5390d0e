"""Erasure: whatever happened before, nothing finds what was erased, and nothing else is gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devmem import Filter, MemoryItem, Scope
from devmem.memory import RunState
from devmem.storage import EraseRequest, SearchQuery, VersionedCollection, file_of
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import item
from tests.collection_suite.versions import SHARED, Versioning

_USERS = st.sampled_from(["ann", "bob"])
_NAMES = st.sampled_from(["1", "2", "3"])
_HISTORIES = st.lists(
    st.tuples(st.sampled_from(["add", "add", "delete", "run", "commit", "discard"]), _USERS, _NAMES), max_size=10
)
_ERASING = EraseRequest(where=Filter(scope=Scope(user="ann")))


class ErasureOfHistories(Versioning):
    """Tests that need a collection which is a `VersionedCollection`."""

    @settings(max_examples=12, suppress_health_check=SHARED, deadline=None)
    @given(steps=_HISTORIES)
    def test_nothing_finds_what_was_erased(
        self, versioned: VersionedCollection, clock: ManualClock, steps: list[tuple[str, str, str]]
    ) -> None:
        """No search, history, earlier state, run or listing, and no byte of the collection's files."""
        versioned.erase(where=Filter())
        times = _live_through(versioned, clock, steps)
        others = [one for one in versioned.scan() if one.scope.user == "bob"]
        secrets = [_secret("ann", number) for number in range(len(steps))]
        _erase(versioned, secrets)
        assert list(versioned.scan()) == others
        found = versioned.search(SearchQuery(text=" ".join([*secrets, "secret"]), limit=99))
        assert all(hit.item.scope.user == "bob" for hit in found)
        assert not any(versioned.history(f"ann-{name}") for name in "123")
        for time in times:
            earlier = versioned.as_of(time)
            assert all(one.scope.user == "bob" for one in earlier.scan())
            earlier.close()
        for run in versioned.runs():
            if run.state is RunState.PENDING:
                pending = versioned.run(run.run)
                assert all(one.scope.user == "bob" for one in pending.scan())
                hits = pending.search(SearchQuery(text="secret", limit=99))
                assert all(hit.item.scope.user == "bob" for hit in hits)
                pending.close()
        content = b"".join(file.read_bytes() for file in _files(versioned) if file.exists())
        assert not any(word.encode() in content for word in secrets)

    @pytest.mark.parametrize("durably", [False, True])
    def test_a_run_goes_with_its_last_change(self, versioned: VersionedCollection, *, durably: bool) -> None:
        """Its name and its actor would tell who was there; a pending run goes on with what it writes next."""
        hers, rain = item("her secret", id="1", scope=Scope(user="ann")), item("rain", id="2")
        for name, items in (("hers", [hers]), ("both", [replace(hers, trust=0.5), rain]), ("pending", [hers])):
            run = versioned.run(name, actor="ann")
            run.add(items)
            run.close()
            if name != "pending":
                versioned.commit(name)
        if durably:
            _erase(versioned, [])
        else:
            versioned.erase(where=_ERASING.where)
        assert {info.run for info in versioned.runs()} == {"both"}
        run = versioned.run("pending")
        run.add([item("snow", id="3")])
        run.close()
        assert versioned.commit("pending").changes == 1


def _secret(user: str, number: int) -> str:
    return f"{user}secret{number:04}"


def _live_through(versioned: VersionedCollection, clock: ManualClock, steps: list[tuple[str, str, str]]) -> list[float]:
    """Do steps, each at its own time; return the times."""
    times: list[float] = []
    for number, (kind, user, name) in enumerate(steps):
        clock.advance(60)
        times.append(clock())
        run = f"run-{clock()}"
        new: MemoryItem = item(f"a secret: {_secret(user, number)}", id=f"{user}-{name}", scope=Scope(user=user))
        if kind == "add":
            versioned.add([new])
        elif kind == "delete":
            versioned.delete(ids=[new.id])
        else:
            view = versioned.run(run)
            view.add([new])
            view.close()
            if kind == "commit":
                versioned.commit(run)
            elif kind == "discard":
                versioned.discard(run)
    return times


def _erase(versioned: VersionedCollection, words: list[str]) -> None:
    if not isinstance(versioned, VersionedCollection):
        versioned.erase(where=_ERASING.where)
        return
    done = versioned.finish_erasure(versioned.begin_erasure(_ERASING), words)
    # The files of a server are out of reach, and so it has to say.
    assert bool(done.residues) == ("://" in versioned.info().location)


def _files(versioned: VersionedCollection) -> list[Path]:
    """Return the files of a collection that is in files."""
    place = file_of(versioned.info().location)
    return [Path(f"{place}{suffix}") for suffix in ("", "-wal", ".faiss")] if place is not None else []
