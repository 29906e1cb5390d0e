"""Upgrades of files of older formats, made when they are opened."""

from __future__ import annotations

import logging
import sqlite3
from dataclasses import asdict
from typing import Final

from pydantic import ValidationError

from devmem.collections.prepared import PreparedItem
from devmem.collections.sqlite import rows
from devmem.collections.sqlite.integrity import (
    BODY_CHECKSUM,
    CODES_CHECKSUM,
    ITEM_CHECKSUM,
    PASSAGE_CHECKSUM,
    VECTOR_CHECKSUM,
)
from devmem.collections.sqlite.schema import create_tables
from devmem.errors import CollectionDamagedError
from devmem.model.indexed_fields import has_text
from devmem.model.items import MemoryItem, load_item_json
from devmem.text.analysis import ANALYSIS_VERSION

_CHECKSUMS: Final = (
    *(("items", "body_checksum"), ("items", "columns_checksum")),
    *((table, "checksum") for table in ("passages", "vectors", "tokens")),
)
_WITH_ESCAPES: Final = r"SELECT row, CAST(body AS BLOB) FROM items WHERE instr(body, '\u') OR instr(body, '\escaped:')"
_CHANGES: Final = ("change_actor TEXT", "change_checksum INTEGER")
_LOG: Final = logging.getLogger(__name__)
_OF_FORMAT_1: Final = (
    "DROP TRIGGER count_up",
    "DROP TRIGGER count_down",
    "DROP INDEX IF EXISTS items_by_content",
    "DROP INDEX IF EXISTS items_by_scope",
    "DROP INDEX IF EXISTS items_by_session",
    "DROP INDEX IF EXISTS items_expiring",
    "DROP INDEX IF EXISTS items_waiting",
    "DROP TABLE vectors",
    "ALTER TABLE items RENAME TO items_of_format_1",
)


def upgrade_from_1(connection: sqlite3.Connection, location: str) -> None:
    """Upgrade a file of format 1, which had no passages, within the caller's write transaction.

    Items keep their row numbers and their order; each waits for the embeddings of its passages.

    Raises:
        CollectionDamagedError: an item cannot be read.
    """
    for statement in _OF_FORMAT_1:
        connection.execute(statement)
    create_tables(connection)
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'count'")
    old = connection.cursor()
    for row, name, body in old.execute("SELECT row, id, body FROM items_of_format_1 ORDER BY row"):
        item = _read(location, name, body)
        rows.insert_item(connection, PreparedItem.of(item), waiting=has_text(item), row=row)
    connection.execute("DROP TABLE items_of_format_1")
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'analysis'", (ANALYSIS_VERSION,))
    _LOG.warning("%s: upgraded from an older format; its items will be embedded again.", location)


def upgrade_from_2(connection: sqlite3.Connection) -> None:
    """Add the checksums to a file of format 2, within the caller's write transaction."""
    _rename_surrogates(connection)
    for table, column in _CHECKSUMS:
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER NOT NULL DEFAULT 0")
    connection.execute(
        f"UPDATE items SET body_checksum = {BODY_CHECKSUM}, columns_checksum = COALESCE({ITEM_CHECKSUM}, -1)"
    )
    connection.execute(f"UPDATE passages SET checksum = {PASSAGE_CHECKSUM}")
    connection.execute(f"UPDATE vectors SET checksum = COALESCE({VECTOR_CHECKSUM}, -1)")
    connection.execute(f"UPDATE tokens SET checksum = COALESCE({CODES_CHECKSUM}, -1)")


def upgrade_from_3(connection: sqlite3.Connection) -> None:
    """Add the tables of versions and runs to a file of format 3, within the caller's write transaction.

    Its items have no recorded time; they count as recorded when they were made.
    """
    for column in ("operation TEXT", "change_run TEXT", "recorded_from INTEGER", *_CHANGES):
        connection.execute(f"ALTER TABLE items ADD COLUMN {column}")
    connection.execute("DROP TRIGGER count_down")
    create_tables(connection)


def upgrade_from_4(connection: sqlite3.Connection) -> None:
    """Add actors and checksums of changes to a file of format 4, within the caller's write transaction.

    What is there keeps its changes without a checksum: nothing tells whether they are still those that were written.
    """
    for table, columns in (("items", _CHANGES), ("versions", (*_CHANGES, "end_actor TEXT"))):
        for column in columns:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def _rename_surrogates(connection: sqlite3.Connection) -> None:
    """Store names with lone surrogates as they are looked up now: format 2 gave two names one column value."""
    for row, body in connection.execute(_WITH_ESCAPES).fetchall():
        try:
            item = load_item_json(body)
        except ValidationError as error:
            _LOG.warning("row %d cannot be read and keeps its names: %s", row, error.errors()[0]["msg"])
            continue
        names = {"id": item.id, "source_name": item.provenance.name, **asdict(item.scope)}
        if isinstance(speaker := item.metadata.get("speaker"), str) and speaker:
            names["speaker"] = speaker
        columns = ", ".join(f"{name} = ?" for name in names)
        connection.execute(f"UPDATE items SET {columns} WHERE row = ?", (*map(rows.sql_text, names.values()), row))


def _read(location: str, name: str, body: str) -> MemoryItem:
    try:
        return load_item_json(body)
    except ValidationError as error:
        raise CollectionDamagedError(
            location,
            f"is of an older format, and its item {name!r} cannot be read ({error.errors()[0]['msg']}); it was left as "
            "it is: restore a backup, or move it away to start with an empty one.",
        ) from error
