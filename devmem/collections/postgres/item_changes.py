"""Changing items within one write transaction: the current ones, or those that a pending run sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devmem.collections.filter_sql import Sql
from devmem.collections.postgres import rows
from devmem.collections.postgres.adding import BatchWriter
from devmem.collections.postgres.attachments import inlined, read_attachments
from devmem.collections.postgres.claim import StoreModel, check_embeddings
from devmem.collections.postgres.database import composed
from devmem.collections.postgres.predicates import where_sql
from devmem.collections.postgres.recorder import FORGOTTEN, Recorder, remove_versions
from devmem.collections.postgres.runs import forget_runs, runs_of_versions
from devmem.collections.postgres.server.cleaning import note_erasure
from devmem.collections.prepared import PreparedItem
from devmem.collections.protocol import Unique
from devmem.model.items import MemoryItem
from devmem.model.results import WriteOutcome
from devmem.search.filters import Filter


class PostgresItemChanges:
    """Changes items by a recorder; see `ItemChanges`."""

    def __init__(self, recorder: Recorder, location: str, *, model: str | None, known: StoreModel, now: float) -> None:
        """Take what the changes need.

        Args:
            recorder: that of the write transaction.
            location: place of the store, for errors.
            model: name of the model that made the embeddings; None when it is not known.
            known: model and dimension of the store, which stay as they are until the transaction ends.
            now: seconds since the epoch; what had expired by then is not there.
        """
        self._recorder, self._location, self._model, self._now = recorder, location, model, now
        self._known = known
        self._connection, self._store = recorder.connection, recorder.store

    @property
    def removed(self) -> int:
        """Number of current items that were replaced or deleted."""
        return self._recorder.removed

    def add(
        self,
        batch: Sequence[PreparedItem],
        unique: Unique,
        expected: Mapping[str, str | None],
        absent: Filter | None,
    ) -> list[WriteOutcome]:
        """Store the items that are not stored already."""
        made = [item.embeddings for item in batch]
        has_model = check_embeddings(
            self._connection, self._location, self._store, self._model, made, known=self._known
        )
        self._recorder.purge()
        return BatchWriter(self._recorder, has_model=has_model, now=self._now).add(batch, unique, expected, absent)

    def pop(self, count: int, where: Filter) -> list[MemoryItem]:
        """Delete the items that match and were stored last; return them with attachments, newest first."""
        condition, values = where_sql(where, self._now)
        # What another transaction deletes meanwhile is passed over, once that is committed.
        found = self._connection.execute(
            composed(
                f"{rows.SELECT_WHOLE} WHERE items.store = %s AND {condition} ORDER BY items.row DESC LIMIT %s "
                "FOR UPDATE OF items"
            ),
            (self._store, *values, max(count, 0)),
            binary=True,
        ).fetchall()
        items = inlined(
            [rows.item_from(body, vector) for _, body, vector in found],
            lambda names: read_attachments(self._connection, self._store, names),
        )
        if found:
            self._recorder.end("row = ANY(%s)", [[row for row, *_ in found]], FORGOTTEN)
        return items

    def delete(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete the items with these ids that match the filter."""
        return self._recorder.end(*self._selection(ids, where), FORGOTTEN)

    def erase(self, ids: Sequence[str] | None, where: Filter | None) -> int:
        """Delete items as `delete` does, and for good the versions that match with all others of items that are gone.

        The recorder keeps versions: as such, the items that match lead to their older versions, which need not match.
        """
        deleted = self.delete(ids, where)
        condition, values = self._selection(ids, where)
        gone = (
            f"id_key IN (SELECT id_key FROM versions WHERE store = %s AND {condition}) "
            "AND NOT EXISTS (SELECT FROM items WHERE items.store = versions.store AND items.id_key = versions.id_key)"
        )
        erased, both = f"({condition}) OR ({gone})", [*values, self._store, *values]
        runs = runs_of_versions(self._connection, self._store, erased, both)
        remove_versions(self._connection, self._store, erased, both)
        forget_runs(self._connection, self._store, runs)
        # Also of what was deleted before, and of which no version was kept.
        note_erasure(self._connection, self._store)
        return deleted

    def trim(self, keep: int | None, stored_before: float | None) -> int:
        """Delete all but the newest items, and those stored before a time, for good."""
        deleted = 0
        if stored_before is not None:
            deleted += self._recorder.remove("created_at < %s", [stored_before])
        if keep is not None:
            current = "(expires_at IS NULL OR expires_at > %s)"
            query = f"SELECT row FROM items WHERE store = %s AND {current} ORDER BY row DESC OFFSET %s LIMIT 1"
            newest_surplus = self._connection.execute(composed(query), (self._store, self._now, max(keep, 0)))
            if (found := newest_surplus.fetchone()) is not None:
                deleted += self._recorder.remove(f"row <= %s AND {current}", [found[0], self._now])
        return deleted

    def _selection(self, ids: Sequence[str] | None, where: Filter | None) -> Sql:
        """Return the condition of items with these ids that match the filter; None for either does not restrict."""
        condition, values = where_sql(where, self._now) if where is not None else ("true", [])
        if ids is not None:
            return f"id_key = ANY(%s) AND {condition}", [list(map(rows.key_of, ids)), *values]
        return condition, values
