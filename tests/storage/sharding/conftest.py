"""A PostgreSQL server for the tests of shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that is there for the whole run."""
    server = PostgresServer()
    yield server
    server.close()
