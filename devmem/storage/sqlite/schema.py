"""The tables of a collection's file.

`items` holds the current version of each item, and nothing that reads current items reads another table for them.
`versions` holds those that ended, and those of pending runs, which have no `recorded_until`. A version keeps its row
number, and with it its passages, vectors and token codes, when it moves from `items` to `versions`; `archived` marks
the last version of an item in the archive. Recorded times are microseconds since the epoch and differ between any two
transactions.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from devmem.model.filters import SEQUENCE_KEY
from devmem.storage.sidecar_db import read_transaction, write_transaction
from devmem.storage.sql import EVENT_TIME
from devmem.storage.sqlite.compact_rows import PARTS_OF_PASSAGE
from devmem.storage.sqlite.json_sql import metadata_type, metadata_value, of_body

SCHEMA_VERSION: Final = 1

_SCHEMA: Final = f"""
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS items(
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    content_hash TEXT NOT NULL,
    created_at REAL NOT NULL,
    event_time REAL,
    expires_at REAL,
    trust REAL NOT NULL,
    importance REAL,
    agent TEXT, user TEXT, session TEXT, conversation TEXT, trace TEXT, run TEXT,
    source_kind TEXT NOT NULL,
    source_name TEXT NOT NULL,
    speaker TEXT,
    cues INTEGER NOT NULL,
    length INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    refusal TEXT,
    body TEXT NOT NULL,
    body_checksum INTEGER NOT NULL,
    columns_checksum INTEGER NOT NULL,
    operation TEXT,
    change_run TEXT,
    recorded_from INTEGER,
    change_actor TEXT,
    change_checksum INTEGER
);
CREATE INDEX IF NOT EXISTS items_by_content ON items(content_hash);
CREATE INDEX IF NOT EXISTS items_by_scope ON items(user, agent, conversation);
CREATE INDEX IF NOT EXISTS items_by_session ON items(session) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS items_expiring ON items(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS items_waiting ON items(row) WHERE waiting;
CREATE INDEX IF NOT EXISTS items_by_change_run ON items(change_run) WHERE change_run IS NOT NULL;
CREATE TABLE IF NOT EXISTS versions(
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    created_at REAL NOT NULL,
    event_time REAL,
    expires_at REAL,
    trust REAL NOT NULL,
    importance REAL,
    agent TEXT, user TEXT, session TEXT, conversation TEXT, trace TEXT, run TEXT,
    source_kind TEXT NOT NULL,
    source_name TEXT NOT NULL,
    speaker TEXT,
    cues INTEGER NOT NULL,
    length INTEGER NOT NULL,
    waiting INTEGER NOT NULL,
    refusal TEXT,
    body TEXT NOT NULL,
    body_checksum INTEGER NOT NULL,
    columns_checksum INTEGER NOT NULL,
    operation TEXT NOT NULL,
    change_run TEXT,
    recorded_from INTEGER,
    recorded_until INTEGER,
    end_operation TEXT,
    end_run TEXT,
    base INTEGER,
    change_actor TEXT,
    end_actor TEXT,
    change_checksum INTEGER,
    archived INTEGER
);
CREATE INDEX IF NOT EXISTS versions_by_id ON versions(id);
CREATE INDEX IF NOT EXISTS versions_by_end ON versions(recorded_until);
CREATE INDEX IF NOT EXISTS versions_by_change_run ON versions(change_run) WHERE change_run IS NOT NULL;
CREATE INDEX IF NOT EXISTS versions_by_end_run ON versions(end_run) WHERE end_run IS NOT NULL;
CREATE UNIQUE INDEX IF NOT EXISTS versions_pending ON versions(change_run, id) WHERE recorded_until IS NULL;
CREATE INDEX IF NOT EXISTS versions_expiring ON versions(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS versions_past ON versions(recorded_until) WHERE archived IS NULL;
CREATE INDEX IF NOT EXISTS versions_archived ON versions(id) WHERE archived;
CREATE TABLE IF NOT EXISTS runs(
    run TEXT PRIMARY KEY, state TEXT NOT NULL, actor TEXT, started_at INTEGER NOT NULL,
    committed_at INTEGER, ended_at INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passages(
    passage INTEGER PRIMARY KEY AUTOINCREMENT,
    row INTEGER NOT NULL,
    term_hashes BLOB NOT NULL,
    term_counts BLOB NOT NULL,
    term_length INTEGER NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_by_row ON passages(row);
CREATE TABLE IF NOT EXISTS vectors(
    passage INTEGER PRIMARY KEY, vector BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tokens(
    part INTEGER PRIMARY KEY, codes BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS changes(number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, kind TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS count_up AFTER INSERT ON items BEGIN
    UPDATE meta SET value = value + 1 WHERE key = 'count';
END;
CREATE TRIGGER IF NOT EXISTS leave_archive AFTER INSERT ON items
WHEN EXISTS (SELECT 1 FROM versions WHERE id = new.id AND archived) BEGIN
    UPDATE versions SET archived = NULL WHERE id = new.id AND archived;
END;
CREATE TRIGGER IF NOT EXISTS count_down AFTER DELETE ON items BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count';
    INSERT INTO changes(row, kind) VALUES (old.row, 'deleted');
END;
CREATE TRIGGER IF NOT EXISTS drop_passages AFTER DELETE ON items
WHEN NOT EXISTS (SELECT 1 FROM versions WHERE row = old.row) BEGIN
    DELETE FROM vectors WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM tokens WHERE part IN (
        SELECT part FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE}
        WHERE row = old.row
    );
    DELETE FROM passages WHERE row = old.row;
END;
CREATE TRIGGER IF NOT EXISTS drop_version AFTER DELETE ON versions BEGIN
    DELETE FROM vectors WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM tokens WHERE part IN (
        SELECT part FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE}
        WHERE row = old.row
    );
    DELETE FROM passages WHERE row = old.row;
    INSERT INTO changes(row, kind) VALUES (old.row, 'erased');
END;
"""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables within the caller's transaction, which `executescript` would commit."""
    for statement in _statements():
        connection.execute(statement)


def _statements() -> Iterator[str]:
    statement = ""
    for line in _SCHEMA.strip().splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _sequence(function: str) -> str:
    return of_body(f"{function}(body, '$.metadata.\"{SEQUENCE_KEY}\"')")


SEQUENCE: Final = f"CASE WHEN {_sequence('json_type')} IN ('integer', 'real') THEN {_sequence('json_extract')} END"
"""Expression of an item's place among those of one time; NULL where it has none."""
_OF_COLUMNS: Final = {
    "items_by_agent": "agent",
    # In the order of events, so that the last turns of a long conversation are read without sorting all of it.
    "items_by_turn": f"conversation, {EVENT_TIME}, {SEQUENCE}",
    "items_by_trace": "trace",
    "items_by_source": "user, agent, source_name",
    "items_by_time": EVENT_TIME,
}


_BY_VALUE: Final = "items_by_value_"
"""Prefix of the indexes on values of the metadata."""


def ensure_indexes(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Create the indexes that are missing.

    Args:
        connection: not in a transaction.
        keys: metadata keys to index, as `IndexConfig` accepts them.
    """
    of_metadata = {f"{_BY_VALUE}{key}": f"{metadata_value(key)}, {metadata_type(key)}" for key in keys}
    wanted = {**_OF_COLUMNS, **of_metadata}
    if wanted.keys() - read_transaction(connection, _existing, connection):
        write_transaction(connection, _create, connection, wanted)


def _existing(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}


def _create(connection: sqlite3.Connection, wanted: Mapping[str, str]) -> None:
    for name, indexed in wanted.items():
        connection.execute(f'CREATE INDEX IF NOT EXISTS "{name}" ON items({indexed})')
