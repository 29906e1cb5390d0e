"""Files and tables as earlier versions of devmem left them: what later versions added is taken away again."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from devmem.storage.postgres.database import Connection, composed
from devmem.storage.postgres.schema import SEARCH_TABLES, VERSION_TABLES
from devmem.storage.sqlite.compact_rows import PASSAGE_OF_PART, joined_codes, unpack_terms
from devmem.storage.sqlite.rows import checksum, decode_vectors, encode_vector

_TRIGGER_OF_FORMAT_3: Final = """
CREATE TRIGGER count_down AFTER DELETE ON items BEGIN
    UPDATE meta SET value = value - 1 WHERE key = 'count';
    DELETE FROM vectors WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM tokens WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);
    DELETE FROM passages WHERE row = old.row;
    INSERT INTO changes(row, kind) VALUES (old.row, 'deleted');
END;
"""


_TOKENS_OF_FORMAT_7: Final = (
    "CREATE TABLE tokens(passage INTEGER PRIMARY KEY, codes BLOB NOT NULL, checksum INTEGER NOT NULL)"
)

_TRIGGERS_ON_TOKENS: Final = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND sql LIKE '%DELETE FROM tokens%'"
)
_DELETING_PARTS: Final = re.compile(r"DELETE FROM tokens [^;]*;")
_DELETE_OF_FORMAT_7: Final = "DELETE FROM tokens WHERE passage IN (SELECT passage FROM passages WHERE row = old.row);"


def sqlite_to_7(path: Path) -> None:
    """Bring a file to format 7, with whole hashes, a count of every term, and token codes that are not in parts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        selected = connection.execute("SELECT passage, row, term_hashes, term_counts, term_length FROM passages")
        for passage, row, *stored in selected.fetchall():
            (terms,) = unpack_terms([tuple(stored)])
            values = (terms.hashes, terms.counts, checksum(row, terms.hashes, terms.counts, terms.length), passage)
            connection.execute(
                "UPDATE passages SET term_hashes = ?, term_counts = ?, checksum = ? WHERE passage = ?", values
            )
        parts = connection.execute(f"SELECT {PASSAGE_OF_PART}, codes, checksum FROM tokens ORDER BY part").fetchall()
        connection.execute("DROP TABLE tokens")
        connection.execute(_TOKENS_OF_FORMAT_7)
        for name, trigger in connection.execute(_TRIGGERS_ON_TOKENS).fetchall():
            connection.execute(f"DROP TRIGGER {name}")
            connection.execute(_DELETING_PARTS.sub(_DELETE_OF_FORMAT_7, trigger))
        codes = ((passage, raw, checksum(raw)) for passage, raw in joined_codes(parts) if raw is not None)
        connection.executemany("INSERT INTO tokens VALUES (?, ?, ?)", codes)
        connection.execute("PRAGMA user_version = 7")
        connection.execute("COMMIT")


def sqlite_to_6(path: Path) -> None:
    """Bring a file to format 6, with vectors of float32 and the content hash in each body."""
    sqlite_to_7(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        for passage, raw in connection.execute("SELECT passage, vector FROM vectors").fetchall():
            vector = encode_vector(decode_vectors([raw])[0], exact=True)
            connection.execute(
                "UPDATE vectors SET vector = ?, checksum = ? WHERE passage = ?", (vector, checksum(vector), passage)
            )
        for table in ("items", "versions"):
            for row, digest, body in connection.execute(f"SELECT row, content_hash, body FROM {table}").fetchall():
                if '"content_hash":' not in body:
                    whole = f'{body[:-1]},"content_hash":"{digest}"}}'
                    values = (whole, checksum(whole.encode()), row)
                    connection.execute(f"UPDATE {table} SET body = ?, body_checksum = ? WHERE row = ?", values)
        connection.execute("PRAGMA user_version = 6")
        connection.execute("COMMIT")


def sqlite_to_3(path: Path) -> None:
    """Bring a file to format 3, without versions and runs."""
    sqlite_to_6(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for trigger in ("leave_archive", "count_down", "drop_passages", "drop_version"):
            connection.execute(f"DROP TRIGGER {trigger}")
        for table in ("versions", "runs"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("DROP INDEX items_by_change_run")
        for column in ("operation", "change_run", "recorded_from", "change_actor", "change_checksum"):
            connection.execute(f"ALTER TABLE items DROP COLUMN {column}")
        connection.execute("DELETE FROM meta WHERE key = 'recorded'")
        connection.executescript(_TRIGGER_OF_FORMAT_3)
        connection.execute("PRAGMA user_version = 3")


def sqlite_to_4(path: Path) -> None:
    """Bring a file to format 4, without actors and checksums of changes."""
    sqlite_to_5(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table, columns in (("items", ()), ("versions", ("end_actor",))):
            for column in (*columns, "change_actor", "change_checksum"):
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 4")


def sqlite_to_5(path: Path) -> None:
    """Bring a file to format 5, without an archive."""
    sqlite_to_6(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER leave_archive")
        for index in ("versions_past", "versions_archived"):
            connection.execute(f"DROP INDEX {index}")
        connection.execute("ALTER TABLE versions DROP COLUMN archived")
        connection.execute("PRAGMA user_version = 5")


def postgres_to_9(connection: Connection) -> None:
    """Bring tables to version 9, without an archive."""
    connection.execute("ALTER TABLE versions DROP COLUMN archived")
    connection.execute("UPDATE properties SET value = '9' WHERE name = 'version'")


def postgres_to_3(connection: Connection) -> None:
    """Bring tables to version 3, without codes of vectors and ids of erasures."""
    postgres_to_9(connection)
    connection.execute("DROP TABLE vector_codes")
    connection.execute("ALTER TABLE segments DROP COLUMN coded")
    connection.execute("ALTER TABLE search_states DROP COLUMN erased, DROP COLUMN cleaned")
    connection.execute("ALTER TABLE tokens ALTER codes SET STORAGE EXTENDED")
    connection.execute("ALTER TABLE erasures DROP COLUMN plan, DROP COLUMN backend, DROP COLUMN backend_start")
    connection.execute('CREATE INDEX items_by_scope ON items(store, "user", agent, conversation)')
    connection.execute("DROP INDEX items_of_user")
    connection.execute("DROP INDEX items_by_source")
    connection.execute("UPDATE properties SET value = '3' WHERE name = 'version'")


def postgres_to_2(connection: Connection) -> None:
    """Bring tables to version 2, without versions."""
    postgres_to_3(connection)
    _without_versions(connection)
    connection.execute("UPDATE properties SET value = '2' WHERE name = 'version'")


def _without_versions(connection: Connection) -> None:
    """Take the tables and columns of versions away."""
    for table in VERSION_TABLES:
        connection.execute(composed(f"DROP TABLE {table}"))
    for column in ("operation", "change_run", "recorded_from", "change_actor"):
        connection.execute(composed(f"ALTER TABLE items DROP COLUMN {column}"))


def postgres_to_1(connection: Connection) -> None:
    """Bring tables to version 1, without tables for searches on the server."""
    postgres_to_3(connection)
    _without_versions(connection)
    for table in SEARCH_TABLES:
        connection.execute(composed(f"DROP TABLE {table}"))
    for index in ("items_by_turn", "items_by_turn_of_session", "items_standing"):
        connection.execute(composed(f"DROP INDEX {index}"))
    connection.execute("CREATE INDEX items_by_conversation ON items(store, conversation)")
    connection.execute("CREATE INDEX items_by_session ON items(store, session)")
    connection.execute("UPDATE properties SET value = '1' WHERE name = 'version'")
