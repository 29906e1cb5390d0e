"""A store of its own for each test on the PostgreSQL server of the run."""

from __future__ import annotations

from itertools import count

import pytest

from tools.postgres_server import PostgresServer

_NUMBERS = count()


@pytest.fixture
def store_url(postgres_server: PostgresServer) -> str:
    """The URL of a store that no other test uses."""
    return postgres_server.url(store=f"store {next(_NUMBERS)}")
