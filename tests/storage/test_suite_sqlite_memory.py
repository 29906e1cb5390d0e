"""The contract of a collection, kept by SQLite in memory."""

from __future__ import annotations

from functools import partial

import pytest

from devmem.config import IndexConfig
from devmem.storage import SqliteCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


class TestSqliteMemory(CollectionSuite, ArchiveSuite, TombstoneSuite):
    persists = False

    @pytest.fixture
    def open_collection(self) -> OpenCollection:
        # With indexes on metadata, which change no answer.
        return partial(SqliteCollection, index=IndexConfig(metadata=("k", "a.b", "key")))
