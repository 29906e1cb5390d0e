"""Opening a SQLite collection by its location; the entry point `sqlite`."""

from __future__ import annotations

from typing import Final

from devmem.collections.opening import CollectionOptions
from devmem.collections.sqlite.collection import SqliteCollection
from devmem.errors import CollectionError

_PREFIX: Final = "sqlite:///"


def open_sqlite(location: str, options: CollectionOptions) -> SqliteCollection:
    """Open the SQLite file at a path, at `sqlite:///relative.db` or at `sqlite:////absolute.db`.

    Raises:
        CollectionError: it cannot be opened.
    """
    if "://" in location and not location.startswith(_PREFIX):
        raise CollectionError(location, "a file's URL has three slashes and its path, as in sqlite:///memory/store.db.")
    return SqliteCollection(
        location.removeprefix(_PREFIX),
        model=options.model,
        store_type=options.store_type,
        durability=options.durability,
        index=options.index,
        clock=options.clock,
        busy_timeout=options.busy_timeout,
        history_days=options.history_days,
    )
