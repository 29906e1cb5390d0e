"""Among the items of 3,000 users a store in PostgreSQL shows one user's alone, wherever it is searched."""

from __future__ import annotations

from contextlib import closing
from typing import Literal

import pytest

from devmem.config import IndexConfig
from devmem.storage.postgres.collection import PostgresCollection
from tests.storage.test_thousands_of_users import check_that_one_user_is_shown


@pytest.mark.parametrize("mode", ["follow", "server"])
def test_a_store_shows_one_user(mode: Literal["follow", "server"], store_url: str) -> None:
    with closing(PostgresCollection(store_url, index=IndexConfig(mode=mode))) as collection:
        check_that_one_user_is_shown(collection)
