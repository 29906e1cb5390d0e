"""Among the items of 3,000 users a store in PostgreSQL shows one user's alone."""

from __future__ import annotations

from contextlib import closing

from devmem.storage.postgres.collection import PostgresCollection
from tests.storage.test_thousands_of_users import check_that_one_user_is_shown


def test_a_store_shows_one_user(store_url: str) -> None:
    with closing(PostgresCollection(store_url)) as collection:
        check_that_one_user_is_shown(collection)
