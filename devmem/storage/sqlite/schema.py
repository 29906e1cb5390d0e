"""The schema of a collection's file; see `StoreTables` for what its tables hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from devmem.model.filters import SEQUENCE_KEY
from devmem.storage.connections import write_transaction
from devmem.storage.pending import PENDING_TABLE
from devmem.storage.sql import EVENT_TIME, columns_of_fields
from devmem.storage.sqlite.compact_rows import PARTS_OF_PASSAGE
from devmem.storage.tables import NOW

SCHEMA_VERSION: Final = 1

_SCHEMA: Final = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE items(
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    slot TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    created_at REAL NOT NULL,
    event_time REAL,
    expires_at REAL,
    trust REAL NOT NULL,
    importance REAL,
    {columns_of_fields("TEXT")},
    speaker TEXT,
    cues INTEGER NOT NULL,
    length INTEGER NOT NULL,
    operation TEXT NOT NULL, change_run TEXT, change_actor TEXT, began INTEGER,
    ended INTEGER, end_operation TEXT, end_run TEXT, end_actor TEXT,
    base INTEGER,
    archived INTEGER,
    derived INTEGER,
    waiting INTEGER NOT NULL,
    refusal TEXT,
    body TEXT NOT NULL,
    UNIQUE (id, slot)
);
CREATE INDEX items_pending ON items(slot) WHERE began IS NULL;
CREATE INDEX items_by_content ON items(content_hash) WHERE {NOW};
CREATE INDEX items_by_scope ON items(user, agent, conversation) WHERE {NOW};
CREATE INDEX items_by_session ON items(session) WHERE {NOW} AND session IS NOT NULL;
CREATE INDEX items_by_agent ON items(agent) WHERE {NOW};
CREATE INDEX items_by_trace ON items(trace) WHERE {NOW};
CREATE INDEX items_by_source ON items(user, source_name, agent) WHERE {NOW};
CREATE INDEX items_by_time ON items({EVENT_TIME}) WHERE {NOW};
CREATE INDEX items_expiring ON items(expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_waiting ON items(row) WHERE waiting;
CREATE INDEX items_derived ON items(derived) WHERE derived;
CREATE INDEX items_ended ON items(ended) WHERE ended IS NOT NULL;
CREATE INDEX items_archived ON items(row) WHERE archived;
CREATE INDEX items_by_change_run ON items(change_run) WHERE change_run IS NOT NULL;
CREATE INDEX items_by_end_run ON items(end_run) WHERE end_run IS NOT NULL;
CREATE TABLE passages(
    passage INTEGER PRIMARY KEY AUTOINCREMENT,
    row INTEGER NOT NULL,
    term_hashes BLOB NOT NULL,
    term_counts BLOB NOT NULL,
    term_length INTEGER NOT NULL
);
CREATE INDEX passages_by_row ON passages(row);
CREATE TABLE vectors(passage INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE tokens(part INTEGER PRIMARY KEY, codes BLOB NOT NULL);
CREATE TABLE runs(
    run TEXT PRIMARY KEY, state TEXT NOT NULL, actor TEXT, started_at INTEGER NOT NULL,
    committed_at INTEGER, ended_at INTEGER
) WITHOUT ROWID;
CREATE TABLE tombstones(
    digest TEXT PRIMARY KEY, owner TEXT NOT NULL, whole INTEGER NOT NULL, erasure TEXT NOT NULL, erased_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE attachments(sha256 TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE attachment_uses(row INTEGER, sha256 TEXT, PRIMARY KEY (row, sha256)) WITHOUT ROWID;
CREATE INDEX attachment_uses_by_content ON attachment_uses(sha256);
{PENDING_TABLE}CREATE TABLE states(kind TEXT, name TEXT, value BLOB NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;
CREATE TABLE exports(number INTEGER PRIMARY KEY, body TEXT NOT NULL);
CREATE TABLE changes(number INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL, kind TEXT NOT NULL);
CREATE TRIGGER insert_current AFTER INSERT ON items WHEN new.{NOW} BEGIN
    UPDATE items SET archived = NULL WHERE id = new.id AND archived;
END;
CREATE TRIGGER end_current AFTER UPDATE OF slot ON items WHEN old.{NOW} BEGIN
    INSERT INTO changes(row, kind) VALUES (old.row, 'gone');
END;
CREATE TRIGGER delete_version AFTER DELETE ON items BEGIN
    DELETE FROM vectors WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM tokens WHERE part IN (
        SELECT part FROM passages CROSS JOIN tokens ON {PARTS_OF_PASSAGE} WHERE row = old.row
    );
    DELETE FROM passages WHERE row = old.row;
    DELETE FROM attachments WHERE sha256 IN (SELECT sha256 FROM attachment_uses WHERE row = old.row) AND NOT EXISTS (
        SELECT 1 FROM attachment_uses AS used WHERE used.sha256 = attachments.sha256 AND used.row <> old.row
    );
    DELETE FROM attachment_uses WHERE row = old.row;
    INSERT INTO changes(row, kind) VALUES (old.row, 'gone');
END;
"""
SEQUENCE_OF_BODY: Final = f"'$.metadata.\"{SEQUENCE_KEY}\"'"
SEQUENCE: Final = (
    f"CASE WHEN json_type(body, {SEQUENCE_OF_BODY}) IN ('integer', 'real') "
    f"THEN json_extract(body, {SEQUENCE_OF_BODY}) END"
)
"""Expression of an item's place among those of one time; NULL where it has none."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables within the caller's transaction, which `executescript` would commit."""
    statement = ""
    for line in _SCHEMA.strip().splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    # In the order of events, so that the last turns of a long conversation are read without sorting all of it.
    connection.execute(f"CREATE INDEX items_by_turn ON items(conversation, {EVENT_TIME}, {SEQUENCE}) WHERE {NOW}")


def metadata_value(key: str) -> str:
    """Return the expression of a metadata value, as the index on its key has it."""
    return f"json_extract(body, '$.metadata.\"{key}\"')"


def metadata_type(key: str) -> str:
    """Return the expression of the JSON type of a metadata value, as the index on its key has it."""
    return f"json_type(body, '$.metadata.\"{key}\"')"


def ensure_indexes(connection: sqlite3.Connection, keys: Iterable[str]) -> None:
    """Create the indexes on values of the metadata that are missing.

    Args:
        connection: not in a transaction.
        keys: metadata keys to index, as `IndexConfig` accepts them.
    """
    wanted = {f"items_by_value_{key}": f"{metadata_value(key)}, {metadata_type(key)}" for key in keys}

    def create(connection: sqlite3.Connection) -> None:
        for name, indexed in wanted.items():
            connection.execute(f'CREATE INDEX IF NOT EXISTS "{name}" ON items({indexed}) WHERE {NOW}')

    # One statement is a transaction by itself.
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    if wanted.keys() - there:
        write_transaction(connection, create)
