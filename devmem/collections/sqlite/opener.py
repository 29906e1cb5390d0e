"""Opening a SQLite collection by its location; the entry point `sqlite`."""

from __future__ import annotations

from devmem.collections.locations import path_of
from devmem.collections.opening import CollectionOptions
from devmem.collections.sqlite.collection import SqliteCollection


def open_sqlite(location: str, options: CollectionOptions) -> SqliteCollection:
    """Open the SQLite file at a path, at `sqlite:///relative.db` or at `sqlite:////absolute.db`.

    Raises:
        CollectionError: it cannot be opened.
    """
    return SqliteCollection(
        path_of(location),
        model=options.model,
        store_type=options.store_type,
        durability=options.durability,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
        history_days=options.history_days,
    )
