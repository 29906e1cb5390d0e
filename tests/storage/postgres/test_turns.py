"""Writes in one store take turns, and those in others do not wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from devmem.model.items import MemoryItem
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.location import Location
from devmem.storage.writing import PreparedItem, Unique

pytestmark = pytest.mark.postgres

_WAITING = (
    "SELECT FROM pg_stat_activity WHERE application_name = 'devmem' AND wait_event_type = 'Lock' "
    "AND query LIKE 'WITH held%%'"
)


def test_a_deletion_beside_an_update_waits_for_it(store_url: str) -> None:
    """It would not see the version that the update writes, and leave it in place."""
    with (
        closing(PostgresCollection(store_url)) as store,
        closing(PostgresCollection(f"{store_url}&tenant=other")) as other,
        psycopg.connect(Location.parse(store_url).conninfo, autocommit=True) as administrator,
        ThreadPoolExecutor(1) as pool,
    ):
        store.add([MemoryItem(id="1", content_summary="tea")])
        deleted: list[Callable[[], int]] = []

        def update(connection: Connection) -> None:
            changed = MemoryItem(id="1", content_summary="milk")
            store._changes(store.database._tables(connection)).add([PreparedItem.of(changed)], Unique.ID, {}, None)
            deleted.append(pool.submit(store.delete, ids=["1"]).result)
            while not administrator.execute(_WAITING).rowcount:
                pass
            other.add([MemoryItem(id="1", content_summary="nobody waits for it")])

        store.database.transactions.write(update)
        assert deleted[0]() == 1
        assert store.count() == 0
