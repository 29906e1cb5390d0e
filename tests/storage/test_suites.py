"""The contract of a collection, kept by a SQLite file, by SQLite in memory, and by a JSON file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from devmem.config import IndexConfig
from devmem.storage import JsonCollection, SqliteCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


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
