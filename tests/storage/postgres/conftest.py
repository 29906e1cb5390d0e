"""A PostgreSQL server for all tests of a run, and a database name of its own for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tools.postgres_server import PostgresServer

_NUMBERS = count()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server that is there for the whole run."""
    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def store_url(postgres_server: PostgresServer) -> str:
    """The URL of a store that no other test uses."""
    return postgres_server.url(store=f"store {next(_NUMBERS)}")
