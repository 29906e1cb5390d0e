"""Examining a collection's file without changing it: counts, checksums, orphans, leftovers and readable items.

The file is opened read-only, so that a damaged one stays as it is; whatever SQLite cannot read is skipped and reported.
"""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from devmem.collections.sqlite.database import APPLICATION_ID, read_meta_unchecked
from devmem.collections.sqlite.integrity import define_functions
from devmem.collections.sqlite.row_checks import check_attachments, damaged_rows
from devmem.collections.sqlite.sealing import is_sealed
from devmem.errors import CollectionDamagedError
from devmem.findings import Finding
from devmem.model.items import MemoryItem, load_item_json

_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part$")
_MAX_MESSAGES: Final = 20
"""Maximum number of SQLite's own messages that are kept."""
_LENGTH_TOLERANCE: Final = 0.01
_ORPHANS: Final = {
    "passages without an item": "passages WHERE row NOT IN ({rows})",
    "vectors without a passage": "vectors WHERE passage NOT IN (SELECT passage FROM passages)",
    "token codes without a passage": "tokens WHERE passage NOT IN (SELECT passage FROM passages)",
}
"""Rows that belong to nothing, by what they are; `rows` selects the items and their versions."""


@dataclass(slots=True, kw_only=True)
class Examination:
    """The state of a collection's file."""

    path: Path
    facts: dict[str, str | int | None] = field(default_factory=dict)
    """Recorded properties: `format`, `store_type`, `model`, `dimension`, `count`, ..."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows of `items`, `passages`, `vectors` and `tokens`, and items that are `waiting` for their embedding."""
    damage: list[str] = field(default_factory=list)
    """Messages of SQLite about the file's structure; a file with any is never changed."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Items that cannot be read, by row number, and why."""
    bad_vectors: list[int] = field(default_factory=list)
    """Passages whose vector or token codes are damaged."""
    bad_columns: list[int] = field(default_factory=list)
    """Items, by row number, whose columns differ from their checksum: no search finds them, but they can be read."""
    bad_passages: list[int] = field(default_factory=list)
    """Passages whose terms, or whose item, differ from their checksum."""
    bad_versions: list[int] = field(default_factory=list)
    """Versions that ended, by row number, whose row differs from its checksums."""
    attachments: list[Finding] = field(default_factory=list)
    """Attachments whose file is missing or has another content."""
    without_terms: list[int] = field(default_factory=list)
    """Items, by row number, without any passage: no search finds them."""
    unsealed: bool = False
    """Whether the recorded properties differ from their checksum."""
    orphans: dict[str, int] = field(default_factory=dict)
    """Numbers of rows that belong to nothing, by what they are."""
    leftovers: list[Path] = field(default_factory=list)
    """Partial files of writers that were killed."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing is lost and nothing needs to be rebuilt."""
        rows = (self.unreadable, self.bad_columns, self.bad_passages, self.bad_versions, self.without_terms)
        return not (
            self.damage or any(rows) or self.bad_vectors or self.attachments or self.miscounted or self.unsealed
        )

    @property
    def miscounted(self) -> bool:
        """Whether the recorded number of items is not the number of rows."""
        return "items" in self.counts and self.facts.get("count") not in (None, self.counts["items"])


def examine(path: Path) -> Examination:
    """Examine a file; a damaged one is reported, not refused.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
    """
    found = Examination(path=path, leftovers=_leftovers(path))
    with closing(connect_read_only(path)) as connection:
        _read_facts(found, connection)
        found.damage = _structure(connection)
        for table in ("items", "passages", "vectors", "tokens"):
            _count(found, connection, table, table)
        _count(found, connection, "waiting", "items WHERE waiting")
        for name, rows in _ORPHANS.items():
            if number := _number(found, connection, rows.format(rows=rows_of_versions(connection))):
                found.orphans[name] = number
        for _ in read_items(connection, found.unreadable):
            pass
        found.bad_vectors = sorted({*_bad_vectors(found, connection), *_bad_codes(found, connection)})
        found.without_terms = _without_terms(found, connection)
        _check_rows(found, connection)
    return found


def _check_rows(found: Examination, connection: sqlite3.Connection) -> None:
    """Compare rows and attachments with their checksums."""
    rows = {"items": found.bad_columns, "passages": found.bad_passages, "versions": found.bad_versions}
    for table, bad in rows.items():
        try:
            bad += damaged_rows(connection, table)
        except sqlite3.DatabaseError as error:
            found.damage.append(f"{table}: {error}")
    found.bad_columns = [row for row in found.bad_columns if row not in found.unreadable]
    try:
        found.attachments = check_attachments(connection, found.path.with_name(found.path.name + ".files"))
    except sqlite3.DatabaseError as error:
        found.damage.append(f"items: {error}")


def readable_items(path: Path, unreadable: dict[int, str]) -> Iterator[MemoryItem]:
    """Yield every item that can be read, in the order in which they were stored.

    `unreadable` gets the row numbers of the others, with the reasons.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
    """
    with closing(connect_read_only(path)) as connection:
        yield from read_items(connection, unreadable)


def read_items(connection: sqlite3.Connection, unreadable: dict[int, str]) -> Iterator[MemoryItem]:
    """Yield the readable items of an open file; see `readable_items`."""
    has_checksums = "body_checksum" in _columns(connection, "items")
    select = f"SELECT id, CAST(body AS BLOB), {'body_checksum' if has_checksums else 'NULL'} FROM items WHERE row = ?"
    for row in _rows(connection):
        try:
            name, body, checksum = connection.execute(select, (row,)).fetchone() or (None, None, None)
            if body is None:
                continue
            item = load_item_json(body)
        except (sqlite3.DatabaseError, ValidationError, ValueError) as error:
            unreadable[row] = str(error).splitlines()[0]
            continue
        if checksum is not None and zlib.crc32(body) != checksum:
            unreadable[row] = f"the checksum of item {name!r} differs"
        elif item.id != name:
            unreadable[row] = f"the row of item {name!r} holds item {item.id!r}"
        else:
            yield item


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a file of devmem read-only.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
    """
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise CollectionDamagedError(path, f"cannot be read at all ({error}); restore a backup.") from error
    if application != APPLICATION_ID:
        connection.close()
        raise CollectionDamagedError(path, "is not a file of devmem.")
    define_functions(connection)
    # A damaged text need not be UTF-8.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _read_facts(found: Examination, connection: sqlite3.Connection) -> None:
    try:
        found.facts = read_meta_unchecked(connection)
        found.unsealed = not is_sealed(found.facts)
        found.facts["format"] = connection.execute("PRAGMA user_version").fetchone()[0] or found.facts.get("format")
    except sqlite3.DatabaseError as error:
        found.damage.append(f"meta: {error}")


def _structure(connection: sqlite3.Connection) -> list[str]:
    try:
        messages = [row[0] for row in connection.execute(f"PRAGMA integrity_check({_MAX_MESSAGES})")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if messages == ["ok"] else messages


def _count(found: Examination, connection: sqlite3.Connection, name: str, rows: str) -> None:
    if (number := _number(found, connection, rows)) is not None:
        found.counts[name] = number


def _number(found: Examination, connection: sqlite3.Connection, rows: str) -> int | None:
    try:
        return int(connection.execute(f"SELECT count(*) FROM {rows}").fetchone()[0])
    except sqlite3.DatabaseError as error:
        found.damage.append(f"{rows.split()[0]}: {error}")
        return None


def _rows(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the row numbers of items; where a page cannot be read, every number up to the highest that was given."""
    try:
        yield from [row for (row,) in connection.execute("SELECT row FROM items ORDER BY row")]
    except sqlite3.DatabaseError:
        try:
            found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'items'").fetchone()
        except sqlite3.DatabaseError:
            return
        yield from range(1, (found[0] if found else 0) + 1)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def rows_of_versions(connection: sqlite3.Connection) -> str:
    """Return the query of the row numbers of items and, in a file whose format has them, of their versions."""
    current = "SELECT row FROM items"
    return f"{current} UNION ALL SELECT row FROM versions" if _columns(connection, "versions") else current


def _bad_vectors(found: Examination, connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the passages whose vector has a wrong checksum, a wrong size, or not unit length."""
    dimension = found.facts.get("dimension")
    for passage, blob, checksum in _blobs(found, connection, "vectors", "vector"):
        vector = np.frombuffer(blob, dtype="<f4") if len(blob) % 4 == 0 else np.zeros(0, dtype=np.float32)
        length = float(np.linalg.norm(vector.astype(np.float64)))
        is_whole = dimension is None or vector.size == int(dimension)
        is_unit = bool(np.isfinite(length)) and abs(length - 1) <= _LENGTH_TOLERANCE
        if not is_whole or not is_unit or (checksum is not None and zlib.crc32(blob) != checksum):
            yield passage


def _bad_codes(found: Examination, connection: sqlite3.Connection) -> Iterator[int]:
    for passage, blob, checksum in _blobs(found, connection, "tokens", "codes"):
        if checksum is not None and zlib.crc32(blob) != checksum:
            yield passage


def _blobs(
    found: Examination, connection: sqlite3.Connection, table: str, column: str
) -> Iterator[tuple[int, bytes, int | None]]:
    checksum = "checksum" if "checksum" in _columns(connection, table) else "NULL"
    try:
        yield from connection.execute(f"SELECT passage, CAST({column} AS BLOB), {checksum} FROM {table}")
    except sqlite3.DatabaseError as error:
        found.damage.append(f"{table}: {error}")


def _without_terms(found: Examination, connection: sqlite3.Connection) -> list[int]:
    missing = "SELECT row FROM items WHERE row NOT IN (SELECT row FROM passages)"
    try:
        return [row for (row,) in connection.execute(missing)]
    except sqlite3.DatabaseError as error:
        found.damage.append(f"passages: {error}")
        return []


def _leftovers(path: Path) -> list[Path]:
    names = (
        sorted(each for each in path.parent.iterdir() if each.name.startswith(path.name))
        if path.parent.is_dir()
        else []
    )
    return [each for each in names if _UNFINISHED.search(each.name)]
