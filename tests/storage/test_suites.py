"""The contract of a collection, kept by a SQLite file, encrypted or not, by SQLite in memory, and by a JSON file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from devmem.config import IndexConfig
from devmem.encryption.keys import StoreKey, protect
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
