"""Making the tables of a database, and bringing older ones up to date."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from psycopg import errors, sql

from devmem.errors import CollectionError, CollectionUnwritableError
from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.location import Location
from devmem.storage.postgres.rows import item_from, json_value
from devmem.storage.postgres.schema import (
    CODE_TABLES,
    COUNT_ERASURES,
    CREATE_CODE_TABLES,
    CREATE_SEARCH_TABLES,
    CREATE_VERSION_TABLES,
    INLINE_TOKENS,
    MARK_ARCHIVED,
    MARK_SEGMENTS,
    NAME_ERASURES,
    SCHEMA_VERSION,
    SEARCH_TABLES,
    VERSION_TABLES,
    default_partition,
    is_secured,
    lock,
    lock_in_database,
    owns_tables,
    partition_statements,
    secure_tables,
    see_all_rows,
    see_own_rows,
    statements,
)
from devmem.storage.postgres.server.merging import start_again

Migration: TypeAlias = Callable[[Connection], None]


_OWN_PARTITIONS: Final = """
SELECT substring(inhrelid::regclass::text FROM '[0-9]+$')::integer FROM pg_inherits
WHERE inhparent = 'items'::regclass AND inhrelid::regclass::text ~ '[0-9]+$'
"""
"""Selects the stores that have partitions of their own."""


def _add_search_tables(connection: Connection) -> None:
    """Add what searches need where the indexes are in the database."""
    _add_tables(connection, CREATE_SEARCH_TABLES, SEARCH_TABLES)


def _add_version_tables(connection: Connection) -> None:
    """Add versions and runs; items that are there have no recorded time and count as recorded when they were made."""
    _add_tables(connection, CREATE_VERSION_TABLES, VERSION_TABLES)


def _add_code_tables(connection: Connection) -> None:
    """Add codes of vectors, which are made together with the segments: these are made again."""
    _add_tables(connection, CREATE_CODE_TABLES, CODE_TABLES)
    # A process of an older devmem that is making a segment finishes first.
    connection.execute("LOCK TABLE search_states IN ACCESS EXCLUSIVE MODE")
    _of_all_tenants(connection, lambda: start_again(connection, None))


def _mark_segments(connection: Connection) -> None:
    """Require of every segment that whoever makes it knows of codes."""
    _add_tables(connection, MARK_SEGMENTS, ())


def _count_erasures(connection: Connection) -> None:
    """Add the counts of erasures; what was erased before was cleaned with it."""
    _add_tables(connection, COUNT_ERASURES, ())


def _inline_tokens(connection: Connection) -> None:
    """Keep token codes in their rows from now on."""
    connection.execute(INLINE_TOKENS)


_NEXT_BODIES: Final = """
SELECT store, row, body FROM {table}
WHERE (store, row) > (%s, %s) AND body ~ '"metadata": ?[{{].'
ORDER BY store, row LIMIT 500
"""
_SET_METADATA: Final = "UPDATE {table} SET metadata = %s::jsonb WHERE store = %s AND row = %s AND metadata <> %s::jsonb"


def _keep_whole_metadata(connection: Connection) -> None:
    """Let filters see lists, mappings and null among the metadata, which had only scalars of the top level."""
    for table in ("items", "versions"):
        _of_all_tenants(connection, partial(_read_metadata_again, connection, table))


def _read_metadata_again(connection: Connection, table: str) -> None:
    store, row = -1, -1
    select, update = composed(_NEXT_BODIES.format(table=table)), composed(_SET_METADATA.format(table=table))
    while found := connection.execute(select, (store, row)).fetchall():
        for store, row, body in found:
            if (item := item_from(connection.damaged, row, body)) is not None:
                metadata = json_value(item.metadata)
                connection.execute(update, (metadata, store, row, metadata))


def _name_erasures(connection: Connection) -> None:
    """Add ids of plans; what is planned already is one plan, which no process is at work on."""
    _add_tables(connection, NAME_ERASURES, ())


def _mark_archived(connection: Connection) -> None:
    """Add the mark of archived versions; none is archived yet."""
    _add_tables(connection, MARK_ARCHIVED, ())


def _add_tables(connection: Connection, create: str, tables: Sequence[str]) -> None:
    for statement in create.strip().split(";\n"):
        connection.execute(composed(statement))
    for table in tables:
        connection.execute(composed(default_partition(table)))
    # Those of all tenants: row-level security would hide the rows of most stores.
    for (store,) in connection.execute(_OWN_PARTITIONS).fetchall():
        for statement in partition_statements(store, tables):
            connection.execute(composed(statement))


MIGRATIONS: Final[Mapping[int, Migration]] = {
    1: _add_search_tables,
    2: _add_version_tables,
    3: _add_code_tables,
    4: _mark_segments,
    5: _count_erasures,
    6: _inline_tokens,
    7: _keep_whole_metadata,
    8: _name_erasures,
    9: _mark_archived,
}
"""By version: what makes the next version of it, within the caller's transaction."""


def prepare_database(connection: Connection, location: Location) -> None:
    """Make the tables where they are missing, and bring them up to date; any number of processes may do so at once.

    Raises:
        CollectionError: they are of a newer devmem, or the extension `vector` is not there.
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
    if int(found.get("version", 0)) > SCHEMA_VERSION:
        raise CollectionError(
            str(location), f"is of a newer devmem (schema {found['version']}, known {SCHEMA_VERSION}): upgrade devmem."
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
            "its tables have to be brought up to date, since devmem is newer or a backup was restored: open a store in "
            "this database once as the owner of the tables.",
        )
    for version in range(int(found.get("version", SCHEMA_VERSION)), SCHEMA_VERSION):
        MIGRATIONS[version](connection)
    if found and found.get("system") != _system(connection):
        _number_transactions_again(connection)
    # Tables that a migration added are to be as secure as the others, whatever the property says that others may write.
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
