"""The contracts of collections and of store types, kept in a PostgreSQL database, where 3,000 users share a store."""

from __future__ import annotations

from contextlib import closing
from functools import partial

import pytest

from devmem.storage.postgres import search
from devmem.storage.postgres.collection import PostgresCollection
from tests.collection_suite import ArchiveSuite, CollectionSuite, OpenCollection, TombstoneSuite
from tests.storage.test_thousands_of_users import check_that_one_user_is_shown


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


def test_a_store_shows_one_user(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as collection:
        check_that_one_user_is_shown(collection)
