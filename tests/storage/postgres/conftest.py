"""A store of its own for each test on the PostgreSQL server of the run."""

from __future__ import annotations

from itertools import count
from uuid import uuid4

import pytest

from tools.postgres_server import PostgresServer

_NUMBERS, _RUN = count(), uuid4().hex[:8]


@pytest.fixture
def store_url(postgres_server: PostgresServer) -> str:
    """The URL of a store that no other test uses, nor an earlier run on the same server."""
    return postgres_server.url(store=f"store {next(_NUMBERS)} {_RUN}")
