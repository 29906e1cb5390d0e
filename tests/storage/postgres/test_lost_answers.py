"""A commit whose answer is lost with the connection: it is not applied again."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest

from devmem.model.items import MemoryItem
from devmem.model.results import WriteStatus
from devmem.storage.postgres.collection import PostgresCollection


def test_a_write_whose_acknowledgement_is_lost_is_applied_once(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execute = psycopg.Connection.execute
    writing: set[int] = set()
    lost: list[str] = []

    def losing(connection: Any, query: Any, *args: Any, **options: Any) -> Any:
        result = execute(connection, query, *args, **options)
        if "INSERT INTO commits" in str(query):
            writing.add(id(connection))
        if query == "COMMIT" and id(connection) in writing and not lost:
            lost.append("COMMIT")
            connection.close()
            message = "server closed the connection unexpectedly"
            raise psycopg.OperationalError(message)
        return result

    with closing(PostgresCollection(store_url)) as collection:
        collection.add([MemoryItem(id="before", content_summary="The venue is booked.")])
        monkeypatch.setattr(psycopg.Connection, "execute", losing)
        (outcome,) = collection.add([MemoryItem(id="x", content_summary="The launch is in June.")])
        assert lost == ["COMMIT"]
        # A second attempt would find the item of the first one and call it a duplicate.
        assert outcome.status is WriteStatus.STORED
        assert [item.id for item in collection.scan()] == ["before", "x"]
