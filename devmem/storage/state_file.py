"""Values of a store in a SQLite file beside its items, for places that keep items alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from devmem.errors import CollectionClosedError, CollectionUnwritableError
from devmem.model.items import encodable, original
from devmem.storage.erasure import Residue
from devmem.storage.protocol import StateKey
from devmem.storage.sidecar_db import PoolClosedError, SidecarDb, write_transaction

TABLE: Final = "store_states"
"""Table by which such a file is known."""
_SCHEMA: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE}(kind TEXT NOT NULL, name TEXT NOT NULL, value BLOB NOT NULL, "
    "PRIMARY KEY (kind, name)) WITHOUT ROWID"
)
T = TypeVar("T")


class StateFile:
    """The values of one store in a file, or in this process; `StateValues` documents the methods."""

    def __init__(self, file: Path | None) -> None:
        """Name the file, which the first write creates; None keeps the values for this process only."""
        self.file: Final = file
        self._place = str(file) if file else "this process's memory"
        self._db = SidecarDb(file, _prepare)

    def get(self, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
        """Return the values that are there."""
        return {} if self._db.is_absent else self._run(lambda db: _read(db, keys))

    def scan(self, kind: str) -> Iterator[tuple[str, bytes]]:
        """Return all values of a kind."""
        if self._db.is_absent:
            return iter(())
        query = f"SELECT name, value FROM {TABLE} WHERE kind = ? ORDER BY name"  # noqa: S608 - a constant
        found = self._run(lambda db: db.execute(query, (kind,)).fetchall())
        return ((original(name), bytes(value)) for name, value in found)

    def write(
        self, values: Mapping[StateKey, bytes | None], *, expected: Mapping[StateKey, bytes | None] | None = None
    ) -> bool:
        """Write values in one transaction."""

        def write(db: sqlite3.Connection) -> bool:
            there = _read(db, list(expected)) if expected else {}
            if any(there.get(key) != value for key, value in (expected or {}).items()):
                return False
            gone = [_row(key) for key, value in values.items() if value is None]
            kept = [(*_row(key), value) for key, value in values.items() if value is not None]
            db.executemany(f"DELETE FROM {TABLE} WHERE kind = ? AND name = ?", gone)  # noqa: S608 - a constant
            db.executemany(f"INSERT OR REPLACE INTO {TABLE}(kind, name, value) VALUES (?, ?, ?)", kept)  # noqa: S608
            return True

        return self._run(lambda db: write_transaction(db, write, db))

    def rewrite(self) -> list[Residue]:
        """Rewrite the file, so that nothing of what was deleted is left in it; return what could not be reached."""
        return self._translated(self._db.rewrite)

    def close(self) -> None:
        """Release the file; it cannot be used afterwards. Closing twice is allowed."""
        self._db.close()

    def _run(self, action: Callable[[sqlite3.Connection], T]) -> T:
        return self._translated(lambda: self._db.run(action))

    def _translated(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except PoolClosedError as error:
            raise CollectionClosedError(self._place, "the store was closed.") from error
        except (sqlite3.Error, OSError) as error:
            raise CollectionUnwritableError(self._place, str(error)) from error


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(_SCHEMA)


def _read(db: sqlite3.Connection, keys: Sequence[StateKey]) -> dict[StateKey, bytes]:
    query = f"SELECT value FROM {TABLE} WHERE kind = ? AND name = ?"  # noqa: S608 - a constant
    found = ((key, db.execute(query, _row(key)).fetchone()) for key in keys)
    return {key: bytes(row[0]) for key, row in found if row is not None}


def _row(key: StateKey) -> StateKey:
    kind, name = key
    return kind, encodable(name)
