"""Examining a collection's file without changing it: counts, checksums, orphans, leftovers and readable items.

The file is opened read-only, so a damaged one stays unchanged; whatever SQLite cannot read is skipped and reported.
"""

from __future__ import annotations

import hashlib
import json
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

from devmem.encryption import connect, diagnose
from devmem.errors import CollectionDamagedError, CollectionError, Finding
from devmem.model.items import MemoryItem, load_item_json, original, why_unreadable
from devmem.model.results import Fact, FileReport, damage, refused_embeddings, unfinished
from devmem.storage.attachments import stored_names
from devmem.storage.opening import StoreMetadata
from devmem.storage.sqlite.claim import WORDS_ONLY
from devmem.storage.sqlite.compact_rows import PASSAGE_OF_PART, joined_codes
from devmem.storage.sqlite.database import (
    APPLICATION_ID,
    has_log,
    is_read_only,
    is_sealed,
    lost_log_error,
    read_header,
    read_meta_unchecked,
    read_only_uri,
    seal,
    translate_errors,
)
from devmem.storage.sqlite.rows import (
    BODY_CHECKSUM,
    CHANGE_CHECKSUMS,
    ITEM_CHECKSUM,
    PASSAGE_CHECKSUM,
    checksum_of_vector,
    decode_vectors,
    define_functions,
    insert_item,
    item_values,
)
from devmem.storage.writing import PreparedItem
from devmem.text.files import remove_leftovers

_PART: Final = 1 << 20
"""Bytes of an attachment that are read at once."""
_CHECKS: Final = {
    "items": f"{ITEM_CHECKSUM} IS NOT columns_checksum",
    "passages": f"{PASSAGE_CHECKSUM} IS NOT checksum",
    "versions": f"{ITEM_CHECKSUM} IS NOT columns_checksum OR {BODY_CHECKSUM} IS NOT body_checksum",
}
ROWS_OF_VERSIONS: Final = "SELECT row FROM items UNION ALL SELECT row FROM versions"
"""Query of the row numbers of items and of their versions."""
_EMBEDDED: Final = (("vectors", "passage"), ("tokens", PASSAGE_OF_PART))
"""Tables of embeddings, each with the expression of a row's passage."""
_KEYS: Final = {"items": "row", "passages": "passage", "versions": "row"}


def damaged_rows(connection: sqlite3.Connection, table: str) -> list[int]:
    """Return the numbers of a table's rows whose checksum differs.

    Raises:
        sqlite3.DatabaseError: the table cannot be read.
    """
    check = _CHECKS[table]
    if table in CHANGE_CHECKSUMS:
        check += f" OR {CHANGE_CHECKSUMS[table]} IS NOT COALESCE(change_checksum, {CHANGE_CHECKSUMS[table]})"
    return [row for (row,) in connection.execute(f"SELECT {_KEYS[table]} FROM {table} WHERE {check}")]


def check_attachments(connection: sqlite3.Connection, folder: Path) -> list[Finding]:
    """Compare the attachments that items and versions name with the files in a folder, by their SHA-256.

    Raises:
        sqlite3.DatabaseError: a table cannot be read.
    """
    named: set[str] = set()
    for table in ("items", "versions"):
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            query = f"SELECT CAST(body AS BLOB) FROM {table} WHERE instr(body, '.files/')"
            named.update(name for (body,) in connection.execute(query) for name in stored_names(body.decode("latin-1")))
    return [damage(f"attachment {name}: {problem}") for name in sorted(named) if (problem := _problem(folder / name))]


def _problem(file: Path) -> str:
    """Return why an attachment is not what it was; empty when it is."""
    digest = hashlib.sha256()
    try:
        with file.open("rb") as content:
            while part := content.read(_PART):
                digest.update(part)
    except FileNotFoundError:
        return "the file is missing"
    except OSError as error:
        return f"the file cannot be read: {error.strerror or error}"
    return "" if digest.hexdigest() == file.name else "the file has another content"


_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{32}\.part$")
_MAX_MESSAGES: Final = 20
"""Maximum number of SQLite's own messages that are kept."""
_LENGTH_TOLERANCE: Final = 0.01
_ORPHANS: Final = {
    "passages without an item": "passages WHERE row NOT IN ({rows})",
    "vectors without a passage": "vectors WHERE passage NOT IN (SELECT passage FROM passages)",
    "token codes without a passage": "tokens WHERE {passage} NOT IN (SELECT passage FROM passages)",
}
"""Rows that belong to nothing, by what they are; `rows` selects the items and their versions,
`passage` is that of a row of token codes."""


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
    refused: dict[str, str] = field(default_factory=dict)
    """Why the model does not embed items that wait by themselves, by id."""
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
        for table in ("items", "passages", "vectors"):
            _count(found, connection, table, table)
        _count(found, connection, "tokens", "tokens", f"DISTINCT {PASSAGE_OF_PART}")
        # Without a model items are marked too, in case one is added; nothing waits.
        _count(found, connection, "waiting", f"items WHERE waiting AND {bool(found.facts.get('model'))}")
        for name, rows in _ORPHANS.items():
            counted = f"DISTINCT {PASSAGE_OF_PART}" if rows.startswith("tokens") else "*"
            named = rows.format(rows=ROWS_OF_VERSIONS, passage=PASSAGE_OF_PART)
            if number := _number(found, connection, named, counted):
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
        refused = connection.execute("SELECT id, refusal FROM items WHERE waiting AND refusal IS NOT NULL ORDER BY row")
        found.refused = {original(item_id): reason for item_id, reason in refused}
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
    select = "SELECT id, CAST(body AS BLOB), body_checksum FROM items WHERE row = ?"
    for row in _rows(connection):
        try:
            name, body, checksum = connection.execute(select, (row,)).fetchone() or (None, None, None)
            if body is None:
                continue
            item = load_item_json(body)
        except (sqlite3.DatabaseError, ValidationError, ValueError) as error:
            unreadable[row] = why_unreadable(error)
            continue
        if zlib.crc32(body) != checksum:
            unreadable[row] = f"the checksum of item {name!r} differs"
        elif item.id != name:
            unreadable[row] = f"the row of item {name!r} holds item {item.id!r}"
        else:
            yield item


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
        connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
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


def _count(found: Examination, connection: sqlite3.Connection, name: str, rows: str, counted: str = "*") -> None:
    if (number := _number(found, connection, rows, counted)) is not None:
        found.counts[name] = number


def _number(found: Examination, connection: sqlite3.Connection, rows: str, counted: str) -> int | None:
    try:
        return int(connection.execute(f"SELECT count({counted}) FROM {rows}").fetchone()[0])
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


def _bad_vectors(found: Examination, connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the passages whose vector has a wrong checksum, a wrong size, or not unit length."""
    dimension = found.facts.get("dimension")
    for passage, blob, checksum in _vectors(found, connection):
        vector = decode_vectors([blob])[0] if blob else np.zeros(0, dtype=np.float32)
        length = float(np.linalg.norm(vector.astype(np.float64)))
        is_whole = dimension is None or vector.size == int(dimension)
        is_unit = bool(np.isfinite(length)) and abs(length - 1) <= _LENGTH_TOLERANCE
        if not is_whole or not is_unit or (checksum is not None and checksum_of_vector(blob) != checksum):
            yield passage


def _vectors(found: Examination, connection: sqlite3.Connection) -> Iterator[tuple[int, bytes, int | None]]:
    try:
        yield from connection.execute("SELECT passage, CAST(vector AS BLOB), checksum FROM vectors")
    except sqlite3.DatabaseError as error:
        found.damage.append(f"vectors: {error}")


def _bad_codes(found: Examination, connection: sqlite3.Connection) -> Iterator[int]:
    try:
        parts = connection.execute(f"SELECT {PASSAGE_OF_PART}, codes, checksum FROM tokens ORDER BY rowid")
        yield from (passage for passage, codes in joined_codes(parts) if codes is None)
    except sqlite3.DatabaseError as error:
        found.damage.append(f"tokens: {error}")


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


_BUSY_SECONDS: Final = 5.0
_PASSAGES_OF: Final = "SELECT passage FROM passages WHERE row = ?"
_WITHOUT_PASSAGES: Final = "SELECT row FROM items WHERE row NOT IN (SELECT row FROM passages)"
_ITEM_OF: Final = "SELECT row FROM passages WHERE passage = ?"


def repair(examined: Examination) -> list[str]:
    """Rebuild what an examination found wrong and return what was done, one line each.

    Orphans and leftovers are deleted, the number of items is corrected, items without terms or with damaged rows are
    stored again, and those with damaged vectors wait for new ones. Items that cannot be read stay as they are. The
    snapshot of the indexes is rebuilt by the next opening.

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
        done += _delete_orphans(connection, examined)
        done += _drop_vectors(connection, examined)
        if examined.miscounted:
            connection.execute("UPDATE meta SET value = (SELECT count(*) FROM items) WHERE key = 'count'")
            done.append("the number of items was corrected")
        done += _store_again(connection, examined.without_terms, examined, "without terms")
        done += _store_again(connection, _damaged(connection, examined), examined, "with damaged rows")
        if examined.unsealed:
            done.append("the checksum of the recorded properties was renewed; compare them with the workflow's")
        if done:
            # Indexes in memory and on disk were built from the old rows.
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
            seal(connection)
    if removed := remove_leftovers(path):
        done.append(f"{removed:,} leftover files were removed")
    return done


def _delete_orphans(connection: sqlite3.Connection, examined: Examination) -> list[str]:
    if not examined.orphans:
        return []
    connection.execute(f"DELETE FROM passages WHERE row NOT IN ({ROWS_OF_VERSIONS})")
    for table, passage in _EMBEDDED:
        connection.execute(f"DELETE FROM {table} WHERE {passage} NOT IN (SELECT passage FROM passages)")
    return [f"{count:,} {kind} were deleted" for kind, count in examined.orphans.items()]


def _damaged(connection: sqlite3.Connection, examined: Examination) -> list[int]:
    """Return the items with damaged columns or passages, whose bodies are intact."""
    rows = set(examined.bad_columns)
    rows |= {row for passage in examined.bad_passages for (row,) in connection.execute(_ITEM_OF, (passage,))}
    # A passage whose own reference to its item is what was damaged would be left behind.
    bad = json.dumps(sorted(examined.bad_passages))
    for table, passage in (*_EMBEDDED, ("passages", "passage")):
        connection.execute(f"DELETE FROM {table} WHERE {passage} IN (SELECT value FROM json_each(?))", (bad,))
    rows |= {row for (row,) in connection.execute(_WITHOUT_PASSAGES)}
    return sorted(rows)


def _store_again(connection: sqlite3.Connection, rows: list[int], examined: Examination, kind: str) -> list[str]:
    """Store items again, as the newest: the numbers of passages follow those of items."""
    stored = 0
    for row in rows:
        found = connection.execute("SELECT CAST(body AS BLOB) FROM items WHERE row = ?", (row,)).fetchone()
        if found is None or row in examined.unreadable:
            continue
        connection.execute("DELETE FROM items WHERE row = ?", (row,))
        prepared = PreparedItem.of(load_item_json(found[0]))
        values = item_values(prepared, prepared.item, waiting=bool(examined.facts.get("model")))
        insert_item(connection, prepared, values)
        stored += 1
    return [f"{stored:,} items {kind} were stored again"] if stored else []


def _drop_vectors(connection: sqlite3.Connection, examined: Examination) -> list[str]:
    """Delete every vector of the items with a damaged one, so that they wait for new ones."""
    rows = {row for passage in examined.bad_vectors for (row,) in connection.execute(_ITEM_OF, (passage,))}
    found = json.dumps(sorted(rows))
    of_items = "SELECT passage FROM passages WHERE row IN (SELECT value FROM json_each(?))"
    for table, passage in _EMBEDDED:
        connection.execute(f"DELETE FROM {table} WHERE {passage} IN ({of_items})", (found,))
    connection.execute("UPDATE items SET waiting = 1 WHERE row IN (SELECT value FROM json_each(?))", (found,))
    return [f"{len(rows):,} items with damaged vectors wait for new ones"] if rows else []


_SHOWN: Final = 20
"""Maximum number of unreadable items that are listed."""


def report_of(found: Examination) -> FileReport:
    """Return the report of an examination."""
    facts: dict[str, Fact] = {key: found.facts.get(key) for key in ("store_type", "model")}
    facts.update(found.counts)
    return FileReport(path=str(found.path), kind="collection", facts=facts, findings=list(_findings(found)))


def _findings(found: Examination) -> Iterator[Finding]:
    yield from (damage(f"structure: {message}") for message in found.damage)
    for row, reason in list(found.unreadable.items())[:_SHOWN]:
        yield damage(f"row {row} cannot be read: {reason}")
    if len(found.unreadable) > _SHOWN:
        yield damage(f"and {len(found.unreadable) - _SHOWN:,} more items cannot be read")
    yield from (damage(text) for text in _rebuildable(found))
    if found.bad_versions:
        yield damage(f"{len(found.bad_versions):,} versions with damaged rows, which no history shows")
    yield from found.attachments
    yield from refused_embeddings(found.refused)
    yield from (unfinished(f"{count:,} {kind}") for kind, count in found.orphans.items())
    yield from (unfinished(f"leftover of a killed writer: {path.name}") for path in found.leftovers)


def _rebuildable(found: Examination) -> Iterator[str]:
    """Yield damage of what is made from the items."""
    for rows, thing, problem in (
        (found.bad_vectors, "passage", "with damaged vectors"),
        (found.bad_passages, "passage", "with damaged terms"),
        (found.bad_columns, "item", "with damaged columns, which no search finds"),
        (found.without_terms, "item", "without terms, which no search finds"),
    ):
        if rows:
            yield f"{len(rows):,} {thing if len(rows) == 1 else thing + 's'} {problem}"
    if found.unsealed:
        yield "the recorded properties of the collection (store type, model, ...) differ from their checksum"
    if found.miscounted:
        yield f"{found.facts['count']} items are recorded, {found.counts['items']:,} are there"


def inspect_file(location: str | Path, *, busy_timeout: float = 5.0) -> StoreMetadata | None:
    """Return what is recorded in a file; None when there is no such file, or it is empty or another program's.

    Args:
        location: path of the file.
        busy_timeout: maximum number of seconds to wait for another process that has locked the file.

    Raises:
        CollectionError: the file is damaged, locked or encrypted with another key, or the disk fails.
    """
    path = Path(location)
    while path.is_file():
        state = _state_of(path)
        try:
            with translate_errors(str(path)):
                return _recorded(path, busy_timeout)
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


def _recorded(path: Path, busy_timeout: float) -> StoreMetadata | None:
    # It must not leave a log behind, by whose absence a file that was moved away from its own is known.
    with closing(connect(path, uri=read_only_uri(str(path)), timeout=busy_timeout)) as connection:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            return None
        meta = read_meta_unchecked(connection)
    model = _text(meta.get("model"))
    words_only = model is None and bool(meta.get(WORDS_ONLY))
    return StoreMetadata(store_type=_text(meta.get("store_type")), model=model, words_only=words_only)


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
