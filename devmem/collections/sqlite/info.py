"""Size, model and counts of a SQLite collection."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from devmem.collections.protocol import CollectionInfo
from devmem.collections.sqlite.database import MEMORY, read_meta


def read_info(connection: sqlite3.Connection, location: str) -> CollectionInfo:
    """Return what the database and its files report; the size is without attachments."""
    meta = read_meta(connection)
    (waiting,) = connection.execute("SELECT count(*) FROM items WHERE waiting").fetchone()
    model, dimension = meta.get("model"), meta.get("dimension")
    return CollectionInfo(
        location=location,
        items=int(meta["count"] or 0),
        waiting=int(waiting) if model else 0,
        size_bytes=0 if location == MEMORY else _size_bytes(location),
        embedding=str(model) if model else None,
        dimension=int(dimension) if dimension else None,
    )


def _size_bytes(location: str) -> int:
    files = (Path(location + suffix) for suffix in ("", "-wal", ".faiss"))
    return sum(file.stat().st_size for file in files if file.exists())
