"""The contract of a collection, kept by a store of a PostgreSQL database."""

from __future__ import annotations

from functools import partial

import pytest

from devmem.storage.postgres import search
from devmem.storage.postgres.collection import PostgresCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


class TestPostgres(CollectionSuite, ArchiveSuite, TombstoneSuite):
    """Few items: all of them are ranked."""

    @pytest.fixture
    def open_collection(self, store_url: str) -> OpenCollection:
        return partial(PostgresCollection, store_url)


class TestCandidates(CollectionSuite):
    """The server finds the candidates, as in a large store."""

    @pytest.fixture
    def open_collection(self, store_url: str, monkeypatch: pytest.MonkeyPatch) -> OpenCollection:
        monkeypatch.setattr(search, "_FEW", -1)
        return partial(PostgresCollection, store_url)
