"""The SQLite file: opening it, creating its schema, its write transactions, and translating SQLite's errors."""

from __future__ import annotations

import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Final, TypeVar
from uuid import uuid4

from devmem.errors import (
    CollectionBusyError,
    CollectionClosedError,
    CollectionDamagedError,
    CollectionError,
    CollectionUnwritableError,
)
from devmem.model.items import MemoryItem
from devmem.models.embedder import ModelIdentity
from devmem.storage.attachments import AttachmentFiles
from devmem.storage.erasure import clean_up
from devmem.storage.protocol import Durability, PreparedItem
from devmem.storage.runs import abandon, read_transaction, write_transaction
from devmem.storage.searching import check_model, check_store_type, is_replaceable
from devmem.storage.sidecar_db import PoolClosedError
from devmem.storage.sqlite.rows import ITEM_CHECKSUM, DamagedRows, define_functions, item_from_row, update_terms
from devmem.storage.sqlite.schema import (
    SCHEMA_VERSION,
    create_tables,
    upgrade_from_1,
    upgrade_from_2,
    upgrade_from_3,
    upgrade_from_4,
)
from devmem.text.analysis import ANALYSIS_VERSION
from devmem.text.cues import cues_of
from devmem.text.files import create_empty

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

KEY: Final = "checksum"


def is_sealed(meta: Mapping[str, object]) -> bool:
    """Whether properties are those of their checksum, or have none."""
    return KEY not in meta or meta[KEY] == _checksum(meta)


def seal(connection: sqlite3.Connection) -> None:
    """Record the checksum of the properties as they are, within the caller's write transaction."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (KEY, _checksum(meta)))


def sealed_transaction(connection: sqlite3.Connection, operation: Callable[[], T]) -> T:
    """Run an operation in a write transaction, and record the checksum of the properties that it leaves."""

    def sealed() -> T:
        result = operation()
        seal(connection)
        return result

    return write_transaction(connection, sealed)


class WriteTransaction:
    """The write transactions of a collection's file, one after another, by its only connection for writing."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        attachments: AttachmentFiles | None,
        prepare: Callable[[sqlite3.Connection], None],
    ) -> None:
        """Take what every transaction uses.

        Args:
            connection: in autocommit mode.
            attachments: files of the collection; None in memory.
            prepare: is called first in each transaction, and refuses it by raising.
        """
        self._connection, self._attachments, self._prepare = connection, attachments, prepare

    def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation under the write lock; commit all that it wrote, or nothing when anything is raised.

        Attachments that no item refers to any more are removed afterwards.
        """
        # Everything is in this one function, which calls the operation: a context manager would leave the transaction
        # open when Ctrl-C comes between its `__enter__` and the block, or at the start of its `__exit__`, and with it
        # every other process locked out.
        connection, attachments = self._connection, self._attachments
        try:
            abandon(connection)
            # The lock is taken before the operation reads: what was read before another process's commit could not be
            # written any more.
            connection.execute("BEGIN IMMEDIATE")
            self._prepare(connection)
            result = operation(connection)
            seal(connection)
            connection.execute("COMMIT")
        except BaseException:
            if attachments is not None:
                attachments.discard_released()
            raise
        finally:
            abandon(connection)
        if attachments is not None and attachments.released:
            self._remove_released(attachments)
        return result

    def _remove_released(self, attachments: AttachmentFiles) -> None:
        def remove() -> None:
            attachments.remove_released(lambda name: is_named(self._connection, name))

        try:
            # Under the write lock: nobody may begin to refer to a file while it is removed.
            write_transaction(self._connection, remove)
        except sqlite3.Error as error:
            # The deletion itself is committed.
            _LOG.warning("%s: attachments of deleted items were not removed (%s).", attachments.folder, error)
            attachments.discard_released()


def is_named(connection: sqlite3.Connection, name: str) -> bool:
    """Whether an item or a version refers to an attachment."""
    query = "SELECT 1 FROM {} WHERE instr(body, ?) LIMIT 1"
    tables = ("items", "versions")
    return any(connection.execute(query.format(table), (name,)).fetchone() is not None for table in tables)


def _checksum(meta: Mapping[str, object]) -> int:
    values = sorted((key, value) for key, value in meta.items() if key != KEY)
    return zlib.crc32(repr(values).encode("utf-8", "surrogatepass"))


MEMORY: Final = ":memory:"
_CACHE_KIB: Final = 16_384
"""Memory for pages; SQLite's own 2 MB do not hold the texts of 10,000 memories."""
APPLICATION_ID: Final = 0x6D656D6F
_TEXT_OR_NONE: Final = (str, NoneType)
_REQUIRED_META: Final[Mapping[str, tuple[type, ...]]] = {
    "store_type": _TEXT_OR_NONE,
    "analysis": (type(ANALYSIS_VERSION),),
    "count": (int,),
    "generation": (int,),
    "changes_floor": (int,),
}
"""Types of the properties that every collection has."""
_CHECKPOINT_ATTEMPTS: Final = 200
_OPTIONAL_META: Final[Mapping[str, tuple[type, ...]]] = {
    "model": _TEXT_OR_NONE,
    "dimension": (int, NoneType),
    "snapshot": _TEXT_OR_NONE,
    "fields": _TEXT_OR_NONE,
}


def prepare_file(location: str) -> None:
    """Create the file and its folder where they are missing, and remove the partial files of killed writers.

    Only SQLite opens a file that is there: closing it elsewhere would release the locks that this process has on it
    (https://www.sqlite.org/howtocorrupt.html, 2.2).

    Raises:
        CollectionDamagedError: the file is gone or empty, but what belongs to it is still there.
        CollectionUnwritableError: the file or its folder cannot be created.
    """
    path = Path(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CollectionUnwritableError(location, f"its folder cannot be made: {error}") from error
    clean_up(Path(location + ".faiss"), Path(location + ".files"))
    _refuse_lost_file(path)
    try:
        create_empty(path)
    except OSError as error:
        raise CollectionUnwritableError(location, f"the file cannot be created: {error}") from error


def _refuse_lost_file(path: Path) -> None:
    """Refuse to start empty where an index snapshot, or a log of commits, shows that the file held items.

    SQLite would delete the log, and with it the commits that could still be rescued.
    """
    if path.exists() and (not path.is_file() or path.stat().st_size):
        return
    for beside in (Path(f"{path}.faiss"), Path(f"{path}-wal")):
        if beside.is_file() and beside.stat().st_size:
            raise CollectionDamagedError(
                path,
                f"the file is {'empty' if path.exists() else 'missing'}, although {beside.name} beside it shows that "
                f"it held items: restore a backup, or remove {beside} to start with an empty store.",
            )


def file_identity(location: str) -> tuple[int, int] | None:
    """Return device and inode of the file at a location, None when there is none; a replaced file has others."""
    try:
        found = Path(location).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_connection(location: str, durability: Durability, busy_timeout: float) -> sqlite3.Connection:
    """Open a connection in autocommit mode; `busy_timeout` is in seconds."""
    connection = sqlite3.connect(
        location, timeout=busy_timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        connection.execute(f"PRAGMA synchronous = {durability.upper()}")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        define_functions(connection)
        # A damaged text need not be UTF-8 any more: that is for the checksums to find.
        connection.text_factory = _decoded
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """Identification of a file."""

    application_id: int
    version: int
    tables: int


def _read_header(connection: sqlite3.Connection) -> _Header:
    queries = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    application_id, version, tables = (connection.execute(query).fetchone()[0] for query in queries)
    return _Header(application_id=application_id, version=version, tables=tables)


def _decoded(text: bytes) -> str:
    return text.decode(errors="replace")


def prepare_schema(connection: sqlite3.Connection, location: str, store_type: str | None) -> None:
    """Create the schema in a new file, or bring an older one up to date.

    Raises:
        CollectionDamagedError: the file is not devmem's, or was cut off.
        CollectionError: it was written by a newer devmem.
    """
    # In one transaction: another process may be creating the file right now.
    header = read_transaction(connection, _read_header, connection)
    _check_header(connection, location, header)
    if header.version == SCHEMA_VERSION:
        return
    if location != MEMORY:
        _enable_wal(connection)
    write_transaction(connection, _create_schema, connection, location, store_type)


def _check_header(connection: sqlite3.Connection, location: str, header: _Header) -> None:
    found, version, tables = header.application_id, header.version, header.tables
    if found not in (0, APPLICATION_ID) or (found == 0 and tables):
        raise CollectionDamagedError(location, "this SQLite file was not made by devmem; give the store another path.")
    if location != MEMORY and _is_cut_off(connection, Path(location)):
        raise CollectionDamagedError(
            location,
            "the file was cut off and was left as it is: restore a backup, or move it away to start with an empty one.",
        )
    if version > SCHEMA_VERSION:
        raise CollectionError(
            location,
            f"was written by a newer devmem (format {version}, known {SCHEMA_VERSION}): upgrade devmem.",
        )


def _create_schema(connection: sqlite3.Connection, location: str, store_type: str | None) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA_VERSION:
        # Another process was faster.
        return
    if version == 1:
        upgrade_from_1(connection, location)
    elif version in (2, 3):
        if version == 2:
            upgrade_from_2(connection)
        upgrade_from_3(connection)
    elif version == 4:
        upgrade_from_4(connection)
    else:
        create_tables(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.executemany("INSERT INTO meta(key, value) VALUES (?, ?)", list(_new_meta(store_type).items()))
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    seal(connection)


def _new_meta(store_type: str | None) -> Mapping[str, str | int | None]:
    return {
        "collection": uuid4().hex,
        "store_type": store_type,
        "analysis": ANALYSIS_VERSION,
        "count": 0,
        "generation": 0,
        "changes_floor": 0,
    }


def _is_cut_off(connection: sqlite3.Connection, path: Path) -> bool:
    # SQLite itself refuses a file that lacks whole pages, but not one that ends within a page.
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    for _ in range(_CHECKPOINT_ATTEMPTS):
        if path.stat().st_size % page_size == 0:
            return False
        # A checkpoint that ran out of space leaves a part of a page, which the log still has as a whole.
        is_busy, _, _ = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        if not is_busy:
            break
        # Another process may be in the middle of a checkpoint.
        time.sleep(0.01)
    return bool(path.stat().st_size % page_size)


def _enable_wal(connection: sqlite3.Connection) -> None:
    # Changing the journal mode ignores the busy timeout, so two processes that make a file at once meet here.
    for attempt in range(200):
        try:
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or attempt == 199:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def translate_errors(location: str) -> Iterator[None]:
    """Raise SQLite's errors as `CollectionError`s, which say what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translated(location, error) from error
    except UnicodeDecodeError as error:
        # `sqlite3` quotes names of a damaged schema in its messages, and raises this where one is not UTF-8.
        raise _damaged(location, "its schema cannot be read") from error
    except PoolClosedError as error:
        raise CollectionClosedError(location, "the collection was closed.") from error


def _translated(location: str, error: sqlite3.Error) -> CollectionError:
    text, code = str(error), getattr(error, "sqlite_errorname", "")
    if code.startswith("SQLITE_FULL") or "disk is full" in text:
        return CollectionUnwritableError(location, "the disk is full; nothing was written. Make room and try again.")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CollectionBusyError(
            location, "another process held the write lock for too long; nothing was written. Try again."
        )
    if code.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        folder = Path(location).parent
        return CollectionUnwritableError(
            location, f"cannot be opened for writing ({text}); check {folder} and its rights."
        )
    if code.startswith("SQLITE_IOERR"):
        return CollectionUnwritableError(location, f"the disk failed ({text}); nothing was written.")
    if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return _damaged(location, text)
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
        return CollectionClosedError(location, "the collection was closed.")
    return CollectionError(location, f"SQLite says: {text}")


def _damaged(location: str, how: str) -> CollectionDamagedError:
    return CollectionDamagedError(
        location,
        f"the file is damaged ({how}) and was left as it is: restore a backup, or move it away to start with an "
        "empty one.",
    )


def set_meta(connection: sqlite3.Connection, key: str, value: str | int | None) -> None:
    """Record a property of the collection."""
    connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", (key, value))


def read_meta(connection: sqlite3.Connection) -> dict[str, str | int | None]:
    """Return every recorded property of the collection.

    Raises:
        sqlite3.DatabaseError: one is missing or is not of its type; `translate_errors` reports it as damage.
    """
    found = read_meta_unchecked(connection)
    for key, kinds in _REQUIRED_META.items():
        if key not in found:
            raise _damaged_meta(f"the property {key!r} is missing")
        _check_property(key, found[key], kinds)
    for key, kinds in _OPTIONAL_META.items():
        _check_property(key, found.get(key), kinds)
    return found


def read_sealed_meta(connection: sqlite3.Connection) -> dict[str, str | int | None]:
    """Return every recorded property as `read_meta` does, compared with their checksum."""
    found = read_meta(connection)
    if not is_sealed(found):
        raise _damaged_meta("the properties of the collection differ from their checksum")
    return found


def read_meta_unchecked(connection: sqlite3.Connection) -> dict[str, str | int | None]:
    """Return every recorded property, as it is found; for examining files that may be damaged or of another format."""
    return dict(connection.execute("SELECT key, value FROM meta"))


def _check_property(key: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds) or (isinstance(value, int) and value < 0):
        raise _damaged_meta(f"the property {key!r} cannot be {value!r}")


def _damaged_meta(what: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(what)
    error.sqlite_errorname = "SQLITE_CORRUPT"
    return error


_CODES: Final = ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def with_room(location: str, delete: Callable[[], T], make_room: Callable[[], None]) -> T:
    """Delete; where the disk is full, make room and try once more.

    Raises:
        CollectionUnwritableError: there is too little room even so; nothing was deleted.
    """
    try:
        return delete()
    except CollectionUnwritableError as error:
        if not _is_full(error):
            raise
    make_room()
    try:
        return delete()
    except CollectionUnwritableError as error:
        if not _is_full(error):
            raise
        raise CollectionUnwritableError(
            location,
            "the disk is full, and a deletion needs some room itself; nothing was deleted. The index snapshot was "
            "removed and the log shortened, which was not enough: free a few megabytes on this disk, or move the file "
            "and those beside it to another one, and delete again.",
        ) from error


def shorten_log(connection: sqlite3.Connection) -> None:
    """Move the log into the database as far as there is room, and cut it off."""
    with suppress(sqlite3.OperationalError):
        # What did not fit stays in the log; the next attempt at writing reports it.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _is_full(error: CollectionUnwritableError) -> bool:
    return getattr(error.__cause__, "sqlite_errorname", "") in _CODES


_ITEM_TABLES: Final = ("items", "versions")


def refresh_analysis(connection: sqlite3.Connection, damaged: DamagedRows) -> None:
    """Replace terms and cues of every item when they are of another version of the text analysis."""
    if read_meta(connection)["analysis"] == ANALYSIS_VERSION:
        return
    for table in _ITEM_TABLES:
        select = f"SELECT row, CAST(body AS BLOB), body_checksum FROM {table}"
        for row, *rest in connection.execute(select).fetchall():
            if (item := item_from_row(damaged, row, *rest)) is not None:
                _refresh_passages(connection, row, item)
                _refresh_cues(connection, table, row, item)
    set_meta(connection, "analysis", ANALYSIS_VERSION)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def _refresh_passages(connection: sqlite3.Connection, row: int, item: MemoryItem) -> None:
    passages = connection.execute("SELECT passage FROM passages WHERE row = ? ORDER BY passage", (row,)).fetchall()
    for (passage,), encoded in zip(passages, PreparedItem.of(item).terms(), strict=True):
        update_terms(connection, passage, row, encoded)


def _refresh_cues(connection: sqlite3.Connection, table: str, row: int, item: MemoryItem) -> None:
    """Replace an item's cues, unless its columns are damaged: a new checksum would hide that."""
    intact = f"row = ? AND {ITEM_CHECKSUM} = columns_checksum"
    values = (int(cues_of(item.content_summary)), row)
    if connection.execute(f"UPDATE {table} SET cues = ? WHERE {intact}", values).rowcount:
        connection.execute(f"UPDATE {table} SET columns_checksum = {ITEM_CHECKSUM} WHERE row = ?", (row,))


def claim_file(
    connection: sqlite3.Connection,
    location: str,
    model: ModelIdentity | None,
    store_type: str | None,
    damaged: DamagedRows,
) -> bool:
    """Check that file, store type and model belong together, and record those that were not known yet.

    Return whether the collection has a model.

    Raises:
        CollectionInUseError: the file belongs to another store type.
        EmbeddingMismatchError: its embeddings are of another model.
    """
    meta = read_sealed_meta(connection)
    owner = meta["store_type"]
    check_store_type(location, owner=None if owner is None else str(owner), wanted=store_type)
    if _is_recorded(meta, model, store_type) and not _replaceable(meta, model):
        # Opening takes no write lock then: it does not wait for another process.
        return _claim_model(connection, location, model)

    def record() -> bool:
        if store_type and not owner:
            set_meta(connection, "store_type", store_type)
        refresh_analysis(connection, damaged)
        return _claim_model(connection, location, model)

    return sealed_transaction(connection, record)


def _is_recorded(meta: Mapping[str, str | int | None], model: ModelIdentity | None, store_type: str | None) -> bool:
    """Whether nothing about the collection is left to record."""
    return (
        meta["analysis"] == ANALYSIS_VERSION
        and (store_type is None or meta["store_type"] is not None)
        and (model is None or meta.get("model") is not None)
    )


def _replaceable(meta: Mapping[str, str | int | None], model: ModelIdentity | None) -> bool:
    recorded, dimension = meta.get("model"), meta.get("dimension")
    return is_replaceable(
        model,
        recorded=None if recorded is None else str(recorded),
        dimension=None if dimension is None else int(dimension),
    )


def _claim_model(connection: sqlite3.Connection, location: str, model: ModelIdentity | None) -> bool:
    """Record the model of a collection that has none, or compare; return whether there is a model now."""
    meta = read_meta(connection)
    recorded = meta.get("model")
    if model is None:
        return recorded is not None
    if recorded is None or _replaceable(meta, model):
        set_meta(connection, "model", model.name)
        set_meta(connection, "dimension", model.dimension)
        return True
    dimension = meta.get("dimension")
    check_model(location, model, recorded=str(recorded), dimension=None if dimension is None else int(dimension))
    return True
