"""The contracts of collections and of versions, kept by SQLite and JSON files and by memory."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from devmem import MemoryItem, acting_as
from devmem.config import IndexConfig
from devmem.encryption.keys import StoreKey, protect
from devmem.errors import RunStateError
from devmem.storage import JsonCollection, SqliteCollection, VersionedCollection
from devmem.testing import ManualClock
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite, VersionSuite


class TestSqliteFile(CollectionSuite, ArchiveSuite, TombstoneSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        return partial(SqliteCollection, tmp_path / "store.db")


class TestSqliteMemory(CollectionSuite, ArchiveSuite, TombstoneSuite):
    persists = False

    @pytest.fixture
    def open_collection(self) -> OpenCollection:
        # With indexes on metadata, which change no answer.
        return partial(SqliteCollection, index=IndexConfig(metadata=("k", "a.b", "key")))


class TestJsonFile(CollectionSuite):
    records_fields = False

    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        return partial(JsonCollection, tmp_path / "store.json")


@pytest.mark.kit
class TestEncryptedSqliteFile(CollectionSuite):
    """No byte of an item is in plain."""

    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> Iterator[OpenCollection]:
        location = tmp_path / "store.db"
        protect(location, StoreKey(secrets.token_bytes(32)))

        yield partial(SqliteCollection, location)
        assert not any(b"SQLite format 3" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        protect(location, None)


DAY = 86_400


class TestVersionsInAFile(VersionSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        return partial(SqliteCollection, tmp_path / "store.db")


class TestVersionsInMemory(VersionSuite):
    persists = False

    @pytest.fixture
    def open_collection(self) -> OpenCollection:
        return SqliteCollection

    @pytest.mark.kit
    def test_runs_do_what_dictionaries_do(self, versioned: VersionedCollection, clock: ManualClock) -> None:
        """The statements are those of a file, where the same random runs are part of `make test`."""
        super().test_runs_do_what_dictionaries_do(versioned, clock)


@pytest.mark.parametrize(("days", "kept"), [(None, 3), (30, 2), (1, 1), (0, 1)])
def test_history_is_bounded(tmp_path: Path, days: float | None, kept: int) -> None:
    """Versions that ended longer ago are removed by the writes that follow, passages and all."""
    clock, path = ManualClock(), tmp_path / "store.db"
    with closing(SqliteCollection(path, history_days=days, clock=clock)) as collection:
        texts = ["wombat", "numbat", "potoroo"]
        for text in texts:
            collection.add([MemoryItem(id="1", content_summary=text)])
            clock.advance(20 * DAY)
        collection.add([MemoryItem(id="2", content_summary="another")])
        assert [version.item.content_summary for version in collection.history("1")] == texts[-kept:]
    assert (b"potoroo" in path.read_bytes(), b"wombat" in path.read_bytes()) == (True, days is None)


def test_a_clock_that_is_set_back_leaves_no_overlap(tmp_path: Path) -> None:
    """Recorded times go forward whatever the clock does."""
    clock = ManualClock()
    with closing(SqliteCollection(tmp_path / "store.db", clock=clock)) as collection:
        collection.add([MemoryItem(id="1", content_summary="one")])
        clock.advance(-1000)
        collection.add([MemoryItem(id="1", content_summary="two")])
        first, second = collection.history("1")
        assert first.ended is not None
        assert (first.began.at or 0) < (first.ended.at or 0) == second.began.at


def test_two_openings_see_one_history(tmp_path: Path) -> None:
    """An index of a state follows what another opening erases."""
    clock, path = ManualClock(), tmp_path / "store.db"
    with closing(SqliteCollection(path, clock=clock)) as one, closing(SqliteCollection(path, clock=clock)) as two:
        one.add([MemoryItem(id="1", content_summary="tea"), MemoryItem(id="2", content_summary="tea too")])
        then = clock()
        clock.advance(60)
        with closing(one.as_of(then)) as earlier:
            assert earlier.count() == 2
            two.clear()
            assert earlier.count() == 2
            two.erase(ids=["1"])
            assert [item.id for item in earlier.scan()] == ["2"]


@pytest.mark.parametrize(("days", "later"), [(0, 0), (10, 20)])
def test_a_run_whose_deletions_may_not_be_kept_is_not_reverted(tmp_path: Path, days: float, later: int) -> None:
    """Else it would take back what it had added, and leave deleted what it had deleted."""
    clock = ManualClock()
    with closing(SqliteCollection(tmp_path / "store.db", history_days=days, clock=clock)) as collection:
        collection.add([MemoryItem(id="1", content_summary="tea")])
        with acting_as("agent", run="r"):
            collection.delete(ids=["1"])
            collection.add([MemoryItem(id="2", content_summary="rain")])
        clock.advance(later * DAY)
        with pytest.raises(RunStateError, match="not kept any more"):
            collection.revert("r")
        assert [item.id for item in collection.scan()] == ["2"]
