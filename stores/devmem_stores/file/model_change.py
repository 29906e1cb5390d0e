"""Change of the embedding model: every chunk is embedded into a new file, which then replaces the old one.

Until then the old file stays as it is, usable with the old model. Interrupted, the work continues in the new file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from devmem import MemoryItem
from devmem.collections import Collection, SqliteCollection
from devmem.errors import CollectionBusyError, EmbeddingMismatchError
from devmem.stores import Embedder, Progress, embed_items

_AT_ONCE: Final = 256
_BESIDE: Final = ("", "-wal", "-shm", ".faiss")


def rebuild(location: str, old: Collection, embedder: Embedder, progress: Progress | None = None) -> int:
    """Embed every item of a collection into a new one that replaces it; `old` is closed then.

    Returns:
        Number of items embedded by this call.

    Raises:
        EmbeddingError: the provider does not answer; the old file is as it was.
        CollectionBusyError: another process uses the old file; the new one is kept for the next time.
        CollectionError: the new file cannot be written.
    """
    beside = f"{location}.rebuild"
    new = _open_new(beside, embedder, old)
    try:
        there = {item.id for item in new.scan()}
        done = 0
        for part in _batches(item for item in old.scan() if item.id not in there):
            bare = [replace(item, embedding=None) for item in part]
            new.add(embed_items(embedder, bare))
            done += len(part)
            if progress:
                progress(done)
        kept = {item.id for item in old.scan()}
        new.delete(ids=sorted(there - kept))
    finally:
        new.close()
    old.close()
    _put_in_place(beside, location)
    return done


def _open_new(beside: str, embedder: Embedder, old: Collection) -> Collection:
    def opened() -> SqliteCollection:
        return SqliteCollection(beside, model=embedder.identity, store_type="file")

    # The length of the vectors may be known to the provider's first answer only.
    if old.info().items:
        embedder.embed(["probe"])
    try:
        return opened()
    except EmbeddingMismatchError:
        _remove(beside)  # begun for a third model
        return opened()


def _batches(items: Iterator[MemoryItem]) -> Iterator[list[MemoryItem]]:
    while part := list(islice(items, _AT_ONCE)):
        yield part


def _put_in_place(beside: str, location: str) -> None:
    """Replace the old file while no process has it open: SQLite would apply its log to the new one."""
    guard = sqlite3.connect(location, timeout=1.0, isolation_level=None)
    try:
        guard.execute("PRAGMA locking_mode = EXCLUSIVE")
        mode = guard.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
        if mode != "delete":
            raise CollectionBusyError(location, "another process uses it")
        guard.execute("BEGIN EXCLUSIVE")
        Path(beside).replace(location)
    except sqlite3.OperationalError as error:
        raise CollectionBusyError(location, "another process uses it") from error
    finally:
        guard.close()
    Path(f"{location}.faiss").unlink(missing_ok=True)
    snapshot = Path(f"{beside}.faiss")
    if snapshot.exists():
        snapshot.replace(f"{location}.faiss")


def _remove(beside: str) -> None:
    for suffix in _BESIDE:
        Path(beside + suffix).unlink(missing_ok=True)
