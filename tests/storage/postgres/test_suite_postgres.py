"""The contract of a collection, kept by a store of a PostgreSQL database."""

from __future__ import annotations

from functools import partial

import pytest

from devmem.storage.postgres.collection import PostgresCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite


class TestPostgres(CollectionSuite, ArchiveSuite, TombstoneSuite):
    @pytest.fixture
    def open_collection(self, store_url: str) -> OpenCollection:
        return partial(PostgresCollection, store_url)
