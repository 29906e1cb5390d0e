"""The contract of a collection, kept by a SQLite file."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from devmem.storage import SqliteCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


class TestSqliteFile(CollectionSuite, ArchiveSuite, TombstoneSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> OpenCollection:
        return partial(SqliteCollection, tmp_path / "store.db")
