"""The state of a store and its indexes in the database, as one search sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from devmem.collections.postgres.database import Connection
from devmem.collections.postgres.existence import check_tables, require_store
from devmem.collections.postgres.schema import table_of
from devmem.collections.postgres.server.coding import LATE
from devmem.collections.postgres.server.hnsw import index_name
from devmem.collections.postgres.server.planning import of_store
from devmem.collections.postgres.server.segments import UNMERGED
from devmem.collections.postgres.server.vector_cache import MOST_DELETED
from devmem.collections.postgres.snapshots import Snapshot
from devmem.errors import CollectionError

_STATE: Final = f"""
SELECT stores.tableoid::bigint, generation, model, dimension, pg_current_snapshot()::text,
    COALESCE((SELECT indisvalid FROM pg_index WHERE indexrelid = {table_of("%(index)s")}), false),
    EXISTS (SELECT FROM items WHERE store = %(store)s AND conversation IS NOT NULL)
    OR EXISTS (SELECT FROM items WHERE store = %(store)s AND session IS NOT NULL),
    ARRAY(SELECT segment FROM segments WHERE store = %(store)s ORDER BY segment),
    (SELECT string_agg(int8send(items.row), ''::bytea ORDER BY items.row) {UNMERGED.format(tables="items")}),
    ARRAY(SELECT block FROM vector_codes WHERE store = %(store)s ORDER BY block),
    (SELECT COALESCE(sum(octet_length(passages) / 8), 0)::bigint FROM vector_codes WHERE store = %(store)s),
    EXISTS (SELECT FROM items WHERE store = %(store)s AND expires_at <= %(now)s),
    (SELECT string_agg(int8send(late.row), ''::bytea ORDER BY late.row)
        FROM (SELECT DISTINCT changes.row {LATE.format(tables="changes")}) AS late),
    erased, cleaned, changes_floor::text::bigint,
    (SELECT string_agg(int8send(gone.row), ''::bytea ORDER BY gone.row) FROM (
        SELECT row FROM changes WHERE store = %(store)s AND kind = 'deleted'
        AND xact >= pg_snapshot_xmin(%(since)s::pg_snapshot)
        AND NOT pg_visible_in_snapshot(xact, %(since)s::pg_snapshot) LIMIT {MOST_DELETED + 1}) AS gone)
FROM stores JOIN search_states ON search_states.store = stores.store WHERE stores.store = %(store)s
"""


@dataclass(frozen=True, slots=True)
class State:
    """State of a store that a search reads first."""

    tables: int
    generation: int
    model: str | None
    dimension: int | None
    """Of its vectors; None as long as there are none."""
    snapshot: str
    has_hnsw: bool
    """Whether its vectors have an HNSW index."""
    has_conversations: bool
    """Whether any item is of a conversation."""
    segments: list[int]
    tail: bytes | None
    blocks: list[int]
    coded: int
    expired: bool
    late: bytes | None
    erased: int
    """Number of erasures."""
    cleaned: int
    """The same when segments and blocks were last made without what was erased."""
    changes_floor: int
    """Number of the last transaction whose changes may have been forgotten."""
    deleted: bytes | None
    """Rows of items that were deleted since the moment that `read_state` was asked for, some of them where they are
    more than `MOST_DELETED`."""


def read_state(connection: Connection, location: str, store: int, now: float, since: Snapshot | None) -> State:
    """Return the state of a store as of the connection's transaction.

    Args:
        connection: in a read transaction.
        location: of the store, without a password.
        store: its number.
        now: seconds since the epoch.
        since: moment after which deletions are to be known; None for none of them.

    Raises:
        CollectionError: the store was dropped, or is to be opened again.
    """
    parameters = {"index": index_name(store), "now": now, "since": None if since is None else str(since)}
    found = connection.execute(of_store(_STATE, store), parameters, binary=True).fetchone()
    if found is None:
        require_store(connection, location, store)
        # Whoever opens the store to search it here makes the row.
        raise CollectionError(
            location, "the tables were restored from a time when it was not searched on the server yet; open it again."
        )
    state = State(*found)
    check_tables(connection, state.tables)
    return state
