"""Steps of maintenance: transactions that change the segments and the blocks of codes of a store."""

from __future__ import annotations

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.locks import lock
from devmem.collections.postgres.server.planning import SEARCH_SETTINGS


def begin_step(connection: Connection, store: int) -> None:
    """Keep others from changing the store's segments and blocks until the transaction ends, however long it takes."""
    lock(connection, "segments", store)
    connection.execute("SET LOCAL statement_timeout = 0")
    connection.execute(composed(SEARCH_SETTINGS))
