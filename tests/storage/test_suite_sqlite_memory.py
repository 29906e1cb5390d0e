"""The contract of a collection, kept by SQLite in memory."""

from __future__ import annotations

import pytest

from devmem.storage import SqliteCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


class TestSqliteMemory(CollectionSuite, ArchiveSuite, TombstoneSuite):
    persists = False

    @pytest.fixture
    def open_collection(self) -> OpenCollection:
        return SqliteCollection
