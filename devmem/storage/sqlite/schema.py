"""The tables of a collection's file.

`items` holds the current version of each item, and nothing that reads current items reads another table for them.
`versions` holds those that ended, and those of pending runs, which have no `recorded_until`. A version keeps its row
number, and with it its passages, vectors and token codes, when it moves from `items` to `versions`; `archived` marks
the last version of an item in the archive. Recorded times are microseconds since the epoch and differ between any two
transactions.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from pydantic import ValidationError

from devmem.errors import CollectionDamagedError
from devmem.model.filters import SEQUENCE_KEY
from devmem.model.items import MemoryItem, load_item_json
from devmem.search.indexes.passages import has_text
from devmem.search.indexes.scoring import EncodedTerms
from devmem.storage.sidecar_db import read_transaction, write_transaction
from devmem.storage.sql import EVENT_TIME
from devmem.storage.sqlite import rows
from devmem.storage.sqlite.compact_rows import FIRST_PART, PARTS_OF_PASSAGE
from devmem.storage.sqlite.json_sql import metadata_type, metadata_value, of_body
from devmem.storage.sqlite.rows import BODY_CHECKSUM, CODES_CHECKSUM, ITEM_CHECKSUM, PASSAGE_CHECKSUM, VECTOR_CHECKSUM
from devmem.storage.writing import PreparedItem
from devmem.text.analysis import ANALYSIS_VERSION

SCHEMA_VERSION: Final = 8

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


_CHECKSUMS: Final = (
    *(("items", "body_checksum"), ("items", "columns_checksum")),
    *((table, "checksum") for table in ("passages", "vectors", "tokens")),
)
_WITH_ESCAPES: Final = r"SELECT row, CAST(body AS BLOB) FROM items WHERE instr(body, '\u') OR instr(body, '\escaped:')"
_SELECT_BODIES: Final = (
    f"SELECT row, content_hash, CAST(body AS BLOB) FROM {{table}} WHERE row > ? AND {BODY_CHECKSUM} = body_checksum "
    "ORDER BY row LIMIT ?"
)
_SELECT_VECTORS: Final = (
    f"SELECT passage, vector FROM vectors WHERE passage > ? AND {VECTOR_CHECKSUM} = checksum "
    "AND length(vector) % 4 = 0 ORDER BY passage LIMIT ?"
)
_SELECT_TERMS: Final = (
    "SELECT passage, row, term_hashes, term_counts, term_length FROM passages "
    f"WHERE passage > ? AND {PASSAGE_CHECKSUM} = checksum AND length(term_hashes) = 8 * length(term_counts) "
    "ORDER BY passage LIMIT ?"
)
"""Leaves out what a repair by this devmem has stored in a file of format 7."""
_SELECT_CODES: Final = (
    f"SELECT passage, codes, checksum FROM tokens_of_format_7 WHERE passage > ? AND {CODES_CHECKSUM} = checksum "
    "ORDER BY passage LIMIT ?"
)
_DAMAGED_CODES: Final = (
    f"INSERT INTO tokens(part, codes, checksum) SELECT {FIRST_PART}, codes, checksum FROM tokens_of_format_7 "
    f"WHERE {CODES_CHECKSUM} IS NOT checksum"
)
_BATCH_SIZE: Final = 5000
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
        prepared = PreparedItem.of(item)
        rows.insert_item(connection, prepared, rows.item_values(prepared, item, waiting=has_text(item)), row=row)
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


def upgrade_from_5(connection: sqlite3.Connection) -> None:
    """Add the mark of archived versions to a file of format 5, within the caller's write transaction."""
    connection.execute("ALTER TABLE versions ADD COLUMN archived INTEGER")
    create_tables(connection)


def upgrade_from_6(connection: sqlite3.Connection) -> None:
    """Make the rows of a file of format 6 smaller, within the caller's write transaction.

    Bodies leave out the content hash, which has a column; vectors take a byte a component, unless the caller of devmem
    made them. Damaged rows stay unchanged.
    """
    for table in ("items", "versions"):
        for row, content_hash, body in _in_batches(connection, _SELECT_BODIES.format(table=table)):
            if (shorter := _without_hash(body, content_hash)) is not None:
                values = (shorter.decode(), rows.checksum(shorter), row)
                connection.execute(f"UPDATE {table} SET body = ?, body_checksum = ? WHERE row = ?", values)
    if rows.keeps_exact(connection):
        return
    for passage, raw in _in_batches(connection, _SELECT_VECTORS):
        smaller = rows.encode_vector(rows.decode_vectors([raw])[0], exact=False)
        stored = (smaller, rows.checksum_of_vector(smaller), passage)
        connection.execute("UPDATE vectors SET vector = ?, checksum = ? WHERE passage = ?", stored)


def upgrade_from_7(connection: sqlite3.Connection) -> None:
    """Store the terms and token codes of a file of format 7 as `compact_rows` does, within the caller's transaction.

    Damaged rows stay damaged.
    """
    for passage, row, hashes, counts, length in _in_batches(connection, _SELECT_TERMS):
        rows.update_terms(connection, passage, row, EncodedTerms(hashes=hashes, counts=counts, length=length))
    for trigger in ("drop_passages", "drop_version"):
        # Renaming the table would rename it in these.
        connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
    connection.execute("ALTER TABLE tokens RENAME TO tokens_of_format_7")
    create_tables(connection)
    for passage, codes, _ in _in_batches(connection, _SELECT_CODES):
        rows.insert_codes(connection, passage, codes)
    connection.execute(_DAMAGED_CODES)
    connection.execute("DROP TABLE tokens_of_format_7")


def _in_batches(connection: sqlite3.Connection, query: str) -> Iterator[tuple[Any, ...]]:
    """Yield rows that a query selects after a number, which each starts with; the rows may be updated meanwhile."""
    last = 0
    while found := connection.execute(query, (last, _BATCH_SIZE)).fetchall():
        last = found[-1][0]
        yield from found


def _without_hash(body: bytes, content_hash: str) -> bytes | None:
    """Return a body without the content hash that it ends with, if reading it computes the same one."""
    end = f',"content_hash":"{content_hash}"}}'.encode()
    if not body.endswith(end):
        return None
    shorter = body.removesuffix(end) + b"}"
    try:
        return shorter if load_item_json(shorter).content_hash == content_hash else None
    except (ValueError, RecursionError):
        return None


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
_BY_TEXT: Final = "items_by_metadata_"
"""Prefix of earlier ones, in which texts end at a NUL character."""


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
        if name.startswith(_BY_VALUE):
            connection.execute(f'DROP INDEX IF EXISTS "{_BY_TEXT}{name.removeprefix(_BY_VALUE)}"')
