"""The tables of a collection's file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final

SCHEMA_VERSION: Final = 3

_SCHEMA: Final = """
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
    body TEXT NOT NULL,
    body_checksum INTEGER NOT NULL,
    columns_checksum INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS items_by_content ON items(content_hash);
CREATE INDEX IF NOT EXISTS items_by_scope ON items(user, agent, conversation);
CREATE INDEX IF NOT EXISTS items_by_session ON items(session) WHERE session IS NOT NULL;
CREATE INDEX IF NOT EXISTS items_expiring ON items(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS items_waiting ON items(row) WHERE waiting;
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
    passage INTEGER PRIMARY KEY, codes BLOB NOT NULL, checksum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS changes(number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, kind TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS count_up AFTER INSERT ON items BEGIN
    UPDATE meta SET value = value + 1 WHERE key = 'count';
END;
CREATE TRIGGER IF NOT EXISTS count_down AFTER DELETE ON items BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count';
    DELETE FROM vectors WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM tokens WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM passages WHERE row = old.row;
    INSERT INTO changes(row, kind) VALUES (old.row, 'deleted');
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
