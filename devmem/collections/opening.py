"""Choosing the collection from where a store's items are to live."""

from __future__ import annotations

import time
from collections.abc import Callable

from devmem.collections.json_file.collection import JsonCollection
from devmem.collections.protocol import Collection
from devmem.collections.sqlite.collection import SqliteCollection
from devmem.collections.sqlite.database import MEMORY, Durability
from devmem.config import IndexConfig
from devmem.embedding.base import ModelIdentity
from devmem.errors import CollectionError


def open_collection(
    location: str | None,
    *,
    model: ModelIdentity | None = None,
    store_type: str | None = None,
    durability: Durability = "full",
    index: IndexConfig | None = None,
    clock: Callable[[], float] = time.time,
) -> Collection:
    """Open the collection that a location names: None is memory, `x.json` DevAll's format, any other path SQLite.

    Raises:
        CollectionError: it cannot be opened; the error's type and text say why and what to do.
    """
    if location is None:
        return SqliteCollection(MEMORY, model=model, store_type=store_type, index=index, clock=clock)
    if "://" in location:
        scheme = location.split("://", 1)[0]
        raise CollectionError(
            f"{scheme}://...", "this version keeps items in files only; give a path such as memory/store.db."
        )
    if location.endswith(".json"):
        return JsonCollection(location, model=model, index=index, clock=clock)
    return SqliteCollection(
        location, model=model, store_type=store_type, durability=durability, index=index, clock=clock
    )
