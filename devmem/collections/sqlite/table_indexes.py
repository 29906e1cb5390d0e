"""The indexes of the table `items` that only queries need: those of columns, and those that a store has on metadata."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Final

from devmem.collections.transactions import read_transaction, write_transaction

EVENT_TIME: Final = "COALESCE(event_time, created_at)"
_OF_COLUMNS: Final = {
    "items_by_agent": "agent",
    "items_by_conversation": "conversation",
    "items_by_trace": "trace",
    "items_by_source": "user, agent, source_name",
    "items_by_time": EVENT_TIME,
}


def of_body(expression: str) -> str:
    """Return an expression over the body that is NULL where the body is damaged and no JSON any more."""
    return f"CASE WHEN json_valid(body) THEN {expression} END"


def metadata_value(key: str) -> str:
    """Return the expression of a metadata value, as the index on its key has it."""
    return of_body(f"json_extract(body, '$.metadata.\"{key}\"')")


def metadata_type(key: str) -> str:
    """Return the expression of the JSON type of a metadata value, as the index on its key has it."""
    return of_body(f"json_type(body, '$.metadata.\"{key}\"')")


def ensure_indexes(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Create the indexes that are missing.

    Args:
        connection: not in a transaction.
        keys: metadata keys to index, as `IndexConfig` accepts them.
    """
    of_metadata = {f"items_by_metadata_{key}": f"{metadata_value(key)}, {metadata_type(key)}" for key in keys}
    wanted = {**_OF_COLUMNS, **of_metadata}
    if wanted.keys() - read_transaction(connection, lambda: _existing(connection)):
        write_transaction(connection, lambda: _create(connection, wanted))


def _existing(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def _create(connection: sqlite3.Connection, wanted: Mapping[str, str]) -> None:
    for name, indexed in wanted.items():
        connection.execute(f'CREATE INDEX IF NOT EXISTS "{name}" ON items({indexed})')
