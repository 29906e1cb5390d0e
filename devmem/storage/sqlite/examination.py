"""Examining a collection's file without changing it: its structure, counts, orphans, leftovers and readable items.

The file is opened read-only, so a damaged one stays unchanged; whatever SQLite cannot read is skipped and reported.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from devmem.encryption.files import connect, diagnose
from devmem.errors import CollectionDamagedError, CollectionError, Finding
from devmem.model.items import MemoryItem, load_item_json, why_unreadable
from devmem.model.results import Fact, FileReport, damage, refused_embeddings, unfinished
from devmem.storage.attachments import inlined
from devmem.storage.opening import StoreMetadata
from devmem.storage.properties import WORDS_ONLY
from devmem.storage.protocol import StateKey
from devmem.storage.sqlite.compact_rows import PASSAGE_OF_PART
from devmem.storage.sqlite.database import (
    APPLICATION_ID,
    columns_of_items,
    has_log,
    is_read_only,
    lost_log_error,
    read_header,
    read_meta,
    read_only_uri,
    translate_errors,
)
from devmem.storage.sqlite.predicates import SqliteDialect
from devmem.storage.sqlite.tables import SqliteTables, fetch_items
from devmem.storage.tables import NOW
from devmem.storage.writing import PreparedItem, missing_columns
from devmem.text.files import remove_leftovers

_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part$")
_MAX_MESSAGES: Final = 20
"""Maximum number of SQLite's own messages that are kept."""
_SHOWN: Final = 20
"""Maximum number of unreadable items that are listed."""
_BUSY_SECONDS: Final = 5.0
_COUNTED: Final = {
    "items": f"SELECT count(*) FROM items WHERE {NOW}",
    "passages": "SELECT count(*) FROM passages",
    "vectors": "SELECT count(*) FROM vectors",
    "tokens": f"SELECT count(DISTINCT {PASSAGE_OF_PART}) FROM tokens",
    # Without a model items are marked too, in case one is added; nothing waits.
    "waiting": f"SELECT count(*) FROM items WHERE {NOW} AND waiting "
    "AND EXISTS (SELECT 1 FROM meta WHERE key = 'model' AND value IS NOT NULL)",
}
_ORPHANS: Final = {
    "passages without an item": ("passages", "row NOT IN (SELECT row FROM items)"),
    "vectors without a passage": ("vectors", "passage NOT IN (SELECT passage FROM passages)"),
    "token codes without a passage": ("tokens", f"{PASSAGE_OF_PART} NOT IN (SELECT passage FROM passages)"),
    "attachments that no item uses": ("attachments", "sha256 NOT IN (SELECT sha256 FROM attachment_uses)"),
}
"""Rows that belong to nothing: table and condition, by what they are."""
_WITHOUT_TERMS: Final = "SELECT row FROM items WHERE row NOT IN (SELECT row FROM passages) AND operation <> 'forget'"


@dataclass(slots=True, kw_only=True)
class Examination:
    """The state of a collection's file."""

    path: Path
    facts: dict[str, Fact] = field(default_factory=dict)
    """Type and model of the store; numbers of items, passages, vectors, token codes, and items that are `waiting`."""
    damage: list[str] = field(default_factory=list)
    """Messages of SQLite about the file's structure; a file with any is never changed."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Items that cannot be read, by row number, and why."""
    others: list[Finding] = field(default_factory=list)
    """Attachments that are missing or have another content, and items that the model does not embed."""
    without_terms: list[int] = field(default_factory=list)
    """Versions, by row number, without any passage: no search finds them."""
    orphans: dict[str, int] = field(default_factory=dict)
    """Numbers of rows that belong to nothing, by what they are."""


def examine(path: Path) -> Examination:
    """Examine a file; a damaged one is reported, not refused.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
    """
    found = Examination(path=path)
    with closing(connect_read_only(path)) as connection:
        try:
            meta = read_meta(connection)
            found.facts = {key: meta.get(key) for key in ("store_type", "model")}
            messages = connection.execute(f"PRAGMA integrity_check({_MAX_MESSAGES})")
            found.damage = [message for (message,) in messages if message != "ok"]
            if problem := missing_columns(columns_of_items(connection)):
                found.damage.append(problem)
        except sqlite3.DatabaseError as error:
            found.damage = [str(error)]
        try:
            _read_tables(found, connection)
        except sqlite3.DatabaseError as error:
            found.damage.append(str(error))
        for _ in _read_items(connection, found.unreadable):
            pass
    return found


def _read_tables(found: Examination, connection: sqlite3.Connection) -> None:
    """Count rows, and compare the tables with one another and with the attachments.

    Raises:
        sqlite3.DatabaseError: one cannot be read.
    """
    for name, query in _COUNTED.items():
        (found.facts[name],) = connection.execute(query).fetchone()
    for name, (table, condition) in _ORPHANS.items():
        (number,) = connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()
        if number:
            found.orphans[name] = number
    found.without_terms = [row for (row,) in connection.execute(_WITHOUT_TERMS)]
    used = "(SELECT DISTINCT sha256 FROM attachment_uses) LEFT JOIN attachments USING (sha256)"
    for name, content in connection.execute(f"SELECT sha256, content FROM {used}"):
        if content is None:
            found.others.append(damage(f"attachment {name}: it is missing"))
        elif hashlib.sha256(content).hexdigest() != name:
            found.others.append(damage(f"attachment {name}: it has another content"))
    refused = f"SELECT id, refusal FROM items WHERE {NOW} AND waiting AND refusal IS NOT NULL ORDER BY row"
    found.others += refused_embeddings(dict(connection.execute(refused).fetchall()))


def readable_items(path: Path, unreadable: dict[int, str]) -> Iterator[MemoryItem]:
    """Yield every item that can be read, in the order in which they were stored, with attachments that can be read.

    `unreadable` gets the row numbers of the others, with the reasons.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
    """
    with closing(connect_read_only(path)) as connection:

        def contents(names: Sequence[str]) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for name in names:
                with suppress(sqlite3.DatabaseError):
                    found |= connection.execute("SELECT sha256, content FROM attachments WHERE sha256 = ?", (name,))
            return found

        for item in _read_items(connection, unreadable):
            yield from inlined([item], contents)


def _read_items(connection: sqlite3.Connection, unreadable: dict[int, str]) -> Iterator[MemoryItem]:
    select = f"SELECT id, CAST(body AS BLOB) FROM items WHERE row = ? AND {NOW}"
    for row in _rows(connection):
        try:
            name, body = connection.execute(select, (row,)).fetchone() or (None, None)
            if body is None:
                continue
            item = load_item_json(body)
        except (sqlite3.DatabaseError, ValidationError, ValueError) as error:
            unreadable[row] = why_unreadable(error)
            continue
        if item.id == name:
            yield item
        else:
            unreadable[row] = f"the row of item {name!r} holds item {item.id!r}"


def _rows(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the row numbers of items; where a page cannot be read, every number up to the highest that was given."""
    try:
        yield from [row for (row,) in connection.execute("SELECT row FROM items ORDER BY row")]
    except sqlite3.DatabaseError:
        highest = 0
        with suppress(sqlite3.DatabaseError):
            query = "SELECT COALESCE(max(seq), 0) FROM sqlite_sequence WHERE name = 'items'"
            (highest,) = connection.execute(query).fetchone()
        yield from range(1, highest + 1)


def _refuse_lost_log(path: Path) -> None:
    """Refuse a file without tables that has been used with a log, before a log is made by reading it."""
    # A file that this process has open has a log: closing it here would release SQLite's locks on it, and another
    # process would remove that log (https://www.sqlite.org/howtocorrupt.html, 2.2).
    if has_log(str(path)):
        return
    with path.open("rb") as file:
        # SQLite's header has there by which version of its formats the file is written and read: 2 is with a log.
        is_used_with_log = file.read(20)[18:] == b"\x02\x02"
    if not is_used_with_log:
        return
    with translate_errors(str(path)), closing(connect(path, uri=read_only_uri(str(path)))) as connection:
        if not read_header(connection).tables:
            raise lost_log_error(str(path))


def connect_read_only(path: Path) -> sqlite3.Connection:
    """Open a file of devmem read-only.

    Raises:
        FileNotFoundError: there is no such file.
        CollectionDamagedError: it is not a file of devmem, or not even its first page can be read.
        CollectionUnwritableError: its log can only be read where it can be written.
        CollectionBusyError: another process has locked it.
    """
    if not path.is_file():
        raise FileNotFoundError(2, "No such file", str(path))
    _refuse_lost_log(path)
    is_on_read_only = is_read_only(str(path))
    # Elsewhere SQLite makes a log, by which other processes see that the file is read.
    uri = read_only_uri(str(path)) if is_on_read_only else f"{path.absolute().as_uri()}?mode=ro"
    connection = connect(path, uri=uri)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        is_empty = connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone() is None
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if (refused := diagnose(path)) is not None:
            raise refused from error
        if is_on_read_only or "locked" in str(error):
            with translate_errors(str(path)):  # The file may be sound: locked, or on a read-only disk with a log.
                raise
        raise CollectionDamagedError(path, f"cannot be read at all ({error}); restore a backup.") from error
    if application != APPLICATION_ID:
        connection.close()
        # Whoever read it before has left an empty log.
        if is_empty and mode == "wal":
            raise lost_log_error(str(path))
        raise CollectionDamagedError(path, "is not a file of devmem.")
    # A damaged text need not be UTF-8.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def repair(examined: Examination) -> list[str]:
    """Rebuild what an examination found wrong and return what was done, one line each.

    Orphans and leftovers are deleted, and versions without terms get theirs again.
    Items that cannot be read stay as they are. The indexes are built again by the next opening.

    Raises:
        CollectionDamagedError: the structure of the file is damaged; nothing was changed.
        CollectionError: it cannot be written.
    """
    path = examined.path
    if examined.damage:
        raise CollectionDamagedError(
            path, "its structure is damaged, so that a repair could lose more; it was left unchanged. Save what can be "
            "read with --salvage, or restore a backup.",
        )  # fmt: skip
    done: list[str] = []
    with translate_errors(str(path)), closing(connect(path, timeout=_BUSY_SECONDS)) as connection, connection:
        connection.execute("BEGIN IMMEDIATE")
        for kind, count in examined.orphans.items():
            table, condition = _ORPHANS[kind]
            connection.execute(f"DELETE FROM {table} WHERE {condition}")
            done.append(f"{count:,} {kind} were deleted")
        if given := _give_terms(connection, examined):
            done.append(f"{given:,} items without terms got theirs again")
        if done:
            # Indexes in memory and on disk were built from the old rows.
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    if removed := remove_leftovers(path):
        done.append(f"{removed:,} leftover files were removed")
    return done


def _give_terms(connection: sqlite3.Connection, examined: Examination) -> int:
    """Insert the passages of versions that have none, which wait for new embeddings; return their number."""
    given = [row for row in examined.without_terms if row not in examined.unreadable]
    items = fetch_items(connection, given)
    tables = SqliteTables(connection, str(examined.path), SqliteDialect(), frozenset())
    tables.replace_passages({row: PreparedItem.of(item) for row, item in items.items()})
    waiting = "UPDATE items SET waiting = 1 WHERE row IN (SELECT value FROM json_each(?))"
    connection.execute(waiting, (json.dumps(given),))
    return len(given)


def read_states(path: Path) -> dict[StateKey, bytes]:
    """Return the further values of a store in its file; none where the file cannot be read, which its report says."""
    try:
        with closing(connect_read_only(path)) as connection:
            rows = connection.execute("SELECT kind, name, CAST(value AS BLOB) FROM states ORDER BY kind, name")
            return {(kind, name): value for kind, name, value in rows}
    except (OSError, CollectionError, sqlite3.DatabaseError):
        return {}


def report_of(found: Examination) -> FileReport:
    """Return the report of an examination."""
    findings = [damage(f"structure: {message}") for message in found.damage]
    findings += [damage(f"row {row} cannot be read: {why}") for row, why in islice(found.unreadable.items(), _SHOWN)]
    if len(found.unreadable) > _SHOWN:
        findings.append(damage(f"and {len(found.unreadable) - _SHOWN:,} more items cannot be read"))
    if count := len(found.without_terms):
        findings.append(damage(f"{count:,} item{'' if count == 1 else 's'} without terms, which no search finds"))
    findings += found.others
    findings += [unfinished(f"{count:,} {kind}") for kind, count in found.orphans.items()]
    beside = sorted(each.name for each in found.path.parent.glob("*") if each.name.startswith(found.path.name))
    findings += [unfinished(f"leftover of a killed writer: {name}") for name in beside if _UNFINISHED.search(name)]
    return FileReport(path=str(found.path), kind="collection", facts=found.facts, findings=findings)


def inspect_file(location: str | Path) -> StoreMetadata | None:
    """Return what is recorded in a file; None when there is no such file, or it is empty or another program's.

    Raises:
        CollectionError: the file is damaged, locked or encrypted with another key, or the disk fails.
    """
    path = Path(location)
    while path.is_file():
        state = _state_of(path)
        try:
            with translate_errors(str(path)):
                return _recorded(path)
        except CollectionError:
            # A file without a log is read without locks: another process may just be creating it.
            if _state_of(path) == state:
                raise
    return None


def _state_of(path: Path) -> tuple[int, int, bool] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, has_log(str(path))


def _recorded(path: Path) -> StoreMetadata | None:
    # It must not leave a log behind, by whose absence a file that was moved away from its own is known.
    with closing(connect(path, uri=read_only_uri(str(path)), timeout=_BUSY_SECONDS)) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            return None
        meta = read_meta(connection)
    store_type, model = (None if (value := meta.get(key)) is None else str(value) for key in ("store_type", "model"))
    return StoreMetadata(store_type=store_type, model=model, words_only=model is None and bool(meta.get(WORDS_ONLY)))
