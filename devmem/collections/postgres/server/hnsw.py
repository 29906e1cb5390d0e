"""The HNSW index over the vectors of one store, made by pgvector."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from devmem.collections.postgres.database import Connection, composed
from devmem.collections.postgres.schema import table_of

MOST_BY_HNSW: Final = 1_000
"""Maximum number of candidates that pgvector keeps while it searches; more are found by comparing with all."""
MOST_COMPONENTS: Final = 4_000
"""Length of the longest vectors that pgvector indexes at 16 bits a component."""
_LEAST_CANDIDATES: Final = 400
_CANDIDATES_EACH: Final = 2
"""Number of candidates to keep while searching, for each that is wanted."""


def index_name(store: int) -> str:
    """Return the name of a store's index."""
    return f"vectors_hnsw_{store:d}"


def hnsw_operand(dimension: int) -> str:
    """Return the expression that is indexed."""
    return f"(vector::halfvec({dimension:d}))"


def hnsw_condition(store: int, dimension: int) -> str:
    """Return which vectors are indexed; a query has to name the same.

    While the index is made, the model may be replaced: vectors of another length are left out of it, not refused.
    """
    return f"store = {store:d} AND vector_dims(vector) = {dimension:d}"


def has_hnsw(connection: Connection, store: int) -> bool:
    """Whether a store's index is there and complete."""
    query = f"SELECT indisvalid FROM pg_index WHERE indexrelid = {table_of('%s')}"
    found = connection.execute(composed(query), (index_name(store),)).fetchone()
    return bool(found and found[0])


def prepare_hnsw_search(connection: Connection, limit: int) -> None:
    """Set how many candidates a search keeps, until the transaction ends; pgvector's library is loaded with the index.

    `limit` is the number that is wanted.
    """
    candidates = min(MOST_BY_HNSW, max(_LEAST_CANDIDATES, _CANDIDATES_EACH * limit))
    # A setting of a library that is not loaded yet could not be checked, and would be refused when it is.
    connection.execute("SELECT '[0]'::vector, set_config('hnsw.ef_search', %s, true)", (str(candidates),))


def drop_hnsw(connection: Connection, store: int) -> None:
    """Drop a store's index, where there is one; its vectors may have another length afterwards."""
    ((schema,),) = connection.execute("SELECT current_schema()").fetchall()
    connection.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(schema, index_name(store))))


def build_hnsw(connection: Connection, store: int, dimension: int) -> None:
    """Make a store's index without keeping anybody from writing; it takes minutes for a million vectors.

    The connection must be outside of a transaction. What an earlier attempt left behind is dropped.
    """
    query = f"SELECT {table_of('%s')} IS NOT NULL"
    ((has_own,),) = connection.execute(composed(query), (f"vectors_{store:d}",)).fetchall()
    connection.execute("SET statement_timeout = 0")
    if not has_hnsw(connection, store):
        drop_hnsw(connection, store)
    create = "CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} USING hnsw ({} halfvec_ip_ops) WHERE {}"
    connection.execute(
        sql.SQL(create).format(
            sql.Identifier(index_name(store)),
            sql.Identifier(f"vectors_{store:d}" if has_own else "vectors_of_all"),
            sql.SQL(composed(hnsw_operand(dimension))),
            sql.SQL(composed(hnsw_condition(store, dimension))),
        )
    )
