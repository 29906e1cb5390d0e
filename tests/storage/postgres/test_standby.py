"""Reading from a standby, which follows a primary server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest

from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
from devmem.storage.postgres.database import Connection
from devmem.storage.postgres.writes import BatchWriter
from devmem.storage.writing import PreparedItem, Unique
from tools.postgres_server import PostgresServer

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

APPLIED = "-c synchronous_commit=remote_apply"
"""Has a commit wait until the standby shows it."""


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with closing(PostgresServer(settings={"synchronous_standby_names": "*", "synchronous_commit": "local"})) as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    with closing(PostgresServer()) as server:
        server.stop()
        shutil.rmtree(server.data)
        copy = primary.folder / "copy"
        primary.run("pg_basebackup", *primary.connecting(), "--checkpoint=fast", "-R", "-D", str(copy))
        copy.rename(server.data)
        server.start()
        yield server


def _found(store: PostgresCollection) -> list[str]:
    return sorted(hit.item.id for hit in store.search(SearchQuery(text="tea", limit=50)))


def test_what_commits_late_is_found_on_a_standby(primary: PostgresServer, standby: PostgresServer) -> None:
    """Its snapshots do not name the transactions that were running on the primary server."""
    early, late, last = (MemoryItem(id=name, content_summary=f"tea {name}") for name in ("early", "late", "last"))
    with (
        closing(PostgresCollection(primary.url(options=APPLIED))) as store,
        closing(PostgresCollection(primary.url(options=APPLIED))) as other,
        closing(PostgresCollection(standby.url())) as reader,
    ):

        def add_slowly(connection: Connection) -> None:
            writer = BatchWriter(store._version_writer(connection), has_model=False, clock=lambda: 0.0)
            writer.add([PreparedItem.of(late)], Unique.ID, {})
            other.add([early])
            assert _found(reader) == ["early"]

        store._database.write(add_slowly)
        assert _found(reader) == ["early", "late"]
        other.add([last])
        other.delete(ids=["early"])
        assert _found(reader) == ["last", "late"]
