"""An encrypted SQLite file keeps the contract of every collection, and no byte of an item is in plain."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devmem.encryption.keys import StoreKey, protect
from devmem.storage import SqliteCollection
from devmem.stores import ModelIdentity
from tests.collection_suite import CollectionSuite, OpenCollection

pytestmark = pytest.mark.kit


class TestEncryptedSqliteFile(CollectionSuite):
    @pytest.fixture
    def open_collection(self, tmp_path: Path) -> Iterator[OpenCollection]:
        location = tmp_path / "store.db"
        protect(location, StoreKey(secrets.token_bytes(32)))

        def open_collection(
            *, model: ModelIdentity | None = None, clock: Callable[[], float] = time.time
        ) -> SqliteCollection:
            return SqliteCollection(location, model=model, clock=clock)

        yield open_collection
        assert not any(b"SQLite format 3" in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
        protect(location, None)
