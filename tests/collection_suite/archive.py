"""The archive: items that no method finds but those that ask for it, and that nothing but an erasure takes away."""

from __future__ import annotations

from contextlib import closing

import pytest

from devmem import Filter, MemoryItem, Scope, WriteStatus
from devmem.errors import CollectionReadOnlyError, RunConflictError
from devmem.memory import Operation, RunState
from devmem.storage import EraseRequest, SearchQuery, VersionedCollection
from devmem.storage.versions import SqlWriter
from devmem.testing import ManualClock
from tests.collection_suite.fixtures import EMBEDDER, MODEL, OpenCollection, Opening, ids, item

_DAY = 86_400.0
_TEXTS = ("tea at three", "rain in June", "鲸鱼在夜里唱歌", "the train is late")
_QUERY = SearchQuery(text="tea rain train 鲸鱼", limit=10)


def archived(collection: VersionedCollection, where: Filter | None = None) -> list[MemoryItem]:
    """Return what is archived, in the order of storing."""
    with closing(collection.archived()) as old:
        return list(old.scan(where))


class ArchiveSuite(Opening):
    """The contract of an `VersionedCollection`; inherit from it with the fixture `open_collection`."""

    @pytest.fixture
    def archive_clock(self) -> ManualClock:
        """A clock that the test advances."""
        return ManualClock(1_000_000.0)

    @pytest.fixture
    def archiving(self, opened: OpenCollection, archive_clock: ManualClock) -> VersionedCollection:
        """A new collection with four items, `0` to `3`."""
        collection = opened(model=MODEL, clock=archive_clock)
        assert isinstance(collection, VersionedCollection)
        collection.add(
            [item(text, id=str(at), created_at=archive_clock() + at, trust=0.4) for at, text in enumerate(_TEXTS)]
        )
        return collection

    def test_nothing_but_the_archive_returns_an_archived_item(
        self, archiving: VersionedCollection, archive_clock: ManualClock
    ) -> None:
        """It is in no list, count, value or index; the archive has it unchanged."""
        before, then = archiving.get(["0", "2"]), archive_clock()
        archive_clock.advance(10)
        assert archiving.archive(["0", "2", "unknown"]) == 2
        assert ids(list(archiving.scan())) == ["1", "3"]
        assert (archiving.count(), archiving.info().items, archiving.get(["0", "2"])) == (2, 2, [])
        assert ids(archiving.recent(10)) == ["3", "1"]
        assert {hit.item.id for hit in archiving.search(_QUERY)} == {"1", "3"}
        vector = SearchQuery(vector=EMBEDDER.vector(_TEXTS[0]), limit=10)
        assert {hit.item.id for hit in archiving.search(vector)} == {"1", "3"}
        assert archived(archiving) == before
        assert archiving.archive(["0"]) == 0
        with closing(archiving.as_of(then)) as earlier, closing(archiving.as_of(archive_clock())) as now:
            assert (earlier.count(), now.count()) == (4, 2)

    def test_the_archive_is_searched_and_filtered(self, archiving: VersionedCollection) -> None:
        """By words and by vector, in an index of its own; it is read only."""
        archiving.archive(["0", "2"])
        with closing(archiving.archived()) as old:
            assert [hit.item.id for hit in old.search(SearchQuery(text="tea", limit=1))] == ["0"]
            assert [hit.item.id for hit in old.search(SearchQuery(text="鲸鱼", limit=1))] == ["2"]
            near = SearchQuery(vector=EMBEDDER.vector(_TEXTS[2]), limit=1)
            assert [hit.item.id for hit in old.search(near)] == ["2"]
            assert (old.count(), old.count(Filter(min_trust=0.5))) == (2, 0)
            with pytest.raises(CollectionReadOnlyError):
                old.clear()

    def test_a_restored_item_is_what_it_was(self, archiving: VersionedCollection) -> None:
        """With its embedding; it is stored last, and archived no more."""
        (before,) = archiving.get(["1"])
        archiving.archive(["1", "2"])
        outcomes = archiving.restore(["1", "3", "unknown"])
        assert [each.status for each in outcomes] == [WriteStatus.STORED, WriteStatus.SKIPPED, WriteStatus.SKIPPED]
        assert archiving.get(["1"]) == [before]
        assert archiving.embeddings(["1"]).keys() == {"1"}
        assert ids(list(archiving.scan())) == ["0", "3", "1"]
        assert ids(archived(archiving)) == ["2"]
        assert "1" in {hit.item.id for hit in archiving.search(_QUERY)}
        first, last = archiving.history("1")
        assert first.ended is not None
        assert (first.ended.operation, last.began.operation) == (Operation.ARCHIVE, Operation.RESTORE)

    def test_retention_of_versions_does_not_reach_the_archive(
        self, archiving: VersionedCollection, archive_clock: ManualClock
    ) -> None:
        """How long versions are kept is about those that another one took the place of."""
        archiving.delete(ids=["3"])
        archiving.archive(["0"])
        for _ in range(3):
            archive_clock.advance(400 * _DAY)
            archiving.add([item("news", id="new", created_at=archive_clock())])
        assert ids(archived(archiving)) == ["0"]
        assert archiving.history("3") == []
        assert bool(archiving.restore(["0"])[0])

    def test_an_item_that_is_stored_again_leaves_the_archive(
        self, archiving: VersionedCollection, archive_clock: ManualClock
    ) -> None:
        """It does not come back from there when the newer one is deleted and its version is kept no longer."""
        archiving.archive(["0", "1"])
        archiving.add([item("tea at four", id="0", created_at=archive_clock())])
        archiving.restore(["1"])
        archiving.delete(ids=["0", "1"])
        assert archived(archiving) == []
        archive_clock.advance(400 * _DAY)
        archiving.add([item("news", id="new", created_at=archive_clock())])
        assert archived(archiving) == []

    def test_a_run_archives_on_its_commit_and_its_revert_restores(self, archiving: VersionedCollection) -> None:
        """Until then only the run sees it; what is discarded was never archived."""
        before = list(archiving.scan())
        for run in ("dropped", "kept"):
            with closing(archiving.run(run)) as view:
                assert isinstance(view, SqlWriter)
                assert view.archive(["0", "3"]) == 2
                assert view.count() == 2
            assert (archiving.count(), archived(archiving)) == (4, [])
            if run == "dropped":
                archiving.discard(run)
        archiving.commit("kept")
        assert (ids(list(archiving.scan())), ids(archived(archiving))) == (["1", "2"], ["0", "3"])
        assert archiving.revert("kept").state is RunState.COMMITTED
        assert (archived(archiving), archiving.get(["0", "1", "2", "3"])) == ([], before)

    def test_a_revert_leaves_what_was_restored_meanwhile(self, archiving: VersionedCollection) -> None:
        """Also where it was changed or deleted after that; what was stored again in its place builds on the run."""
        with closing(archiving.run("kept")) as view:
            assert isinstance(view, SqlWriter)
            view.archive(["0", "1", "2", "3"])
        archiving.commit("kept")
        archiving.restore(["1", "2", "3"])
        archiving.add([item("rain in July", id="2")])
        archiving.delete(ids=["3"])
        assert archiving.revert("kept").state is RunState.COMMITTED
        assert {one.id: one.content_summary for one in archiving.scan()} == {
            "0": _TEXTS[0], "1": _TEXTS[1], "2": "rain in July"
        }  # fmt: skip
        assert archived(archiving) == []

    def test_a_revert_refuses_what_was_stored_in_the_place_of_an_archived_item(
        self, archiving: VersionedCollection
    ) -> None:
        """Others built on what the run did; nothing is changed."""
        with closing(archiving.run("kept")) as view:
            assert isinstance(view, SqlWriter)
            view.archive(["0", "1"])
        archiving.commit("kept")
        archiving.add([item("rain in July", id="1")])
        with pytest.raises(RunConflictError):
            archiving.revert("kept")
        assert ids(archived(archiving)) == ["0"]

    def test_erasing_reaches_the_archive(self, archiving: VersionedCollection) -> None:
        """By id and by filter, counted like any other item."""
        collection = archiving
        archiving.add([item("secret", id="4", scope=Scope(user="ann"))])
        archiving.archive(["0", "1", "4"])
        assert ids(collection.select_erasable(EraseRequest(ids=("0",)))) == ["0"]
        plan = collection.begin_erasure(EraseRequest(ids=("0",)))
        assert plan.items == 1
        assert archiving.erase(ids=plan.ids) == 1
        collection.finish_erasure(plan)
        assert archiving.erase(where=Filter(scope=Scope(user="ann"))) == 1
        assert ids(archived(archiving)) == ["1"]
        assert archiving.history("0") == []

    def test_retention_and_expiry_reach_the_archive(
        self, archiving: VersionedCollection, archive_clock: ManualClock
    ) -> None:
        """They promise that something is deleted; a capacity counts current items only."""
        archiving.add([item("soon gone", id="4", expires_at=archive_clock() + 5)])
        archiving.archive(["0", "1", "4"])
        assert archiving.trim(keep=2) == 0
        assert archiving.trim(stored_before=archive_clock() + 1) == 1
        archive_clock.advance(10)
        archiving.add([item("news", id="new", created_at=archive_clock())])
        assert ids(archived(archiving)) == ["1"]
        assert [archiving.history(name) for name in ("0", "4")] == [[], []]

    def test_a_tombstone_keeps_an_archived_text_from_coming_back(self, archiving: VersionedCollection) -> None:
        """It was erased elsewhere meanwhile."""
        if isinstance(archiving, VersionedCollection):
            archiving.archive(["0"])
            archiving.keep_tombstones([MemoryItem(content_summary=_TEXTS[0], id="other")], wholes=set())
            assert archiving.restore(["0"])[0].erased_before
            assert archiving.count() == 3
