"""Facts that a SQLite file holds about itself, read without opening the collection in it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from devmem.collections.sqlite.database import APPLICATION_ID, read_meta_unchecked
from devmem.collections.store_facts import StoreFacts


def inspect_file(location: str | Path) -> StoreFacts | None:
    """Return what is recorded in a file; None when there is no such file, or none that devmem can read."""
    path = Path(location)
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
                return None
            meta = read_meta_unchecked(connection)
    except sqlite3.Error:
        # Opening the collection finds out what is wrong, and words it.
        return None
    return StoreFacts(store_type=_text(meta.get("store_type")), model=_text(meta.get("model")))


def _text(value: str | int | None) -> str | None:
    return None if value is None else str(value)
