"""The contract of a collection, kept by a store whose indexes are in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from devmem.config import IndexConfig
from devmem.model.filters import Filter
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.server import texts
from devmem.storage.postgres.server.merging import join_segments, merge_tail
from devmem.storage.writing import PreparedItem, Unique
from tests.collection_suite import CollectionSuite, OpenCollection

pytestmark = pytest.mark.postgres


class Merging(PostgresCollection):
    """Makes a segment of whatever is added."""

    def add(
        self,
        items: Sequence[MemoryItem | PreparedItem],
        *,
        unique: Unique = Unique.ID,
        expected: Mapping[str, str | None] | None = None,
        absent: Filter | None = None,
    ) -> list[WriteOutcome]:
        outcomes = super().add(items, unique=unique, expected=expected, absent=absent)
        self._database.write(lambda connection: merge_tail(connection, self._store))
        self._database.write(lambda connection: join_segments(connection, self._store))
        return outcomes


class TestTail(CollectionSuite):
    """Few items: all of them are in no segment."""

    @pytest.fixture
    def open_collection(self, store_url: str) -> OpenCollection:
        return partial(PostgresCollection, store_url, index=IndexConfig(mode="server"))


class TestSegments(CollectionSuite):
    """All items are in segments, and filters are masks over these."""

    @pytest.fixture
    def open_collection(self, store_url: str, monkeypatch: pytest.MonkeyPatch) -> OpenCollection:
        monkeypatch.setattr(texts, "_FEW", 0)
        return partial(Merging, store_url, index=IndexConfig(mode="server"))
