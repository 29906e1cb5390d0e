"""A store as of an earlier time, or as a pending run sees it, on connections of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from devmem.collections.postgres.database import Access, Connection
from devmem.collections.postgres.follower import PostgresFollower, Rows
from devmem.collections.postgres.reader import PostgresReader
from devmem.collections.postgres.searcher import FollowingSearcher
from devmem.collections.postgres.transactions import Database
from devmem.collections.read_only import ReadOnly
from devmem.config import IndexConfig


class ViewFollower(PostgresFollower):
    """Keeps the indexes of a view up to date: whatever changed, what the view still shows stays."""

    shows_all: ClassVar[bool] = False

    def _gone(self, connection: Connection, changes: Rows) -> list[int]:
        changed = {row for row, kind in changes if kind != "embedded"}
        query = "SELECT row FROM items WHERE store = %s AND row = ANY(%s)"
        found = connection.execute(query, (self._store, list(changed))) if changed else ()
        return sorted(changed - {row for (row,) in found})


class PostgresView(ReadOnly, PostgresReader):
    """A state of a store that is read only; `Collection` documents the methods."""

    def __init__(
        self,
        access: Access,
        store: int,
        *,
        index: IndexConfig,
        clock: Callable[[], float],
        model_name: Callable[[], str | None],
        state: str,
    ) -> None:
        """Connect on first use.

        Args:
            access: shows the state; see `Access.shown`.
            store: number of the store.
            index: how vectors are searched.
            clock: time of the view in seconds since the epoch: what has expired by it is not there.
            model_name: returns the name of the model that queries are embedded with.
            state: the state that it shows, for messages.
        """
        location = str(access.location)
        searcher = FollowingSearcher(location, store, ViewFollower(location, store, index))
        super().__init__(access, Database(access), store, searcher, clock)
        self._model_of_queries, self._state = model_name, state

    def _model_name(self) -> str | None:
        return self._model_of_queries()

    def close(self) -> None:
        """Release the connections and indexes of the view; the collection stays open."""
        self._searcher.close()
        self._database.close()
