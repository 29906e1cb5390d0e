"""Reading from a standby, which follows a primary server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing

import pytest

from devmem.errors import CollectionUnwritableError
from devmem.model.items import MemoryItem
from devmem.storage import SearchQuery
from devmem.storage.postgres.collection import PostgresCollection
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


def test_a_standby_is_searched(primary: PostgresServer, standby: PostgresServer) -> None:
    """It shows what was committed, at once and without a process that follows it."""
    with (
        closing(PostgresCollection(primary.url(options=APPLIED))) as store,
        closing(PostgresCollection(standby.url())) as reader,
    ):
        store.add([MemoryItem(id=name, content_summary=f"tea {name}") for name in ("early", "late")])
        assert _found(reader) == ["early", "late"]
        store.delete(ids=["early"])
        assert _found(reader) == ["late"]
        with closing(reader.as_of(2e9)) as view:
            assert [item.id for item in view.scan()] == ["late"]
        with pytest.raises(CollectionUnwritableError, match="is it a standby"):
            reader.add([MemoryItem(content_summary="tea")])
