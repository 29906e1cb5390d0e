"""Making the tables of a database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from psycopg import errors, sql

from devmem.errors import CollectionError, CollectionUnwritableError
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.schema import (
    SCHEMA_VERSION,
    is_secured,
    lock,
    lock_in_database,
    owns_tables,
    secure_tables,
    see_all_rows,
    see_own_rows,
    statements,
)
from devmem.storage.postgres.server.merging import start_again


def prepare_database(connection: Connection, location: Location) -> None:
    """Make the tables where they are missing; any number of processes may do so at once.

    Raises:
        CollectionError: they are of another devmem, or the extension `vector` is not there.
    """
    if _is_prepared(connection, location):
        return
    connection.execute("BEGIN")
    lock(connection, "schema")
    # Building indexes, or numbering every row, takes as long as it takes.
    connection.execute("SET LOCAL statement_timeout = 0")
    # Another process may have been faster.
    if not _is_prepared(connection, location):
        _prepare(connection, location)
    connection.execute("COMMIT")


def _is_prepared(connection: Connection, location: Location) -> bool:
    found = _properties(connection, location)
    if found and found.get("version") != str(SCHEMA_VERSION):
        raise CollectionError(
            str(location),
            f"has tables of schema {found.get('version')}, and this devmem uses schema {SCHEMA_VERSION}: open "
            "them with the devmem that made them, or name another schema.",
        )
    secure = not location.row_security or found.get("row_security") == "on"
    return secure and (found.get("version"), found.get("system")) == (str(SCHEMA_VERSION), _system(connection))


def _properties(connection: Connection, location: Location) -> dict[str, str]:
    name = sql.Identifier(location.schema, "properties")
    (there,) = connection.execute("SELECT to_regclass(%s)", (name.as_string(connection),)).fetchone() or (None,)
    if there is None:
        return {}
    return dict(connection.execute(sql.SQL("SELECT name, value FROM {}").format(name)).fetchall())


def _prepare(connection: Connection, location: Location) -> None:
    found = _properties(connection, location)
    if not found:
        _create(connection, location)
    elif not owns_tables(connection):
        raise CollectionUnwritableError(
            str(location),
            "its tables have to be prepared, since a backup was restored or row-level security is new: open a store in "
            "this database once as the owner of the tables.",
        )
    if found and found.get("system") != _system(connection):
        _number_transactions_again(connection)
    if location.row_security or found.get("row_security") == "on" or (found and is_secured(connection)):
        secure_tables(connection)
        _set_property(connection, "row_security", "on")
    _set_property(connection, "version", str(SCHEMA_VERSION))
    _set_property(connection, "system", _system(connection))


def _create(connection: Connection, location: Location) -> None:
    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(location.schema)))
    # Two that make the extension at once would both find that there is none.
    lock_in_database(connection, "extension")
    try:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except (errors.FeatureNotSupported, errors.UndefinedFile, errors.InsufficientPrivilege) as error:
        raise CollectionError(
            str(location),
            "needs the extension `vector` (pgvector 0.8 or newer): install it on the server and have its administrator "
            "run CREATE EXTENSION vector in this database.",
        ) from error
    for statement in statements():
        connection.execute(composed(statement))


def _number_transactions_again(connection: Connection) -> None:
    """Number every row as one of this transaction, after a dump was restored into another server.

    The numbers that the rows came with are the other server's; this one's may not have reached them yet.
    """

    def number() -> None:
        # Every other transaction reads this table first.
        connection.execute("LOCK TABLE stores IN ACCESS EXCLUSIVE MODE")
        for table in ("items", "versions"):
            connection.execute(composed(f"UPDATE {table} SET xact = pg_current_xact_id()"))
        connection.execute("DELETE FROM changes")
        connection.execute("UPDATE stores SET generation = generation + 1, changes_floor = '0'")
        start_again(connection, None)

    _of_all_tenants(connection, number)


def _of_all_tenants(connection: Connection, change: Callable[[], object]) -> None:
    """Make a change to which row-level security shows the rows of all tenants."""
    secured = is_secured(connection)
    if secured:
        see_all_rows(connection)
    change()
    if secured:
        see_own_rows(connection)


def _set_property(connection: Connection, name: str, value: str) -> None:
    connection.execute(
        "INSERT INTO properties(name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def _system(connection: Connection) -> str:
    return str(connection.server.system)


_IS_DISTRIBUTING: Final = (
    "SELECT to_regclass('pg_dist_partition') IS NOT NULL, to_regclass('pg_dist_schema') IS NOT NULL"
)
_DISTRIBUTED_TABLE: Final = """
SELECT relname FROM pg_dist_partition JOIN pg_class ON pg_class.oid = logicalrelid
WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) ORDER BY relname LIMIT 1
"""
_DISTRIBUTED_SCHEMA: Final = """
SELECT nspname FROM pg_dist_schema JOIN pg_namespace ON pg_namespace.oid = schemaid WHERE nspname = current_schema()
"""


def refuse_distributed(connection: Connection, location: Location) -> None:
    """Refuse tables that Citus spreads over servers: transaction ids and snapshots differ between them.

    A process that follows such a store, or reads it in server mode, would miss what is committed on another server.

    Raises:
        CollectionError: a table of the schema, or the schema as a whole, is distributed.
    """
    ((tables, schemas),) = connection.execute(_IS_DISTRIBUTING).fetchall()
    for is_known, query in ((tables, _DISTRIBUTED_TABLE), (schemas, _DISTRIBUTED_SCHEMA)):
        if is_known and (found := connection.execute(composed(query)).fetchone()) is not None:
            raise CollectionError(
                str(location),
                f"Citus distributes {found[0]!r} over servers whose transactions have no common order, so that "
                "items would be missed; undistribute_table(...) or a schema that is not distributed makes it usable "
                "(docs/scaling.md names ways beyond one database).",
            )
