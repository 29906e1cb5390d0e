"""Changing items within one write transaction: the current ones, or those that a pending run sees."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final

from devmem.collections.filter_sql import Sql
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.collections.recorded import Ending
from devmem.collections.sqlite import model_check, predicates, rows
from devmem.collections.sqlite.adding import ItemWriter, check_absent, check_versions
from devmem.collections.sqlite.reader import Opened
from devmem.collections.sqlite.recorder import Recorder, remove_versions
from devmem.collections.sqlite.runs import forget_runs, runs_of_versions
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.model.versions import Operation
from devmem.search.filters import Filter

_FORGOTTEN: Final = Ending(operation=Operation.FORGET)


def surplus_of(connection: sqlite3.Connection, total: int, keep: int, now: float) -> int:
    """Return by how many a number of items is more than `keep`; what has expired at `now` takes no item's place."""
    if total <= keep:
        return 0
    (expired,) = connection.execute("SELECT count(*) FROM items WHERE expires_at <= ?", (now,)).fetchone()
    return max(total - int(expired) - keep, 0)


class SqliteItemChanges:
    """Changes items by a recorder; see `ItemChanges`."""

    def __init__(self, recorder: Recorder, opened: Opened, *, model: str | None, has_model: bool) -> None:
        """Take what the changes need.

        Args:
            recorder: that of the write transaction.
            opened: the database.
            model: name of the model that made the embeddings; None when it is not known.
            has_model: whether items are embedded at all.
        """
        self._recorder, self._opened, self._model, self._has_model = recorder, opened, model, has_model
        self._now = opened.clock()

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        connection, damaged = self._recorder.connection, self._opened.damaged
        self._recorder.purge()
        made = (item.embeddings for item in batch)
        model_check.check_embeddings(connection, self._opened.location, self._model, made)
        check_versions(connection, damaged, expected, self._now)
        if absent is not None:
            check_absent(connection, self._condition(absent))
        writer = ItemWriter(self._recorder, damaged, has_model=self._has_model, now=self._now)
        return [writer.add(item, unique) for item in batch]

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last, at most `count`; return those that can be read."""
        condition, values = self._condition(where)
        clause = f"WHERE {condition} ORDER BY items.row DESC LIMIT ?"
        query, parameters = f"{rows.SELECT_WHOLE} {clause}", (*values, max(count, 0))
        found = self._recorder.connection.execute(query, parameters).fetchall()
        items = rows.intact_items([(each[0], rows.item_from_row(self._opened.damaged, *each)) for each in found])
        for number, *_ in found:
            self._recorder.end("row = ?", [number], _FORGOTTEN)
        attachments = self._opened.attachments
        return items if attachments is None else [attachments.resolve(item) for item in items]

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter."""
        condition, values = self._condition(where)
        if ids is None:
            return self._recorder.end(condition, values, _FORGOTTEN)
        named = map(rows.sql_text, ids)
        return sum(self._recorder.end(f"id = ? AND {condition}", [one, *values], _FORGOTTEN) for one in named)

    def erase(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items as `delete` does, and for good the versions that match with all others of items that are gone.

        The recorder keeps versions: as such, the items that match lead to their older versions, which need not match.
        """
        deleted = self.delete(ids, where)
        condition, values = self._condition(where)
        gone = f"id IN (SELECT id FROM versions WHERE {condition}) AND id NOT IN (SELECT id FROM items)"
        if ids is None:
            self._erase_versions(f"({condition}) OR ({gone})", [*values, *values])
        for one in map(rows.sql_text, ids or ()):
            self._erase_versions(f"id = ? AND (({condition}) OR ({gone}))", [one, *values, *values])
        return deleted

    def _erase_versions(self, condition: str, values: Sequence[object]) -> None:
        connection = self._recorder.connection
        runs = runs_of_versions(connection, condition, values)
        remove_versions(connection, self._recorder.attachments, condition, values)
        forget_runs(connection, runs)

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, for good."""
        recorder, deleted = self._recorder, 0
        if stored_before is not None:
            deleted += recorder.remove("created_at < ?", [stored_before])
        if keep is not None:
            surplus = surplus_of(recorder.connection, recorder.count(), keep, self._now)
            oldest = "row IN (SELECT row FROM items WHERE expires_at IS NULL OR expires_at > ? ORDER BY row LIMIT ?)"
            deleted += recorder.remove(oldest, [self._now, surplus]) if surplus else 0
        return deleted

    def _condition(self, where: Filter | None) -> Sql:
        if where is None:
            return "1", []
        indexed = frozenset(self._opened.index.metadata if self._opened.index else ())
        return predicates.where_sql(where, self._now, indexed)
