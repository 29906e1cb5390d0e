"""The outbox of a `role_zero` store: items in the shared outbox, under their ids, looked up as in a collection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from devmem import Filter, MemoryItem
from devmem.collections import Erasing, open_collection
from devmem.collections.wrappers import Outbox
from devmem.stores import dump_item, load_item

_OLD_STORE_TYPE: Final = "role_zero outbox"


def open_outbox(file: Path) -> Outbox[MemoryItem]:
    """Return the outbox of a file."""
    return Outbox(file, dump=_dump, load=lambda body: load_item(json.loads(body)))


def _dump(item: MemoryItem) -> str:
    # The embedding is made when the item is stored.
    return json.dumps(dump_item(replace(item, embedding=None)))


class WaitingItems:
    """The items in an outbox; there are none without an outbox."""

    def __init__(self, outbox: Outbox[MemoryItem] | None, clock: Callable[[], float]) -> None:
        """Look into an outbox; `clock` returns the time in seconds since the epoch, for what has expired."""
        self._outbox, self._clock = outbox, clock

    def newest_first(self, where: Filter | None = None) -> Iterator[MemoryItem]:
        """Yield the items that match, the one that came last first."""
        if self._outbox is None:
            return
        where, now = where or Filter(), self._clock()
        for entry in self._outbox.entries(newest_first=True):
            if where.admits(entry.value, now):
                yield entry.value

    def erasable(self, erasing: Erasing) -> list[MemoryItem]:
        """Return the items that are selected to be erased, expired and rejected ones included."""
        if self._outbox is None:
            return []
        return [entry.value for entry in self._outbox.entries(rejected=True) if erasing.admits(entry.value)]

    def newest(self, limit: int, where: Filter | None = None) -> list[MemoryItem]:
        """Return at most `limit` matching items, newest first."""
        return list(islice(self.newest_first(where), max(limit, 0)))

    def get(self, ids: Sequence[str]) -> list[MemoryItem]:
        """Return the items that wait, in the order of `ids`."""
        return [entry.value for entry in self._outbox.get(ids)] if self._outbox is not None else []

    def delete(self, *, ids: Sequence[str] | None = None, where: Filter | None = None) -> int:
        """Forget the named items, or the matching ones; return their number."""
        if self._outbox is None:
            return 0
        if ids is None:
            ids = [item.id for item in self.newest_first(where)] if where is not None else []
        return self._outbox.remove(ids)


def adopt_old_outbox(file: Path, outbox: Outbox[MemoryItem], clock: Callable[[], float]) -> None:
    """Take over the items of an outbox that devmem 0.1.0 kept: a collection in the same file.

    Raises:
        CollectionError: the file cannot be used.
    """
    if not file.exists() or not _holds_items(file):
        return
    with closing(open_collection(str(file), store_type=_OLD_STORE_TYPE, clock=clock)) as old:
        items = list(old.scan())
        outbox.put({item.id: item for item in items})
        # Killed before this, they are adopted again under the same keys.
        old.delete(ids=[item.id for item in items])


def _holds_items(file: Path) -> bool:
    with closing(sqlite3.connect(file)) as db:
        try:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            return "items" in tables and db.execute("SELECT 1 FROM items LIMIT 1").fetchone() is not None
        except sqlite3.DatabaseError:
            # The outbox itself reports what is wrong with the file.
            return False
